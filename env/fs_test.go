package env

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// onBoth runs a statement about FS on the real disk and on the one in memory.
func onBoth(t *testing.T, f func(t *testing.T, disk FS, dir string)) {
	t.Run("OS", func(t *testing.T) { f(t, OS(), t.TempDir()) })
	t.Run("MemFS", func(t *testing.T) {
		disk := NewMemFS()
		if err := disk.MkdirAll("/tmp/dir", 0o755); err != nil {
			t.Fatal(err)
		}
		f(t, disk, "/tmp/dir")
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func create(t *testing.T, disk FS, name string) File {
	t.Helper()
	f, err := disk.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	must(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

// content returns all bytes of a file.
func content(t *testing.T, f File) []byte {
	t.Helper()
	size, err := f.Size()
	must(t, err)
	data := make([]byte, size)
	if n, err := f.ReadAt(data, 0); int64(n) != size {
		t.Fatalf("ReadAt: %d of %d bytes, %v", n, size, err)
	}
	return data
}

func TestFileHoldsWhatIsWritten(t *testing.T) {
	onBoth(t, func(t *testing.T, disk FS, dir string) {
		seed := rand.Uint64()
		r := rand.New(rand.NewPCG(seed, 0))
		f := create(t, disk, filepath.Join(dir, "f"))
		var want []byte
		resize := func(n int) {
			if n > len(want) {
				want = append(want, make([]byte, n-len(want))...)
			}
		}
		for range 300 {
			off, n := r.IntN(200_000), r.IntN(100_000)
			switch r.IntN(5) {
			case 0:
				must(t, f.Truncate(int64(off)))
				resize(off)
				want = want[:off]
			case 1:
				must(t, f.Allocate(int64(off)))
				resize(off)
			case 2:
				data := make([]byte, n) // zeros, which MemFS does not store
				_, err := f.WriteAt(data, int64(off))
				must(t, err)
				resize(off + n)
				copy(want[off:], data)
			default:
				var bufs [][]byte
				var flat []byte
				for range r.IntN(3000) {
					b := bytes.Repeat([]byte{byte(r.Uint32())}, r.IntN(40))
					bufs, flat = append(bufs, b), append(flat, b...)
				}
				got, err := f.WritevAt(bufs, int64(off))
				must(t, err)
				if got != len(flat) {
					t.Fatalf("WritevAt wrote %d of %d bytes, seed %d", got, len(flat), seed)
				}
				if len(flat) > 0 {
					resize(off + len(flat))
					copy(want[off:], flat)
				}
			}
			must(t, f.Sync())
			if !bytes.Equal(content(t, f), want) {
				t.Fatalf("the file differs, seed %d", seed)
			}
		}
		if n, err := f.ReadAt(make([]byte, 10), int64(len(want))-3); len(want) >= 3 && (n != 3 || !errors.Is(err, io.EOF)) {
			t.Errorf("reading across the end: %d bytes, %v", n, err)
		}
		if n, err := f.ReadAt(make([]byte, 10), int64(len(want))+100); n != 0 || !errors.Is(err, io.EOF) {
			t.Errorf("reading behind the end: %d bytes, %v", n, err)
		}
	})
}

func TestNames(t *testing.T) {
	onBoth(t, func(t *testing.T, disk FS, dir string) {
		a, b, c := filepath.Join(dir, "a"), filepath.Join(dir, "b"), filepath.Join(dir, "sub", "deep", "c")
		if _, err := disk.OpenFile(a, os.O_RDONLY, 0); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("opening a missing file: %v", err)
		}
		if _, err := disk.OpenFile(c, os.O_RDWR|os.O_CREATE, 0o644); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("creating a file in a missing directory: %v", err)
		}
		fa, fb := create(t, disk, a), create(t, disk, b)
		if fa.Name() != a {
			t.Errorf("Name is %q", fa.Name())
		}
		if _, err := disk.OpenFile(a, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644); !errors.Is(err, fs.ErrExist) {
			t.Errorf("O_EXCL on an existing file: %v", err)
		}
		_, err := fa.WriteAt([]byte("aaa"), 0)
		must(t, err)
		_, err = fb.WriteAt([]byte("b"), 0)
		must(t, err)
		must(t, disk.Rename(a, b))
		must(t, disk.SyncDir(dir))
		if got := content(t, create(t, disk, b)); string(got) != "aaa" {
			t.Errorf("the renamed file holds %q", got)
		}
		if got := content(t, fb); string(got) != "b" {
			t.Errorf("the open file that lost its name holds %q", got)
		}
		if err := disk.Rename(a, b); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("renaming a missing file: %v", err)
		}
		must(t, disk.MkdirAll(filepath.Dir(c), 0o755))
		must(t, disk.MkdirAll(filepath.Dir(c), 0o755))
		create(t, disk, c)
		if names, err := disk.ReadDir(dir); err != nil || !slices.Equal(names, []string{"b", "sub"}) {
			t.Errorf("ReadDir: %v, %v", names, err)
		}
		if st, err := disk.Stat(b); err != nil || st != (Info{Size: 3}) {
			t.Errorf("Stat of a file: %+v, %v", st, err)
		}
		if st, err := disk.Stat(filepath.Dir(c)); err != nil || !st.Dir {
			t.Errorf("Stat of a directory: %+v, %v", st, err)
		}
		if err := disk.Remove(filepath.Dir(c)); err == nil {
			t.Error("a directory with a file in it was removed")
		}
		must(t, disk.Remove(c))
		must(t, disk.Remove(filepath.Dir(c)))
		for what, err := range map[string]error{
			"Remove":  disk.Remove(c),
			"ReadDir": second(disk.ReadDir(filepath.Dir(c))),
			"Stat":    second(disk.Stat(c)),
			"SyncDir": disk.SyncDir(filepath.Dir(c)),
		} {
			if !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s of a missing name: %v", what, err)
			}
		}
	})
}

func second[T any](_ T, err error) error { return err }

func TestOpenFlags(t *testing.T) {
	onBoth(t, func(t *testing.T, disk FS, dir string) {
		name := filepath.Join(dir, "f")
		f := create(t, disk, name)
		_, err := f.WriteAt([]byte("data"), 0)
		must(t, err)
		ro, err := disk.OpenFile(name, os.O_RDONLY, 0)
		must(t, err)
		if _, err := ro.WriteAt([]byte("x"), 0); err == nil {
			t.Error("a file open for reading was written")
		}
		if got := content(t, ro); string(got) != "data" {
			t.Errorf("it holds %q", got)
		}
		must(t, ro.Close())
		if _, err := ro.ReadAt(make([]byte, 1), 0); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("reading a closed file: %v", err)
		}
		if err := ro.Close(); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("closing twice: %v", err)
		}
		tr, err := disk.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
		must(t, err)
		defer tr.Close()
		if size, err := tr.Size(); size != 0 || err != nil {
			t.Errorf("O_TRUNC leaves %d bytes, %v", size, err)
		}
		if d, err := disk.OpenFile(dir, os.O_RDWR, 0); err == nil {
			d.Close()
			t.Error("a directory was opened for writing")
		}
	})
}

func TestLockExcludesAndNamesTheHolder(t *testing.T) {
	onBoth(t, func(t *testing.T, disk FS, dir string) {
		name := filepath.Join(dir, "LOCK")
		// What a killed process leaves: the file with its id, and no lock.
		stale := create(t, disk, name)
		_, err := stale.WriteAt([]byte("999999999"), 0)
		must(t, err)
		held, err := disk.Lock(name)
		must(t, err)
		_, err = disk.Lock(name)
		var locked *LockedError
		if !errors.As(err, &locked) || locked.PID != os.Getpid() || locked.Name != name {
			t.Fatalf("second Lock: %v", err)
		}
		must(t, held.Close())
		again, err := disk.Lock(name)
		must(t, err)
		must(t, again.Close())
		if _, err := disk.Lock(filepath.Join(dir, "missing", "LOCK")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Lock in a missing directory: %v", err)
		}
	})
}

func TestDropBytes(t *testing.T) {
	bufs := [][]byte{[]byte("ab"), nil, []byte("cde"), []byte("f")}
	flat := bytes.Join(bufs, nil)
	for n := range len(flat) {
		if got := bytes.Join(dropBytes(bufs, n), nil); !bytes.Equal(got, flat[n:]) {
			t.Errorf("without %d bytes: %q", n, got)
		}
	}
	if got := bytes.Join(bufs, nil); !bytes.Equal(got, flat) {
		t.Errorf("the buffers were changed: %q", got)
	}
}
