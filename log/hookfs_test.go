package log

import (
	"io/fs"
	"os"

	"github.com/mortarmq/mortarmq/env"
)

// hookFS calls hook before every operation that changes something; an error it
// returns is the operation's result, and nothing is done.
type hookFS struct {
	env.FS
	hook func(op, name string) error
}

func (h *hookFS) OpenFile(name string, flag int, perm fs.FileMode) (env.File, error) {
	if flag&os.O_CREATE != 0 {
		if err := h.hook("create", name); err != nil {
			return nil, err
		}
	}
	f, err := h.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &hookFile{File: f, fs: h}, nil
}

func (h *hookFS) Rename(from, to string) error {
	if err := h.hook("rename", to); err != nil {
		return err
	}
	return h.FS.Rename(from, to)
}

func (h *hookFS) Remove(name string) error {
	if err := h.hook("remove", name); err != nil {
		return err
	}
	return h.FS.Remove(name)
}

func (h *hookFS) SyncDir(name string) error {
	if err := h.hook("syncdir", name); err != nil {
		return err
	}
	return h.FS.SyncDir(name)
}

type hookFile struct {
	env.File
	fs *hookFS
}

func (f *hookFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.fs.hook("write", f.Name()); err != nil {
		return 0, err
	}
	return f.File.WriteAt(p, off)
}

func (f *hookFile) WritevAt(bufs [][]byte, off int64) (int, error) {
	if err := f.fs.hook("write", f.Name()); err != nil {
		return 0, err
	}
	return f.File.WritevAt(bufs, off)
}

func (f *hookFile) Sync() error {
	if err := f.fs.hook("sync", f.Name()); err != nil {
		return err
	}
	return f.File.Sync()
}

func (f *hookFile) Truncate(size int64) error {
	if err := f.fs.hook("truncate", f.Name()); err != nil {
		return err
	}
	return f.File.Truncate(size)
}

func (f *hookFile) Allocate(size int64) error {
	if err := f.fs.hook("allocate", f.Name()); err != nil {
		return err
	}
	return f.File.Allocate(size)
}
