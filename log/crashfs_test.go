package log

import (
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sort"
	"sync"

	"github.com/mortarmq/mortarmq/env"
)

var errPower = errors.New("the power is gone")

// crashFS is a disk with one directory that loses its power after a number of
// operations. Of bytes and renames not synced by then some survive, as the
// random source has it.
type crashFS struct {
	mu      sync.Mutex
	r       *rand.Rand
	left    int // changing operations until the power goes
	dir     map[string]*crashNode
	durable map[string]*crashNode // dir as of the last SyncDir
	changes []func(map[string]*crashNode)
	kill    bool       // the process ends, not the power: the kernel keeps everything
	over    bool       // no operation succeeds any more
	after   *env.MemFS // what is on disk after the crash; nil before
}

type crashNode struct{ live, durable []byte }

const crashDir = "/log"

// newCrashFS returns a disk with the files of image, all of them durable. seed
// decides what survives.
func newCrashFS(image *env.MemFS, seed uint64, operations int) (*crashFS, error) {
	c := &crashFS{r: rand.New(rand.NewPCG(seed, 2)), left: operations, dir: map[string]*crashNode{}, durable: map[string]*crashNode{}}
	names, err := image.ReadDir(crashDir)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		data, err := readFile(image, filepath.Join(crashDir, name))
		if err != nil {
			return nil, err
		}
		n := &crashNode{live: data, durable: append([]byte(nil), data...)}
		c.dir[name], c.durable[name] = n, n
	}
	return c, nil
}

func readFile(disk env.FS, name string) ([]byte, error) {
	f, err := disk.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	data := make([]byte, size)
	if n, err := f.ReadAt(data, 0); n < len(data) {
		return nil, err
	}
	return data, nil
}

func writeFile(disk env.FS, name string, data []byte) error {
	f, err := disk.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteAt(data, 0)
	return err
}

// step does one changing operation, unless the power is gone. The operation
// during which it goes is cut short: do has happened, its success is unknown.
func (c *crashFS) step(do func()) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return errPower
	}
	do()
	if c.left--; c.left > 0 {
		return nil
	}
	if c.over = true; !c.kill {
		c.crash()
	}
	return errPower
}

// crash decides what survives. The caller holds mu.
func (c *crashFS) crash() {
	c.over = true
	c.after = env.NewMemFS()
	c.after.MkdirAll(crashDir, 0o700)
	for _, change := range c.changes[:c.r.IntN(len(c.changes)+1)] {
		change(c.durable)
	}
	names := make([]string, 0, len(c.durable))
	for name := range c.durable {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		if err := writeFile(c.after, filepath.Join(crashDir, name), c.surviving(c.durable[name])); err != nil {
			panic(err)
		}
	}
}

func (c *crashFS) surviving(n *crashNode) []byte {
	unit, p := 512, 0.5
	switch c.r.IntN(5) {
	case 0:
		p = 0 // nothing unsynced survives
	case 1:
		p = 1
	case 2:
		unit = 4096
	case 3:
		p = 0.9
	}
	size := len(n.durable)
	if c.r.Float64() < p {
		size = len(n.live)
	}
	out := make([]byte, size)
	for off := 0; off < size; off += unit {
		from := n.durable
		if c.r.Float64() < p {
			from = n.live
		}
		if off < len(from) {
			copy(out[off:min(off+unit, size)], from[off:])
		}
	}
	return out
}

// disk returns what is on the disk after the crash, which happens now if it has
// not yet.
func (c *crashFS) disk() *env.MemFS {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.after == nil {
		c.crash()
	}
	return c.after
}

// restart lets a new process use the disk, with what the kernel still knows.
func (c *crashFS) restart() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left, c.over, c.kill = 1<<30, false, false
}

func (c *crashFS) change(do func(dir map[string]*crashNode)) {
	do(c.dir)
	c.changes = append(c.changes, do)
}

func (c *crashFS) OpenFile(name string, flag int, _ fs.FileMode) (env.File, error) {
	base := filepath.Base(name)
	c.mu.Lock()
	n := c.dir[base]
	c.mu.Unlock()
	if n == nil && flag&os.O_CREATE == 0 {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	f := &crashFile{fs: c, name: name, node: n}
	if n == nil {
		f.node = &crashNode{}
		return f, c.step(func() {
			c.change(func(dir map[string]*crashNode) { dir[base] = f.node })
		})
	}
	if flag&os.O_TRUNC != 0 {
		return f, f.Truncate(0)
	}
	return f, nil
}

func (c *crashFS) MkdirAll(string, fs.FileMode) error { return nil }

func (c *crashFS) Rename(from, to string) error {
	from, to = filepath.Base(from), filepath.Base(to)
	return c.step(func() {
		c.change(func(dir map[string]*crashNode) { dir[to] = dir[from]; delete(dir, from) })
	})
}

func (c *crashFS) Remove(name string) error {
	base := filepath.Base(name)
	return c.step(func() {
		c.change(func(dir map[string]*crashNode) { delete(dir, base) })
	})
}

func (c *crashFS) ReadDir(string) ([]string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var names []string
	for name := range c.dir {
		names = append(names, name)
	}
	sort.Strings(names)
	return names, nil
}

func (c *crashFS) Stat(string) (env.Info, error)  { panic("the log does not call Stat") }
func (c *crashFS) Lock(string) (io.Closer, error) { panic("the log does not call Lock") }

func (c *crashFS) SyncDir(string) error {
	survives := func() {
		for _, change := range c.changes {
			change(c.durable)
		}
		c.changes = nil
	}
	return c.step(func() {
		if c.left > 1 || c.r.IntN(2) == 0 {
			survives()
		}
	})
}

type crashFile struct {
	fs   *crashFS
	name string
	node *crashNode
}

func (f *crashFile) Name() string { return f.name }
func (f *crashFile) Close() error { return nil }

func (f *crashFile) Size() (int64, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	return int64(len(f.node.live)), nil
}

func (f *crashFile) ReadAt(p []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if off >= int64(len(f.node.live)) {
		return 0, io.EOF
	}
	n := copy(p, f.node.live[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// resize must be called with the lock held.
func (n *crashNode) resize(size int64) {
	if size <= int64(len(n.live)) {
		n.live = n.live[:size]
		return
	}
	n.live = append(n.live, make([]byte, size-int64(len(n.live)))...)
}

func (f *crashFile) WriteAt(p []byte, off int64) (int, error) {
	return f.WritevAt([][]byte{p}, off)
}

func (f *crashFile) WritevAt(bufs [][]byte, off int64) (total int, err error) {
	return total, f.fs.step(func() {
		for _, b := range bufs {
			end := off + int64(len(b))
			if end > int64(len(f.node.live)) {
				f.node.resize(end)
			}
			copy(f.node.live[off:], b)
			off, total = end, total+len(b)
		}
	})
}

func (f *crashFile) Sync() error {
	return f.fs.step(func() {
		if f.fs.left > 1 || f.fs.r.IntN(2) == 0 { // the last one may not get there
			f.node.durable = append(f.node.durable[:0], f.node.live...)
		}
	})
}

func (f *crashFile) Truncate(size int64) error {
	return f.fs.step(func() { f.node.resize(size) })
}

func (f *crashFile) Allocate(size int64) error {
	return f.fs.step(func() {
		if size > int64(len(f.node.live)) {
			f.node.resize(size)
		}
	})
}
