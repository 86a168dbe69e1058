package log

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/mortarmq/mortarmq/env"
)

var update = flag.Bool("update", false, "write testdata anew; a change of it is a change of the format")

const sampleDir = "testdata/format1"

// sampleSteps are the Appends that made the sample.
func sampleSteps() (steps []func(l *Log) Ticket, want model, hs HardState) {
	add := func(sync bool, hard *HardState, entries ...Entry) {
		for _, e := range entries {
			want = want.with(e)
		}
		if hard != nil {
			hs = *hard
		}
		steps = append(steps, func(l *Log) Ticket { return l.Append(entries, hard, sync) })
	}
	add(true, &HardState{Term: 1, Vote: 2})
	add(true, nil, Entry{Term: 1, Index: 1}, Entry{Term: 1, Index: 2, Type: 1, Data: []byte("configuration")})
	add(true, nil, Entry{Term: 1, Index: 3, Data: []byte("superseded")}, Entry{Term: 1, Index: 4, Data: []byte("too")})
	add(false, &HardState{Term: 1, Vote: 2, Commit: 2})
	add(true, &HardState{Term: 3, Vote: 3, Commit: 2}, Entry{Term: 3, Index: 3, Data: []byte("superseding")})
	add(true, nil, Entry{Term: 3, Index: 4, Data: bytes.Repeat([]byte("large "), 100)}) // a segment of its own
	add(true, &HardState{Term: 3, Vote: 3, Commit: 4}, Entry{Term: 3, Index: 5, Data: []byte("last")})
	return steps, want, hs
}

// makeSample writes the sample's files.
func makeSample(t *testing.T) map[string][]byte {
	h := newHarness(t, func(o *Options) {
		o.FS = &hookFS{FS: o.FS, hook: func(op, name string) error {
			if filepath.Base(name) == preparedName {
				return errDisk // when it would be ready is chance
			}
			return nil
		}}
	})
	h.l.o.SegmentMaxBytes = 512 // less than Open takes: to have small files; nothing has read it yet
	steps, _, _ := sampleSteps()
	for _, step := range steps {
		if err := h.wait(step(h.l)); err != nil {
			t.Fatal(err)
		}
	}
	disk, segments := h.o.FS, h.l.segments
	h.close()
	files := snapshot(t, disk)
	for k, s := range segments {
		end := s.end
		if k == len(segments)-1 {
			end += recordLen // the mark; whether an old one is left in the others is chance
		}
		files[segmentName(s.number)] = files[segmentName(s.number)][:end]
	}
	return files
}

func TestTheFormatIsAsDocumented(t *testing.T) {
	files := makeSample(t)
	if *update {
		if err := os.MkdirAll(sampleDir, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, data := range files {
			if err := os.WriteFile(filepath.Join(sampleDir, name), data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(sampleDir+".dump", dump(t, files), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if stored := readSample(t); !sameFiles(stored, files) {
		t.Errorf("the files written now differ from %s; what they hold now:\n%s", sampleDir, dump(t, files))
	}
	want, err := os.ReadFile(sampleDir + ".dump")
	if err != nil {
		t.Fatal(err)
	}
	if got := dump(t, files); !bytes.Equal(got, want) {
		t.Errorf("the dump is\n%s\nwant\n%s", got, want)
	}
}

func TestTheStoredSampleOpens(t *testing.T) {
	disk := env.NewMemFS()
	disk.MkdirAll("/log", 0o700)
	for name, data := range readSample(t) {
		if err := writeFile(disk, filepath.Join("/log", name), data); err != nil {
			t.Fatal(err)
		}
	}
	h := newHarness(t, func(o *Options) { o.FS = disk })
	_, want, hs := sampleSteps()
	h.expect(want)
	if h.l.HardState() != hs || h.l.Stats().TornTails != 0 {
		t.Fatalf("hard state %+v, stats %+v", h.l.HardState(), h.l.Stats())
	}
	e := entry(6, 4, 100)
	h.append(e)
	h.reopen()
	h.expect(want.with(e))
}

func readSample(t *testing.T) map[string][]byte {
	list, err := os.ReadDir(sampleDir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, entry := range list {
		if files[entry.Name()], err = os.ReadFile(filepath.Join(sampleDir, entry.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// dump writes what FORMAT.md says about files.
func dump(t *testing.T, files map[string][]byte) []byte {
	var out bytes.Buffer
	names := make([]string, 0, len(files))
	for n := uint64(1); len(names) < len(files) && n < 100; n++ {
		if files[segmentName(n)] != nil {
			names = append(names, segmentName(n))
		}
	}
	for _, name := range names {
		data := files[name]
		h, fault, err := parseHeader(name, data)
		if fault != "" || err != nil {
			t.Fatalf("%s: %s %v", name, fault, err)
		}
		fmt.Fprintf(&out, "%s\n%shead number=%d first=%d prev_term=%d prev_number=%d prev_end=%d salt=%016x\n\n", name,
			hex.Dump(data[:headerLen]), h.number, h.first, h.prevTerm, h.prevNumber, h.prevEnd, h.salt)
		sc := newScanner(bytes.NewReader(data), &h, int64(len(data)), nil)
		for {
			off := sc.off
			r, payload, end, reason, err := sc.next()
			if err != nil {
				t.Fatal(err)
			}
			if end == scanInvalid || end == scanLimit {
				fmt.Fprintf(&out, "%d end %s\n\n", off, reason)
				break
			}
			fmt.Fprint(&out, hex.Dump(data[off:off+min(paddedLen(int(r.length)), 64)]))
			fmt.Fprintf(&out, "%d kind=%d type=%d length=%d durable=%d term=%d index=%d payload=%.20q\n\n",
				off, r.kind, r.typ, r.length, r.durable, r.term, r.index, payload)
			if end == scanMark {
				break
			}
		}
	}
	return out.Bytes()
}

// TestEverySegmentBeginsWithTheHardState is what lets older ones be deleted.
func TestEverySegmentBeginsWithTheHardState(t *testing.T) {
	f := newFixture(t, 4)
	for _, name := range f.names[1:] {
		h, _, _ := parseHeader(name, f.files[name])
		r, _, _, _, err := newScanner(bytes.NewReader(f.files[name]), &h, int64(len(f.files[name])), nil).next()
		if err != nil || r.kind != kindHardState || r.term == 0 {
			t.Errorf("%s begins with %+v, %v", name, r, err)
		}
	}
}
