package env

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"sort"

	"golang.org/x/sys/unix"
)

// maxIovecs is how many buffers one pwritev takes (IOV_MAX on Linux).
const maxIovecs = 1024

// OS returns the machine's own disk.
func OS() FS { return osFS{} }

type osFS struct{}

func (osFS) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	f, err := os.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &osFile{f: f, fd: int(f.Fd())}, nil
}

func (osFS) MkdirAll(name string, perm fs.FileMode) error { return os.MkdirAll(name, perm) }
func (osFS) Rename(oldName, newName string) error         { return os.Rename(oldName, newName) }
func (osFS) Remove(name string) error                     { return os.Remove(name) }

func (osFS) ReadDir(name string) ([]string, error) {
	d, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	names, err := d.Readdirnames(-1)
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	sort.Strings(names)
	return names, err
}

func (osFS) Stat(name string) (Info, error) {
	st, err := os.Stat(name)
	if err != nil {
		return Info{}, err
	}
	return Info{Size: st.Size(), Dir: st.IsDir()}, nil
}

func (osFS) SyncDir(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	err = d.Sync()
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	return err
}

// osFile keeps the descriptor beside the os.File because fdatasync, fallocate
// and pwritev have no method there; the os.File still owns it.
type osFile struct {
	f  *os.File
	fd int
}

func (f *osFile) ReadAt(p []byte, off int64) (int, error)  { return f.f.ReadAt(p, off) }
func (f *osFile) WriteAt(p []byte, off int64) (int, error) { return f.f.WriteAt(p, off) }
func (f *osFile) Truncate(size int64) error                { return f.f.Truncate(size) }
func (f *osFile) Close() error                             { return f.f.Close() }
func (f *osFile) Name() string                             { return f.f.Name() }

func (f *osFile) Size() (int64, error) {
	st, err := f.f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

func (f *osFile) WritevAt(bufs [][]byte, off int64) (int, error) {
	total := 0
	for len(bufs) > 0 {
		part := bufs[:min(len(bufs), maxIovecs)]
		n, err := f.writeRun(part, off+int64(total))
		total += n
		if err != nil {
			return total, f.fault("pwritev", err)
		}
		bufs = bufs[len(part):]
	}
	return total, nil
}

// writeRun writes at most maxIovecs buffers completely.
func (f *osFile) writeRun(bufs [][]byte, off int64) (int, error) {
	want := 0
	for _, b := range bufs {
		want += len(b)
	}
	done := 0
	for done < want {
		n, err := unix.Pwritev(f.fd, bufs, off+int64(done))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return done, err
		}
		if n == 0 {
			return done, io.ErrShortWrite
		}
		done += n
		if done < want {
			bufs = dropBytes(bufs, n)
		}
	}
	return done, nil
}

// dropBytes returns bufs without its first n bytes, as a slice of its own.
func dropBytes(bufs [][]byte, n int) [][]byte {
	for len(bufs) > 0 && n >= len(bufs[0]) {
		n -= len(bufs[0])
		bufs = bufs[1:]
	}
	rest := append([][]byte(nil), bufs...)
	if n > 0 {
		rest[0] = rest[0][n:]
	}
	return rest
}

func (f *osFile) Sync() error {
	for {
		err := unix.Fdatasync(f.fd)
		if err != unix.EINTR {
			return f.fault("fdatasync", err)
		}
	}
}

// Allocate falls back to extending the file where the file system cannot
// reserve space (tmpfs of old kernels, network file systems).
func (f *osFile) Allocate(size int64) error {
	for {
		err := unix.Fallocate(f.fd, 0, 0, size)
		switch {
		case err == nil:
			return nil
		case err == unix.EINTR:
			continue
		case errors.Is(err, unix.EOPNOTSUPP):
			return f.extend(size)
		default:
			return f.fault("fallocate", err)
		}
	}
}

func (f *osFile) extend(size int64) error {
	have, err := f.Size()
	if err != nil || have >= size {
		return err
	}
	return f.Truncate(size)
}

func (f *osFile) fault(op string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: f.f.Name(), Err: err}
}
