package env

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"syscall"
)

// MemFS is a disk in memory. Files are sparse: ranges that hold only zeros
// because they were never written otherwise take no memory, so a segment
// prepared with 64 MiB of zeros is cheap. It has no faults and forgets nothing;
// Sync and SyncDir only check their arguments.
type MemFS struct {
	mu    sync.Mutex
	nodes map[string]*memNode // by cleaned path; directories have dir set
	locks map[string]bool
}

// NewMemFS returns an empty disk with the directories "/" and ".".
func NewMemFS() *MemFS {
	return &MemFS{
		nodes: map[string]*memNode{"/": {dir: true}, ".": {dir: true}},
		locks: map[string]bool{},
	}
}

// memPage is the unit of sparseness in bytes.
const memPage = 32 << 10

// memNode is an inode: it lives on while a handle is open, also when its name
// is gone.
type memNode struct {
	dir bool

	mu    sync.RWMutex
	size  int64
	pages map[int64]*[memPage]byte // by offset / memPage; missing = zeros
}

func pathErr(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// hasParent reports whether the directory that would hold name exists.
func (m *MemFS) hasParent(name string) bool {
	n := m.nodes[filepath.Dir(name)]
	return n != nil && n.dir
}

// OpenFile implements FS.
func (m *MemFS) OpenFile(name string, flag int, _ fs.FileMode) (File, error) {
	if flag&os.O_APPEND != 0 {
		return nil, pathErr("open", name, syscall.EINVAL)
	}
	path := filepath.Clean(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.nodes[path]
	writable := flag&(os.O_RDWR|os.O_WRONLY) != 0
	switch {
	case n == nil && flag&os.O_CREATE == 0:
		return nil, pathErr("open", name, syscall.ENOENT)
	case n == nil && !m.hasParent(path):
		return nil, pathErr("open", name, syscall.ENOENT)
	case n == nil:
		n = &memNode{pages: map[int64]*[memPage]byte{}}
		m.nodes[path] = n
	case flag&os.O_CREATE != 0 && flag&os.O_EXCL != 0:
		return nil, pathErr("open", name, syscall.EEXIST)
	case n.dir && writable:
		return nil, pathErr("open", name, syscall.EISDIR)
	}
	if flag&os.O_TRUNC != 0 && writable {
		n.truncate(0)
	}
	return &memFile{node: n, name: name, writable: writable}, nil
}

// MkdirAll implements FS.
func (m *MemFS) MkdirAll(name string, _ fs.FileMode) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for path := filepath.Clean(name); ; path = filepath.Dir(path) {
		n := m.nodes[path]
		if n != nil && !n.dir {
			return pathErr("mkdir", path, syscall.ENOTDIR)
		}
		if n != nil {
			return nil
		}
		m.nodes[path] = &memNode{dir: true}
	}
}

// Rename implements FS, for files and for directories that are empty.
func (m *MemFS) Rename(oldName, newName string) error {
	from, to := filepath.Clean(oldName), filepath.Clean(newName)
	m.mu.Lock()
	defer m.mu.Unlock()
	n, target := m.nodes[from], m.nodes[to]
	var err error
	switch {
	case n == nil || !m.hasParent(to):
		err = syscall.ENOENT
	case n.dir && len(m.children(from)) > 0:
		err = syscall.ENOTSUP
	case target != nil && target.dir != n.dir:
		err = syscall.EISDIR
	}
	if err != nil {
		return &os.LinkError{Op: "rename", Old: oldName, New: newName, Err: err}
	}
	delete(m.nodes, from)
	m.nodes[to] = n
	return nil
}

// Remove implements FS.
func (m *MemFS) Remove(name string) error {
	path := filepath.Clean(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.nodes[path]
	if n == nil {
		return pathErr("remove", name, syscall.ENOENT)
	}
	if n.dir && len(m.children(path)) > 0 {
		return pathErr("remove", name, syscall.ENOTEMPTY)
	}
	delete(m.nodes, path)
	return nil
}

// ReadDir implements FS.
func (m *MemFS) ReadDir(name string) ([]string, error) {
	path := filepath.Clean(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.nodes[path]
	switch {
	case n == nil:
		return nil, pathErr("open", name, syscall.ENOENT)
	case !n.dir:
		return nil, pathErr("readdirent", name, syscall.ENOTDIR)
	}
	return m.children(path), nil
}

func (m *MemFS) children(dir string) []string {
	var names []string
	for path := range m.nodes {
		if path != dir && filepath.Dir(path) == dir && !strings.HasSuffix(path, "/") {
			names = append(names, filepath.Base(path))
		}
	}
	sort.Strings(names)
	return names
}

// Stat implements FS.
func (m *MemFS) Stat(name string) (Info, error) {
	m.mu.Lock()
	n := m.nodes[filepath.Clean(name)]
	m.mu.Unlock()
	if n == nil {
		return Info{}, pathErr("stat", name, syscall.ENOENT)
	}
	n.mu.RLock()
	defer n.mu.RUnlock()
	return Info{Size: n.size, Dir: n.dir}, nil
}

// SyncDir implements FS.
func (m *MemFS) SyncDir(name string) error {
	st, err := m.Stat(name)
	if err == nil && !st.Dir {
		err = pathErr("sync", name, syscall.ENOTDIR)
	}
	return err
}

// Lock implements FS: the lock excludes others that use the same MemFS.
func (m *MemFS) Lock(name string) (io.Closer, error) {
	path := filepath.Clean(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.locks[path] {
		return nil, &LockedError{Name: name, PID: os.Getpid()}
	}
	if !m.hasParent(path) {
		return nil, pathErr("open", name, syscall.ENOENT)
	}
	if m.nodes[path] == nil {
		m.nodes[path] = &memNode{pages: map[int64]*[memPage]byte{}}
	}
	m.locks[path] = true
	return &memLock{m: m, path: path}, nil
}

type memLock struct {
	m    *MemFS
	path string
}

func (l *memLock) Close() error {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	if !l.m.locks[l.path] {
		return os.ErrClosed
	}
	delete(l.m.locks, l.path)
	return nil
}
