package env

import (
	"io"
	"os"
	"sync/atomic"
	"syscall"
)

// memFile is a handle on a memNode.
type memFile struct {
	node     *memNode
	name     string
	writable bool
	closed   atomic.Bool
}

// check returns the error an operation on this handle must fail with.
func (f *memFile) check(op string, write bool) error {
	switch {
	case f.closed.Load():
		return pathErr(op, f.name, os.ErrClosed)
	case f.node.dir:
		return pathErr(op, f.name, syscall.EISDIR)
	case write && !f.writable:
		return pathErr(op, f.name, syscall.EBADF)
	}
	return nil
}

func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.check("read", false); err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, pathErr("read", f.name, syscall.EINVAL)
	}
	return f.node.readAt(p, off)
}

func (f *memFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.check("write", true); err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, pathErr("write", f.name, syscall.EINVAL)
	}
	f.node.writeAt(p, off)
	return len(p), nil
}

func (f *memFile) WritevAt(bufs [][]byte, off int64) (int, error) {
	total := 0
	for _, b := range bufs {
		n, err := f.WriteAt(b, off+int64(total))
		total += n
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

func (f *memFile) Sync() error {
	if err := f.check("fdatasync", false); err != nil {
		return err
	}
	return nil
}

func (f *memFile) Truncate(size int64) error {
	if err := f.check("truncate", true); err != nil {
		return err
	}
	if size < 0 {
		return pathErr("truncate", f.name, syscall.EINVAL)
	}
	f.node.truncate(size)
	return nil
}

func (f *memFile) Allocate(size int64) error {
	if err := f.check("fallocate", true); err != nil {
		return err
	}
	f.node.mu.Lock()
	defer f.node.mu.Unlock()
	f.node.size = max(f.node.size, size)
	return nil
}

func (f *memFile) Size() (int64, error) {
	if f.closed.Load() {
		return 0, pathErr("stat", f.name, os.ErrClosed)
	}
	f.node.mu.RLock()
	defer f.node.mu.RUnlock()
	return f.node.size, nil
}

func (f *memFile) Name() string { return f.name }

func (f *memFile) Close() error {
	if f.closed.Swap(true) {
		return pathErr("close", f.name, os.ErrClosed)
	}
	return nil
}

func (n *memNode) readAt(p []byte, off int64) (int, error) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if off >= n.size {
		return 0, io.EOF
	}
	want := min(int64(len(p)), n.size-off)
	for done := int64(0); done < want; {
		at := off + done
		span := min(want-done, memPage-at%memPage)
		part := p[done : done+span]
		if page := n.pages[at/memPage]; page != nil {
			copy(part, page[at%memPage:])
		} else {
			clear(part)
		}
		done += span
	}
	if want < int64(len(p)) {
		return int(want), io.EOF
	}
	return int(want), nil
}

func (n *memNode) writeAt(p []byte, off int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.size = max(n.size, off+int64(len(p)))
	for len(p) > 0 {
		span := min(int64(len(p)), memPage-off%memPage)
		part := p[:span]
		page := n.pages[off/memPage]
		if page == nil && !allZero(part) {
			page = new([memPage]byte)
			n.pages[off/memPage] = page
		}
		if page != nil {
			copy(page[off%memPage:], part)
		}
		p, off = p[span:], off+span
	}
}

func (n *memNode) truncate(size int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if size < n.size {
		for i, page := range n.pages {
			start := i * memPage
			if start >= size {
				delete(n.pages, i)
			} else if start+memPage > size {
				clear(page[size-start:])
			}
		}
	}
	n.size = size
}

func allZero(p []byte) bool {
	for _, b := range p {
		if b != 0 {
			return false
		}
	}
	return true
}
