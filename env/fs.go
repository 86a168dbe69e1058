package env

import (
	"fmt"
	"io"
	"io/fs"
)

// FS is a disk. Names are paths as the operating system takes them. Errors are
// *fs.PathError or *os.LinkError as package os returns them, so errors.Is with
// fs.ErrNotExist, syscall.ENOSPC and the like works with every implementation.
//
// All methods may be called from several goroutines at once.
type FS interface {
	// OpenFile opens or creates a file; flag is one of os.O_RDONLY, os.O_RDWR,
	// with os.O_CREATE, os.O_EXCL, os.O_TRUNC. os.O_APPEND is not supported. A
	// new name is durable after SyncDir of its directory.
	OpenFile(name string, flag int, perm fs.FileMode) (File, error)
	// MkdirAll creates a directory with its parents; existing ones are fine.
	MkdirAll(name string, perm fs.FileMode) error
	// Rename replaces newName in one step. It is durable after SyncDir.
	Rename(oldName, newName string) error
	// Remove deletes a file or an empty directory.
	Remove(name string) error
	// ReadDir returns the names (not paths) in a directory, sorted.
	ReadDir(name string) ([]string, error)
	// Stat returns a file's size in bytes, and whether it is a directory.
	Stat(name string) (Info, error)
	// SyncDir makes creations, renames and removals in a directory durable.
	SyncDir(name string) error
	// Lock takes an exclusive lock on the named file, creating it when it is
	// missing, and writes the process id into it. It does not wait: a lock held
	// by somebody else is a *LockedError. The lock ends with Close or with the
	// process, however it ends; the file stays.
	Lock(name string) (io.Closer, error)
}

// Info is what Stat tells about a name.
type Info struct {
	Size int64 // bytes
	Dir  bool
}

// File is an open file. Reads and writes name their offset; there is no
// position. ReadAt may be called from several goroutines at once, and beside
// one goroutine that writes.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer

	// WritevAt writes all bytes of bufs, one after the other, at off. It keeps
	// no reference to bufs and changes nothing in it. After an error any part of
	// the bytes may have been written.
	WritevAt(bufs [][]byte, off int64) (int, error)
	// Sync makes the file's bytes and its size durable (fdatasync). After a
	// failure nothing is known about bytes written since the last success, and
	// calling it again proves nothing.
	Sync() error
	// Truncate cuts the file to size bytes or extends it with zeros.
	Truncate(size int64) error
	// Allocate reserves disk space for the first size bytes and extends the
	// file to at least that size; new bytes read as zeros (fallocate).
	Allocate(size int64) error
	// Size returns the file's length in bytes.
	Size() (int64, error)
	// Name returns the name the file was opened with.
	Name() string
}

// LockedError says that somebody else holds a lock; FS.Lock returns it.
type LockedError struct {
	Name string // the lock file
	PID  int    // the holder, 0 when the file does not tell
}

func (e *LockedError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("%s is locked by another process", e.Name)
	}
	return fmt.Sprintf("%s is locked by process %d", e.Name, e.PID)
}
