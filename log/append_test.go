package log

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mortarmq/mortarmq/env"
)

// model is what the log must hold.
type model []Entry

// with returns the model after e was appended.
func (m model) with(e Entry) model { return append(m[:e.Index-1:e.Index-1], e) }

func TestSupersedingSuffixesSurviveReopen(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	h := newHarness(t, func(o *Options) { o.TailBytes, o.CacheBytes = 20_000, 200_000 })
	var want model
	for round := Term(1); round <= 60; round++ {
		next := Index(len(want) + 1)
		if r.IntN(2) == 0 { // reach back, sometimes behind the start of several segments
			next -= Index(r.IntN(min(len(want), 1<<r.IntN(8)) + 1))
		}
		var batch []Entry
		for n := 1 + r.IntN(6); n > 0; n-- {
			e := entry(next, round, r.IntN(20_000))
			batch, want = append(batch, e), want.with(e)
			next++
		}
		h.append(batch...)
		switch r.IntN(4) {
		case 0:
			h.reopen()
		case 1: // entries read back must not be served once superseded
			h.expect(want)
		}
	}
	h.reopen()
	h.expect(want)
}

func TestSupersedingBehindTheFirstEntryOfTheNewestSegment(t *testing.T) {
	h := newHarness(t, nil)
	var want model
	add := func(i Index, term Term) {
		e := entry(i, term, 20_000) // three fill a segment
		want = want.with(e)
		h.append(e)
	}
	for i := Index(1); i <= 20; i++ {
		add(i, 1)
	}
	for _, back := range []Index{19, 16, 13, 10, 7, 4, 1} {
		for i := back; i < back+4; i++ {
			add(i, Term(30-back))
		}
		h.reopen()
		h.expect(want)
	}
}

func TestAnEntryLargerThanASegmentGetsOneOfItsOwn(t *testing.T) {
	h := newHarness(t, func(o *Options) { o.TailBytes = 1 })
	var want model
	for i, n := range []int{10, 16 << 20, 10, 70_000, 70_000, MinSegmentBytes - headerLen - recordLen, 0, 1 << 20} {
		e := entry(Index(i+1), 1, n)
		want = want.with(e)
		if err := h.wait(h.l.Append([]Entry{e}, &HardState{Term: 1, Commit: e.Index}, true)); err != nil {
			t.Fatal(err)
		}
	}
	if n := h.l.Stats().Segments; n != 9 {
		t.Fatalf("%d segments, want 9: the hard state behind a large entry begins the next", n)
	}
	h.expect(want)
	h.reopen()
	h.expect(want)
}

func TestEntriesRespectMaxBytesAcrossDiskAndTail(t *testing.T) {
	h := newHarness(t, func(o *Options) { o.TailBytes = 30_000 })
	var want model
	for i := Index(1); i <= 200; i++ {
		want = want.with(entry(i, 1, int(i*7%1500)))
	}
	h.append(want[:150]...)
	h.append(want[150:]...) // the entries before are written now and may leave the tail
	for i := Index(201); i <= 210; i++ {
		want = want.with(entry(i, 2, 100))
		h.append(want[i-1])
	}
	if st := h.l.Stats(); st.TailEntries == 210 || st.TailEntries < 10 {
		t.Fatalf("the tail has %d of 210 entries; the test needs some of them on disk only", st.TailEntries)
	}
	for _, maxBytes := range []int{0, 1, 1000, 10_000, 1 << 30} {
		for lo := Index(1); lo <= 210; lo += 13 {
			for hi := lo + 1; hi <= 211; hi += 29 {
				got, err := h.l.Entries(lo, hi, maxBytes)
				if err != nil || len(got) == 0 || len(got) > int(hi-lo) {
					t.Fatalf("Entries(%d,%d,%d): %d entries, %v", lo, hi, maxBytes, len(got), err)
				}
				size := 0
				for k, e := range got {
					sameEntry(t, e, want[int(lo)-1+k])
					size += len(e.Data)
				}
				if size > maxBytes && len(got) > 1 {
					t.Fatalf("Entries(%d,%d,%d) returned %d bytes in %d entries", lo, hi, maxBytes, size, len(got))
				}
				if maxBytes == 1<<30 && len(got) != int(hi-lo) {
					t.Fatalf("Entries(%d,%d) returned %d entries without a limit", lo, hi, len(got))
				}
			}
		}
	}
}

func TestIndexesOutsideTheLogAreRefused(t *testing.T) {
	h := newHarness(t, nil)
	h.append(entry(1, 3, 5), entry(2, 3, 5))
	for i, want := range map[Index]error{0: ErrCompacted, 3: ErrUnavailable, 99: ErrUnavailable} {
		if _, err := h.l.Read(i); !errors.Is(err, want) {
			t.Errorf("Read(%d): %v, want %v", i, err, want)
		}
		if _, err := h.l.Entries(i, i+1, 1); !errors.Is(err, want) {
			t.Errorf("Entries(%d): %v, want %v", i, err, want)
		}
	}
	if got, err := h.l.Entries(3, 3, 1); got != nil || err != nil {
		t.Errorf("an empty range gives %v, %v", got, err)
	}
	if term, err := h.l.Term(0); term != 0 || err != nil {
		t.Errorf("Term(0) is %d, %v", term, err)
	}
	if _, err := h.l.Term(3); !errors.Is(err, ErrUnavailable) {
		t.Errorf("Term(3): %v", err)
	}
}

func TestMisuseOfAppendPanics(t *testing.T) {
	for name, call := range map[string]func(l *Log){
		"gap":            func(l *Log) { l.Append([]Entry{entry(9, 1, 1)}, nil, true) },
		"index 0":        func(l *Log) { l.Append([]Entry{entry(0, 1, 1)}, nil, true) },
		"commit ahead":   func(l *Log) { l.Append(nil, &HardState{Term: 1, Commit: 9}, true) },
		"commit back":    func(l *Log) { l.Append(nil, &HardState{Term: 1, Commit: 1}, true) },
		"term back":      func(l *Log) { l.Append(nil, &HardState{Commit: 2}, true) },
		"committed gone": func(l *Log) { l.Append([]Entry{entry(2, 1, 1)}, nil, true) },
		"after Close":    func(l *Log) { l.Close(); l.Append(nil, nil, false) },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, nil)
			if err := h.wait(h.l.Append([]Entry{entry(1, 1, 1), entry(2, 1, 1)}, &HardState{Term: 1, Commit: 2}, true)); err != nil {
				t.Fatal(err)
			}
			defer func() {
				if recover() == nil {
					t.Fatal("no panic")
				}
				h.l = nil // its queue is locked: there is no way to go on
			}()
			call(h.l)
		})
	}
}

func TestHardStateAloneIsDurableOnlyWithSync(t *testing.T) {
	h := newHarness(t, nil)
	h.append(entry(1, 1, 1), entry(2, 1, 1))
	before := h.l.Stats()
	rides := HardState{Term: 1, Commit: 1}
	if err := h.wait(h.l.Append(nil, &rides, false)); err != nil { // reported although nothing is written
		t.Fatal(err)
	}
	if st := h.l.Stats(); st.Syncs != before.Syncs || st.WrittenBytes != before.WrittenBytes {
		t.Fatalf("a commit alone was written: %+v, before %+v", st, before)
	}
	if h.l.HardState() != rides {
		t.Fatalf("hard state is %+v", h.l.HardState())
	}
	h.append(entry(3, 1, 1))
	h.reopen()
	if h.l.HardState() != rides {
		t.Fatalf("the hard state did not ride with the entry: %+v", h.l.HardState())
	}
	voted := HardState{Term: 2, Vote: 7, Commit: 2}
	if err := h.wait(h.l.Append(nil, &voted, true)); err != nil {
		t.Fatal(err)
	}
	if st := h.l.Stats(); st.Syncs != 1 {
		t.Fatalf("a vote took %d syncs, want 1", st.Syncs)
	}
	h.reopen()
	if h.l.HardState() != voted {
		t.Fatalf("the vote is gone: %+v", h.l.HardState())
	}
}

func TestOneSyncFreesEveryWaiter(t *testing.T) {
	hold, held := make(chan struct{}), make(chan struct{})
	var once sync.Once
	h := newHarness(t, func(o *Options) {
		o.FS = &hookFS{FS: o.FS, hook: func(op, name string) error {
			if op == "write" && strings.HasSuffix(name, segmentSuffix) {
				once.Do(func() { close(held); <-hold })
			}
			return nil
		}}
		o.SegmentMaxBytes = 1 << 20
	})
	h.append(entry(1, 1, 10)) // makes the segment; its file still has the temporary name
	h.reopen()
	h.l.Append([]Entry{entry(2, 1, 10)}, nil, true)
	<-held
	var last Ticket
	for i := Index(3); i <= 500; i++ {
		last = h.l.Append([]Entry{entry(i, 1, 100)}, nil, true)
	}
	close(hold)
	if err := h.wait(last); err != nil {
		t.Fatal(err)
	}
	if st := h.l.Stats(); st.Syncs > 2 {
		t.Fatalf("499 appends took %d syncs, want 2 at most", st.Syncs)
	}
}

func TestSyncIntervalReportsBeforeTheSync(t *testing.T) {
	clock := env.NewManualClock(time.Now())
	synced := make(chan int, 10)
	h := newHarness(t, func(o *Options) {
		o.Clock, o.Policy, o.SyncInterval = clock, SyncInterval, time.Second
		o.OnSync = func(_ time.Duration, n int) { synced <- n }
		o.SegmentMaxBytes = 1 << 20
	})
	h.append(entry(1, 1, 1000))
	h.append(entry(2, 1, 1000))
	if len(synced) != 0 {
		t.Fatal("synced before the interval was over")
	}
	clock.Advance(time.Second)
	if n := <-synced; n != 2*int(paddedLen(1000)) {
		t.Fatalf("the sync covered %d bytes", n)
	}
	// A vote does not wait.
	if err := h.wait(h.l.Append(nil, &HardState{Term: 2, Vote: 1}, true)); err != nil {
		t.Fatal(err)
	}
	if n := <-synced; n != int(paddedLen(hardStateLen)) {
		t.Fatalf("the vote's sync covered %d bytes", n)
	}
	h.append(entry(3, 2, 1000))
	h.close()
	if len(synced) != 1 {
		t.Fatal("Close did not sync")
	}
}

var errDisk = &testError{"disk on fire"}

type testError struct{ s string }

func (e *testError) Error() string { return e.s }

func TestADiskErrorIsFinal(t *testing.T) {
	const fits, rolls = 1000, 40_000
	for _, c := range []struct {
		op, what string
		size     int
	}{
		{"write", segmentSuffix, fits}, {"sync", segmentSuffix, fits},
		{"create", tempSuffix, rolls}, {"allocate", tempSuffix, rolls},
		{"write", tempSuffix, rolls}, {"sync", tempSuffix, rolls},
		{"truncate", segmentSuffix, rolls}, {"rename", segmentSuffix, rolls}, {"syncdir", "", rolls},
	} {
		t.Run(c.op+c.what, func(t *testing.T) {
			var mu sync.Mutex
			failing, failed, after := false, 0, 0
			h := newHarness(t, func(o *Options) {
				o.FS = &hookFS{FS: o.FS, hook: func(op, name string) error {
					mu.Lock()
					defer mu.Unlock()
					if strings.HasSuffix(name, preparedName) {
						return errDisk // so that rolls make files of their own
					}
					if failed > 0 {
						after++
					}
					if failing && op == c.op && strings.HasSuffix(name, c.what) {
						failing = false // once: a second try would succeed
						failed++
						return errDisk
					}
					return nil
				}}
			})
			h.append(entry(1, 1, 100))
			h.reopen()
			h.append(entry(2, 1, 40_000))
			mu.Lock()
			failing = true
			mu.Unlock()
			e := entry(3, 1, c.size)
			if err := h.wait(h.l.Append([]Entry{e}, nil, true)); !errors.Is(err, errDisk) {
				t.Fatalf("reported %v", err)
			}
			for i := Index(4); i < 8; i++ {
				if err := h.wait(h.l.Append([]Entry{entry(i, 1, 10)}, nil, true)); !errors.Is(err, errDisk) {
					t.Fatalf("Append after the failure reported %v", err)
				}
			}
			data, err := h.l.Read(3)
			if err != nil {
				t.Fatalf("Read of an entry that is not on disk: %v", err)
			}
			sameBytes(t, "Read(3)", data, e.Data)
			if err := h.l.Err(); !errors.Is(err, errDisk) {
				t.Fatalf("Err is %v", err)
			}
			if err := h.l.Close(); !errors.Is(err, errDisk) {
				t.Fatalf("Close returned %v", err)
			}
			h.l = nil
			if failed != 1 || after != 0 {
				t.Fatalf("%d failures, then %d operations; want 1 and 0", failed, after)
			}
			h.open()
			h.expect([]Entry{entry(1, 1, 100), entry(2, 1, 40_000), e}[:h.l.LastIndex()])
		})
	}
}

func TestAFullDiskIsReportedAsSuch(t *testing.T) {
	full := false
	h := newHarness(t, func(o *Options) {
		o.FS = &hookFS{FS: o.FS, hook: func(op, _ string) error {
			if full && op == "write" {
				return fmt.Errorf("pwritev: %w", syscall.ENOSPC)
			}
			return nil
		}}
	})
	h.append(entry(1, 1, 1))
	h.close()
	h.open()
	full = true
	if err := h.wait(h.l.Append([]Entry{entry(2, 1, 1)}, nil, true)); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("reported %v", err)
	}
	h.l.Close()
	h.l = nil
}

func TestPreparedSegmentsAreUsed(t *testing.T) {
	h := newHarness(t, nil)
	var want model
	for h.l.Stats().PreparedRolls < 5 {
		if len(want) > 100_000 {
			t.Fatalf("no prepared segment is used: %+v", h.l.Stats())
		}
		e := entry(Index(len(want)+1), 1, 3000)
		want = want.with(e)
		h.append(e)
	}
	h.reopen()
	h.expect(want)
}

func TestAFailedPreparationLeavesNoLitter(t *testing.T) {
	attempts := make(chan struct{}, 100)
	h := newHarness(t, func(o *Options) {
		o.FS = &hookFS{FS: o.FS, hook: func(op, name string) error {
			if filepath.Base(name) != preparedName {
				return nil
			}
			switch op {
			case "sync":
				return syscall.ENOSPC
			case "remove":
				attempts <- struct{}{}
			}
			return nil
		}}
	})
	var want model
	for len(attempts) < 3 {
		if len(want) > 100_000 {
			t.Fatalf("%d attempts", len(attempts))
		}
		e := entry(Index(len(want)+1), 1, 3000)
		want = append(want, e)
		h.append(e)
	}
	if st := h.l.Stats(); int(st.Rolls) < len(attempts) {
		t.Errorf("%d attempts for %d segments", len(attempts), st.Rolls)
	}
	disk := h.o.FS
	h.close()
	if _, err := disk.Stat("/log/" + preparedName); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is left: %v", preparedName, err)
	}
	h.open()
	h.expect(want)
}

func TestAppendDoesNotAllocate(t *testing.T) {
	h := newHarness(t, func(o *Options) { o.TailBytes, o.SegmentMaxBytes = 1<<20, 64<<20 })
	data := entry(1, 1, 100).Data
	batch := make([]Entry, 1)
	hs := HardState{Term: 1}
	one := func() {
		batch[0] = Entry{Term: 1, Index: h.l.LastIndex() + 1, Data: data}
		hs.Commit = h.l.LastIndex()
		ticket := h.l.Append(batch, &hs, true)
		for r := (report{}); r.upTo < ticket; r = <-h.reports {
		}
	}
	for range 2000 {
		one()
	}
	// Slices that grow and pages of MemFS are less than one per Append.
	if n := testing.AllocsPerRun(2000, one); n > 0 {
		t.Fatalf("%.1f allocations per Append", n)
	}
}
