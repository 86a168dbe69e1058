package log

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/mortarmq/mortarmq/env"
)

// fixture is a closed log whose files a test damages.
type fixture struct {
	t     testing.TB
	files map[string][]byte // by name
	want  model
	// ends[name][k] is where the k-th entry of the segment ends, firsts its index.
	starts map[string][]int64
	names  []string // segments, ascending
}

// newFixture makes a log of n segments or more; the newest is about half full.
func newFixture(t testing.TB, n int) *fixture {
	h := newHarness(t, nil)
	f := &fixture{t: t, files: map[string][]byte{}, starts: map[string][]int64{}}
	for i := Index(1); len(h.l.segments) < n || h.l.segments[len(h.l.segments)-1].end < MinSegmentBytes/2; i++ {
		e := entry(i, 1+Term(i/50), int(i*31%1200))
		f.want = f.want.with(e)
		hs := HardState{Term: e.Term, Commit: i / 2}
		if err := h.wait(h.l.Append([]Entry{e}, &hs, true)); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range h.l.segments {
		name := segmentName(s.number)
		f.names = append(f.names, name)
		for _, off := range s.offsets {
			f.starts[name] = append(f.starts[name], int64(off))
		}
	}
	disk := h.o.FS
	h.close()
	for _, name := range f.names {
		data, err := readFile(disk, filepath.Join("/log", name))
		if err != nil {
			t.Fatal(err)
		}
		f.files[name] = data
	}
	return f
}

// with returns a disk with the fixture's files, of which name holds data; nil
// leaves it out.
func (f *fixture) with(name string, data []byte) *env.MemFS {
	disk := env.NewMemFS()
	disk.MkdirAll("/log", 0o700)
	for other, d := range f.files {
		if other == name {
			d = data
		}
		if d == nil {
			continue
		}
		if err := writeFile(disk, filepath.Join("/log", other), d); err != nil {
			f.t.Fatal(err)
		}
	}
	return disk
}

func (f *fixture) options(disk env.FS) Options {
	return Options{
		Dir: "/log", FS: disk, Rand: env.NewRand(2), SegmentMaxBytes: MinSegmentBytes,
		OnWritten: func(Ticket, error) {},
	}
}

// newest returns the name of the newest segment and where its contents end: the
// offset behind the last byte that is not zero.
func (f *fixture) newest() (name string, used int) {
	name = f.names[len(f.names)-1]
	return name, len(bytes.TrimRight(f.files[name], "\x00"))
}

// before returns how many entries end at or before offset off of the newest
// segment, counted from the first of the log.
func (f *fixture) before(off int) int {
	name, _ := f.newest()
	older := 0
	for _, n := range f.names[:len(f.names)-1] {
		older += len(f.starts[n])
	}
	k := 0
	for ; k < len(f.starts[name]); k++ {
		e := f.want[older+k]
		if f.starts[name][k]+paddedLen(len(e.Data)) > int64(off) {
			break
		}
	}
	return older + k
}

// snapshot returns all files of a disk, to see that nothing was changed.
func snapshot(t testing.TB, disk env.FS) map[string][]byte {
	names, err := disk.ReadDir("/log")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]byte{}
	for _, name := range names {
		if all[name], err = readFile(disk, filepath.Join("/log", name)); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func sameFiles(a, b map[string][]byte) bool {
	for name := range a {
		if !bytes.Equal(a[name], b[name]) {
			return false
		}
	}
	return len(a) == len(b)
}

// TestTornTailsAreCut cuts the newest segment at every byte of its last 4 KiB.
func TestTornTailsAreCut(t *testing.T) {
	f := newFixture(t, 1)
	name, used := f.newest()
	garbage := make([]byte, 8<<10)
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	for i := range garbage {
		garbage[i] = byte(rng.Uint32())
	}
	for how, tear := range map[string]func(d []byte, at int) []byte{
		"truncated": func(d []byte, at int) []byte { return d[:at] },
		"zeros":     func(d []byte, at int) []byte { clear(d[at:]); return d },
		"0xFF":      func(d []byte, at int) []byte { fill(d[at:used], 0xFF); return d },
		"garbage":   func(d []byte, at int) []byte { copy(d[at:used], garbage); return d },
		"appended":  func(d []byte, at int) []byte { return append(d[:at], garbage...) },
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			for at := used - 4096; at <= used; at += sweepStep {
				torn := tear(bytes.Clone(f.files[name]), at)
				if !f.survivesTear(t, torn, at, at%61 < sweepStep) {
					t.Fatalf("cut at %d of %d, seed %d", at, used, seed)
				}
			}
		})
	}
}

func fill(b []byte, c byte) {
	for i := range b {
		b[i] = c
	}
}

// survivesTear opens a log whose newest segment is torn, which was intact up to
// offset at. In depth it appends too, and opens again.
func (f *fixture) survivesTear(t *testing.T, torn []byte, at int, depth bool) bool {
	name, _ := f.newest()
	disk := f.with(name, torn)
	l, err := Open(f.options(disk))
	if err != nil {
		t.Errorf("Open: %v", err)
		return false
	}
	for orig := f.files[name]; at < len(torn) && at < len(orig) && torn[at] == orig[at]; {
		at++ // the cut wrote what was there
	}
	keep := f.before(at)
	if l.LastIndex() != Index(keep) {
		t.Errorf("%d entries are left, want %d", l.LastIndex(), keep)
		return false
	}
	st := l.Stats()
	if dirty := at < len(torn) && !isZero(torn[at:]); dirty && st.TornTails == 0 {
		// The mark may be all that follows a cut behind the last record.
		end := f.endOfRecords(name)
		if tail := torn[end:]; at < end || !isZero(tail[min(recordLen, len(tail)):]) {
			t.Errorf("a torn tail is not counted")
			return false
		}
	}
	ok := true
	if depth {
		ok = f.goesOn(t, l, disk, f.want[:keep])
	} else if err := l.Close(); err != nil {
		t.Errorf("Close: %v", err)
		ok = false
	}
	return ok
}

// endOfRecords is where the last record of a segment ends.
func (f *fixture) endOfRecords(name string) int {
	h, _, _ := parseHeader(name, f.files[name])
	sc := newScanner(bytes.NewReader(f.files[name]), &h, int64(len(f.files[name])), nil)
	for {
		if _, _, end, _, _ := sc.next(); end != scanGoesOn {
			return int(sc.off)
		}
	}
}

// goesOn appends to a log that was repaired and opens it again.
func (f *fixture) goesOn(t *testing.T, l *Log, disk env.FS, want model) bool {
	for range 3 {
		e := entry(Index(len(want)+1), 99, 700)
		want = want.with(e)
		l.Append([]Entry{e}, nil, true)
	}
	if err := l.Close(); err != nil {
		t.Errorf("Close: %v", err)
		return false
	}
	l, err := Open(f.options(disk))
	if err != nil {
		t.Errorf("second Open: %v", err)
		return false
	}
	defer l.Close()
	got, err := l.Entries(1, l.LastIndex()+1, 1<<30)
	if err != nil || !want.equal(got) {
		t.Errorf("after the second Open: %d entries, %v, want %d", len(got), err, len(want))
		return false
	}
	if st := l.Stats(); st.TornTails != 0 {
		t.Errorf("the second start is not clean: %+v", st)
		return false
	}
	return true
}

// TestEveryFlippedBitIsFound flips single bits of headers and records, in old
// segments and in the newest. After a clean stop all of them were durable.
func TestEveryFlippedBitIsFound(t *testing.T) {
	f := newFixture(t, 4)
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	newest, _ := f.newest()
	for _, name := range []string{f.names[0], f.names[1], newest} {
		used := f.endOfRecords(name)
		bits := make([]int, 0, 2500/sweepStep)
		for b := 0; b < (headerLen+2*recordLen)*8; b += sweepStep {
			bits = append(bits, b)
		}
		for len(bits) < cap(bits) {
			bits = append(bits, rng.IntN(used*8))
		}
		for _, bit := range bits {
			data := bytes.Clone(f.files[name])
			data[bit/8] ^= 1 << (bit % 8)
			f.findsDamage(f.with(name, data), name, int64(bit/8))
			if t.Failed() {
				t.Fatalf("bit %d of byte %d of %s, seed %d", bit%8, bit/8, name, seed)
			}
		}
	}
}

// findsDamage opens a log with one bad byte and expects to be told, and that
// nothing was changed.
func (f *fixture) findsDamage(disk env.FS, name string, at int64) {
	before := snapshot(f.t, disk)
	l, err := Open(f.options(disk))
	if err == nil {
		l.Close()
		f.t.Errorf("Open succeeds")
		return
	}
	var corrupt *CorruptionError
	var version *VersionError
	switch {
	case errors.As(err, &version):
		if at != hdrVersion && at != hdrVersion+1 || !version.HeaderDamaged {
			f.t.Errorf("Open: %v", err)
		}
	case !errors.As(err, &corrupt):
		f.t.Errorf("Open: %v", err)
	case filepath.Base(corrupt.File) != name || corrupt.Offset > at || at-corrupt.Offset > 2000:
		f.t.Errorf("the damage is at %d of %s; Open says %v", at, name, err)
	}
	if !sameFiles(before, snapshot(f.t, disk)) {
		f.t.Errorf("Open changed files although it found damage")
	}
}

func TestReadFindsDamageThatHappenedAfterOpen(t *testing.T) {
	f := newFixture(t, 4)
	disk := f.with("", nil)
	l, err := Open(f.options(disk))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	off := f.starts[f.names[1]][2]
	i := Index(len(f.starts[f.names[0]])) + 3
	data := bytes.Clone(f.files[f.names[1]])
	data[off+recordLen] ^= 1
	if err := writeFile(disk, filepath.Join("/log", f.names[1]), data); err != nil {
		t.Fatal(err)
	}
	var corrupt *CorruptionError
	if _, err := l.Read(i); !errors.As(err, &corrupt) || corrupt.Offset != off || filepath.Base(corrupt.File) != f.names[1] {
		t.Errorf("Read(%d): %v", i, err)
	}
	for _, hi := range []Index{i + 1, i + 5} {
		if _, err := l.Entries(i, hi, 1<<20); !errors.As(err, &corrupt) || corrupt.Offset != off {
			t.Errorf("Entries(%d,%d): %v", i, hi, err)
		}
	}
	if data, err := l.Read(i + 1); err != nil || !bytes.Equal(data, f.want[i].Data) {
		t.Errorf("the entry behind the damage: %v", err)
	}
}

// TestDirectoriesThatCannotBe is the table of what may have happened to whole
// files.
func TestDirectoriesThatCannotBe(t *testing.T) {
	f := newFixture(t, 4)
	newest, _ := f.newest()
	for _, c := range []struct {
		what, file string // "" in file: whichever
		data       []byte
		lost       int  // entries that Open may forget
		damage     bool // or refuse the log
		keeps      bool // the file's bytes survive under another name
	}{
		{what: "first segment missing", file: f.names[0], damage: true},
		{what: "middle segment missing", file: f.names[1], damage: true},
		{what: "middle segment empty", file: f.names[1], data: []byte{}, damage: true},
		{what: "middle segment zeros", file: f.names[1], data: make([]byte, MinSegmentBytes), damage: true},
		{what: "middle segment is a copy of another", file: f.names[1], data: f.files[f.names[0]], damage: true},
		{what: "middle segment cut in half", file: f.names[1], data: f.files[f.names[1]][:len(f.files[f.names[1]])/2], damage: true},
		{what: "newest segment empty", file: newest, data: []byte{}, lost: len(f.starts[newest])},
		{what: "newest segment zeros", file: newest, data: make([]byte, MinSegmentBytes), lost: len(f.starts[newest])},
		{what: "newest segment half a header", file: newest, data: f.files[newest][:headerLen/2], lost: len(f.starts[newest]), keeps: true},
		{what: "newest segment 0xFF", file: newest, data: bytes.Repeat([]byte{0xFF}, 5000), lost: len(f.starts[newest]), keeps: true},
		{what: "newest segment header only", file: newest, data: f.files[newest][:headerLen], lost: len(f.starts[newest])},
		{what: "newest segment is a copy of another", file: newest, data: f.files[f.names[0]], damage: true},
		{what: "newest header zeroed under records", file: newest, data: append(make([]byte, headerLen), f.files[newest][headerLen:]...), damage: true},
	} {
		t.Run(c.what, func(t *testing.T) {
			disk := f.with(c.file, c.data)
			before := snapshot(t, disk)
			l, err := Open(f.options(disk))
			var corrupt *CorruptionError
			if c.damage {
				if !errors.As(err, &corrupt) {
					t.Fatalf("Open: %v", err)
				}
				if !sameFiles(before, snapshot(t, disk)) {
					t.Fatal("Open changed files although it found damage")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := f.want[:len(f.want)-c.lost]
			if l.LastIndex() != Index(len(want)) {
				t.Fatalf("%d entries, want %d", l.LastIndex(), len(want))
			}
			if kept := snapshot(t, disk)[c.file+".torn"]; c.keeps && !bytes.Equal(kept, c.data) {
				t.Fatalf("the bytes of the newborn segment are gone")
			}
			for range 200 { // roll over the place where the newborn was
				e := entry(Index(len(want)+1), 99, 1000)
				want = want.with(e)
				l.Append([]Entry{e}, nil, true)
			}
			f.goesOn(t, l, disk, want)
		})
	}
}

func TestALaterVersionIsRefusedByName(t *testing.T) {
	f := newFixture(t, 4)
	for _, name := range []string{f.names[0], f.names[len(f.names)-1]} {
		data := bytes.Clone(f.files[name])
		data[hdrVersion+1] = 2
		_, err := Open(f.options(f.with(name, data)))
		var version *VersionError
		if !errors.As(err, &version) || version.Version != 2 || filepath.Base(version.File) != name {
			t.Errorf("Open: %v", err)
		}
	}
}

func TestFilesThatAreNotSegments(t *testing.T) {
	f := newFixture(t, 4)
	disk := f.with("", nil)
	strange := map[string]string{
		"README": "hello", "00000000000000000001.seg.bak": "x", "1.seg": "y", "next.prep.old": "z",
	}
	for name, content := range strange {
		if err := writeFile(disk, filepath.Join("/log", name), []byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	temp := filepath.Join("/log", fmt.Sprintf("%020d%s", 7777, tempSuffix))
	prepared := filepath.Join("/log", preparedName)
	for _, name := range []string{temp, prepared} { // what a crash leaves behind, with old records in it
		if err := writeFile(disk, name, f.files[f.names[0]]); err != nil {
			t.Fatal(err)
		}
	}
	var warnings bytes.Buffer
	o := f.options(disk)
	o.Logger = slog.New(slog.NewTextHandler(&warnings, nil))
	l, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	want := slices.Clone(f.want)
	for l.Stats().Rolls < 4 {
		e := entry(Index(len(want)+1), 99, 1000)
		want = want.with(e)
		l.Append([]Entry{e}, nil, true)
	}
	f.goesOn(t, l, disk, want)
	for name, content := range strange {
		if got, err := readFile(disk, filepath.Join("/log", name)); err != nil || string(got) != content {
			t.Errorf("%s was touched: %q, %v", name, got, err)
		}
		if !bytes.Contains(warnings.Bytes(), []byte(filepath.Join("/log", name))) {
			t.Errorf("no warning about %s", name)
		}
	}
	if _, err := disk.Stat(temp); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there: %v", temp, err)
	}
}

// TestASegmentThatLostItsSupersedingEntry: the entries it was to replace are
// there as before, and can be replaced again.
func TestASegmentThatLostItsSupersedingEntry(t *testing.T) {
	h := newHarness(t, nil)
	var want model
	for i := Index(1); i <= 8; i++ {
		want = want.with(entry(i, 1, 20_000))
		h.append(want[i-1])
	}
	h.append(entry(2, 2, 60_000)) // needs a new segment
	newest := h.l.segments[len(h.l.segments)-1]
	if newest.first != 2 || len(newest.offsets) != 1 {
		t.Fatalf("the entry is not the first of a segment: %+v", newest.segmentHead)
	}
	name := filepath.Join("/log", segmentName(newest.number))
	disk := h.o.FS
	h.close()
	data, err := readFile(disk, name)
	if err != nil {
		t.Fatal(err)
	}
	if err := writeFile(disk, name, data[:headerLen]); err != nil {
		t.Fatal(err)
	}
	h.open()
	h.expect(want)
	e := entry(3, 3, 100)
	h.append(e)
	h.expect(want.with(e))
	h.reopen()
	h.expect(want.with(e))
}

// TestAHoleInOneUnreportedWriteIsNotDamage: pages of one write reach the disk in
// any order. Without a sync behind it, a valid record behind a hole proves
// nothing; with one it does.
func TestAHoleInOneUnreportedWriteIsNotDamage(t *testing.T) {
	for _, reported := range []bool{false, true} {
		h := newHarness(t, nil)
		h.append(entry(1, 1, 500))
		off := h.l.segments[0].end
		batch := []Entry{entry(2, 1, 500), entry(3, 1, 500), entry(4, 1, 500)}
		h.append(batch...) // one write: one round
		if reported {
			h.append(entry(5, 1, 500))
		}
		disk := h.o.FS
		end := h.l.segments[0].end
		h.close()
		name := filepath.Join("/log", segmentName(1))
		data, err := readFile(disk, name)
		if err != nil {
			t.Fatal(err)
		}
		clear(data[off : off+paddedLen(500)]) // entry 2 never made it
		clear(data[end:])                     // nor did the mark
		if err := writeFile(disk, name, data); err != nil {
			t.Fatal(err)
		}
		l, err := Open(h.o)
		var corrupt *CorruptionError
		if reported {
			if !errors.As(err, &corrupt) || corrupt.Offset != off {
				t.Errorf("a hole under a reported write: %v", err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("a hole in an unreported write: %v", err)
		}
		h.l = l
		if l.LastIndex() != 1 || l.Stats().TornTails != 1 {
			t.Errorf("last index %d, %+v", l.LastIndex(), l.Stats())
		}
		// New records must not make the old ones behind the hole part of the log.
		e := entry(2, 2, 500)
		h.append(e)
		h.reopen()
		h.expect([]Entry{entry(1, 1, 500), e})
	}
}
