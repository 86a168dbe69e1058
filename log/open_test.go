package log

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mortarmq/mortarmq/env"
)

// build makes the bytes of a segment by hand.
func build(h *segmentHead, records ...record) []byte {
	h.seed = seedOf(h.salt)
	data := appendHeader(nil, h)
	for i := range records {
		payload := bytes.Repeat([]byte{7}, int(records[i].length))
		data = appendRecord(data, h.seed, &records[i], payload)
		data = append(data, payload...)
		data = append(data, padding[:(8-len(payload)%8)%8]...)
	}
	return data
}

func openBytes(t *testing.T, files map[uint64][]byte) (*Log, error) {
	t.Helper()
	disk := env.NewMemFS()
	must(t, disk.MkdirAll("/log", 0o700))
	for number, data := range files {
		must(t, writeFile(disk, filepath.Join("/log", segmentName(number)), data))
	}
	l, err := Open(Options{Dir: "/log", FS: disk, SegmentMaxBytes: MinSegmentBytes, OnWritten: func(Ticket, error) {}})
	if err == nil {
		t.Cleanup(func() { l.Close() })
	}
	return l, err
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestSegmentsThatDoNotFitTogether: every checksum is right, the story is wrong.
func TestSegmentsThatDoNotFitTogether(t *testing.T) {
	one := func() (*segmentHead, []record) {
		return &segmentHead{number: 1, first: 1, salt: 5}, []record{
			{kind: kindEntry, durable: headerLen, term: 2, index: 1, length: 20},
			{kind: kindEntry, durable: headerLen, term: 2, index: 2, length: 20},
		}
	}
	end := headerLen + 2*paddedLen(20)
	for _, c := range []struct {
		what   string
		change func(h1, h2 *segmentHead, r1, r2 []record)
		file   uint64 // where the damage is; 0: none
		offset int64
	}{
		{"nothing wrong", func(_, _ *segmentHead, _, _ []record) {}, 0, 0},
		{"second begins too late", func(_, h2 *segmentHead, _, _ []record) { h2.first = 4 }, 3, 0},
		{"second begins at 0", func(_, h2 *segmentHead, _, _ []record) { h2.first = 0 }, 3, 0},
		{"second follows another term", func(_, h2 *segmentHead, _, _ []record) { h2.prevTerm = 1 }, 3, 0},
		{"second follows another segment", func(_, h2 *segmentHead, _, _ []record) { h2.prevNumber = 2 }, 3, 0},
		{"second has another number", func(_, h2 *segmentHead, _, _ []record) { h2.number = 4 }, 3, 0},
		{"first is said to end in a record", func(_, h2 *segmentHead, _, _ []record) { h2.prevEnd -= 8 }, 1, headerLen + paddedLen(20)},
		{"first is said to end later", func(_, h2 *segmentHead, _, _ []record) { h2.prevEnd += 56 }, 1, end + 32},
		{"first is said to end in its header", func(_, h2 *segmentHead, _, _ []record) { h2.prevEnd = 8 }, 1, headerLen},
		{"first is said to end before it begins", func(_, h2 *segmentHead, _, _ []record) { h2.prevEnd = -8 }, 3, 0},
		{"first follows something", func(h1, _ *segmentHead, _, _ []record) { h1.prevNumber = 1 }, 1, 0},
		{"first does not begin at 1", func(h1, _ *segmentHead, _, _ []record) { h1.first = 2 }, 1, 0},
		{"entry jumps", func(_, _ *segmentHead, r1, _ []record) { r1[1].index = 3 }, 1, headerLen + paddedLen(20)},
		{"entry of index 0", func(_, _ *segmentHead, r1, _ []record) { r1[1].index = 0 }, 1, headerLen + paddedLen(20)},
		{"kind unknown", func(_, _ *segmentHead, r1, _ []record) { r1[1].kind = 4 }, 1, headerLen + paddedLen(20)},
		{"hard state of 20 bytes", func(_, _ *segmentHead, r1, _ []record) { r1[1].kind = kindHardState }, 1, headerLen + paddedLen(20)},
		{"durable ahead of the record", func(_, _ *segmentHead, r1, _ []record) { r1[1].durable = 1 << 20 }, 1, headerLen + paddedLen(20)},
		{"mark among the records", func(_, _ *segmentHead, r1, _ []record) {
			r1[1] = record{kind: kindMark, durable: uint32(headerLen + paddedLen(20))}
		}, 1, headerLen + paddedLen(20)},
	} {
		t.Run(c.what, func(t *testing.T) {
			h1, r1 := one()
			h2 := &segmentHead{number: 3, first: 3, prevTerm: 2, prevNumber: 1, prevEnd: end, salt: 6}
			r2 := []record{{kind: kindEntry, durable: headerLen, term: 2, index: 3, length: 5}}
			c.change(h1, h2, r1, r2)
			first := append(build(h1, r1...), make([]byte, 32)...)
			l, err := openBytes(t, map[uint64][]byte{1: first, 3: build(h2, r2...)})
			var corrupt *CorruptionError
			if c.file == 0 {
				if err != nil || l.LastIndex() != 3 || l.FirstIndex() != 1 {
					t.Fatalf("Open: %v", err)
				}
				return
			}
			if !errors.As(err, &corrupt) || filepath.Base(corrupt.File) != segmentName(c.file) || corrupt.Offset != c.offset {
				t.Fatalf("Open: %v; want damage at %d of %s", err, c.offset, segmentName(c.file))
			}
			if !strings.Contains(err.Error(), corrupt.File) || !strings.Contains(err.Error(), corrupt.Reason) {
				t.Errorf("the message %q does not say where and why", err)
			}
		})
	}
}

func TestHardStateIsMadeToAgreeWithTheEntries(t *testing.T) {
	l, err := openBytes(t, map[uint64][]byte{1: build(&segmentHead{number: 1, first: 1, salt: 5},
		record{kind: kindHardState, durable: headerLen, term: 4, index: 7, length: hardStateLen},
		record{kind: kindEntry, durable: headerLen, term: 5, index: 1, length: 1},
	)})
	must(t, err)
	if got, want := l.HardState(), (HardState{Term: 5, Commit: 1}); got != want {
		t.Errorf("hard state is %+v, want %+v", got, want)
	}
}

// TestSurveyFindsAProofWhereverItStands also at the seams of the blocks it reads.
func TestSurveyFindsAProofWhereverItStands(t *testing.T) {
	const from = 1000
	h := &segmentHead{number: 1, first: 1, salt: 9, seed: seedOf(9)}
	all := make([]byte, 2*scanBlock+10_000)
	for i := 0; i < len(all); i += 8 {
		binary.BigEndian.PutUint64(all[i:], rand.Uint64())
	}
	copy(all, build(h))
	for _, length := range []int{0, 100, scanBlock + 5000} {
		noise := all[:from+scanBlock+length+1000]
		for at := from + scanBlock - 48; at <= from+scanBlock+16; at += 8 {
			for _, durable := range []int{from, from + 8} {
				data := bytes.Clone(noise)
				payload := data[at+recordLen : at+recordLen+length]
				r := record{kind: kindEntry, length: uint32(length), durable: uint32(durable), term: 1, index: 1}
				appendRecord(data[:at], h.seed, &r, payload)
				clear(data[at+recordLen+length : int64(at)+paddedLen(length)])
				sc := newScanner(bytes.NewReader(data), h, int64(len(data)), nil)
				sc.off = from
				rest, err := sc.survey(from)
				must(t, err)
				if proof := durable > from; (rest.proof == int64(at)) != proof || (rest.proof != 0) != proof {
					t.Fatalf("record of %d bytes at %d, durable to %d: proof at %d", length, at, durable, rest.proof)
				}
				if rest.proof == 0 && rest.end != int64(len(bytes.TrimRight(data, "\x00"))) && len(data)-int(rest.end) >= 8 {
					t.Fatalf("not zero up to %d, it says %d", len(data), rest.end)
				}
			}
		}
	}
}

func TestManyRecordsInOneRound(t *testing.T) {
	h := newHarness(t, func(o *Options) { o.SegmentMaxBytes, o.TailBytes = 32<<20, 1 })
	var want model
	for i := Index(1); i <= 6000; i++ {
		size := int(i % 300)
		switch {
		case i%3 == 0: // buffers of their own, more than one pwritev takes
			size = smallData + int(i%9)
		case i == 3001:
			size = 9 << 20
		}
		want = append(want, entry(i, 1, size))
	}
	h.append(want...)
	h.append(entry(6001, 1, 0)) // lets the tail go
	want = append(want, entry(6001, 1, 0))
	h.expect(want)
	h.reopen()
	h.expect(want)
}

func TestOnARealDisk(t *testing.T) {
	h := newHarness(t, func(o *Options) {
		o.FS, o.Clock, o.Dir = env.OS(), env.SystemClock(), filepath.Join(t.TempDir(), "new", "log")
		o.SegmentMaxBytes, o.TailBytes = 1<<20, 100_000
	})
	var want model
	var last Ticket
	for i := Index(1); i <= 1500; i++ {
		e := entry(i, 1, int(i*37%6000))
		want = append(want, e)
		last = h.l.Append([]Entry{e}, &HardState{Term: 1, Commit: i - 1}, true)
	}
	must(t, h.wait(last))
	h.expect(want)
	h.reopen()
	h.expect(want)
	if st := h.l.Stats(); st.Segments < 4 || st.TornTails != 0 {
		t.Errorf("%+v", st)
	}
}

func TestFaultyOptionsAreAllNamed(t *testing.T) {
	_, err := Open(Options{SegmentMaxBytes: 1, TailBytes: -1, CacheBytes: -1, Policy: 9, SyncInterval: -1})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, field := range []string{"Dir", "OnWritten", "SegmentMaxBytes", "TailBytes", "CacheBytes", "Policy", "SyncInterval"} {
		if !strings.Contains(err.Error(), field) {
			t.Errorf("%s is not named in: %v", field, err)
		}
	}
	o := Options{Dir: "d", OnWritten: func(Ticket, error) {}, SegmentMaxBytes: math.MaxInt64}
	if o.Validate() == nil {
		t.Error("a segment of 2^63 bytes was accepted")
	}
}

// TestOpenReportsADiskThatFails: each thing that Open does to a log with a torn
// tail, a newborn segment and leftovers.
func TestOpenReportsADiskThatFails(t *testing.T) {
	f := newFixture(t, 2)
	name, used := f.newest()
	for _, op := range []string{"write", "allocate", "sync", "remove", "rename", "syncdir"} {
		t.Run(op, func(t *testing.T) {
			disk := f.with(name, f.files[name][:used-50])
			must(t, writeFile(disk, "/log/"+segmentName(5000)+".tmp", nil))
			must(t, writeFile(disk, "/log/"+segmentName(6000), []byte("newborn")))
			o := f.options(&hookFS{FS: disk, hook: func(got, _ string) error {
				if got == op {
					return errDisk
				}
				return nil
			}})
			if _, err := Open(o); !errors.Is(err, errDisk) {
				t.Fatalf("Open: %v", err)
			}
			l, err := Open(f.options(disk)) // the disk is well again
			must(t, err)
			f.goesOn(t, l, disk, f.want[:l.LastIndex()])
		})
	}
}
