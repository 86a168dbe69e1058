package log

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/mortarmq/mortarmq/env"
)

// harness is a log under test with what an owner needs to wait for it.
type harness struct {
	t       testing.TB
	o       Options
	l       *Log
	reports chan report
}

type report struct {
	upTo Ticket
	err  error
}

// newHarness opens a log in memory; change o before, reopen after.
func newHarness(t testing.TB, set func(o *Options)) *harness {
	t.Helper()
	h := &harness{t: t, reports: make(chan report, 4096)}
	h.o = Options{
		Dir: "/log", FS: env.NewMemFS(), Rand: env.NewRand(1), SegmentMaxBytes: MinSegmentBytes,
		OnWritten: func(upTo Ticket, err error) { h.reports <- report{upTo, err} },
	}
	if set != nil {
		set(&h.o)
	}
	h.open()
	t.Cleanup(func() {
		if h.l != nil {
			h.l.Close()
		}
	})
	return h
}

func (h *harness) open() {
	h.t.Helper()
	l, err := Open(h.o)
	if err != nil {
		h.t.Fatalf("Open: %v", err)
	}
	h.l = l
}

func (h *harness) close() {
	h.t.Helper()
	if err := h.l.Close(); err != nil {
		h.t.Fatalf("Close: %v", err)
	}
	h.l = nil
	for len(h.reports) > 0 {
		<-h.reports
	}
}

func (h *harness) reopen() {
	h.t.Helper()
	h.close()
	h.open()
}

// wait returns the error reported for t.
func (h *harness) wait(t Ticket) error {
	h.t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		select {
		case r := <-h.reports:
			if r.upTo >= t || r.err != nil {
				return r.err
			}
		case <-deadline:
			h.t.Fatalf("ticket %d is not reported after 20 s", t)
		}
	}
}

func (h *harness) append(entries ...Entry) {
	h.t.Helper()
	if err := h.wait(h.l.Append(entries, nil, true)); err != nil {
		h.t.Fatalf("Append: %v", err)
	}
}

// expect compares the whole log with want, through every way of reading.
func (h *harness) expect(want []Entry) {
	h.t.Helper()
	l := h.l
	if got := l.LastIndex(); got != Index(len(want)) {
		h.t.Fatalf("LastIndex is %d, want %d", got, len(want))
	}
	for lo := Index(1); lo <= l.LastIndex(); {
		got, err := l.Entries(lo, l.LastIndex()+1, 100_000)
		if err != nil || len(got) == 0 {
			h.t.Fatalf("Entries(%d): %d entries, %v", lo, len(got), err)
		}
		for k := range got {
			sameEntry(h.t, got[k], want[int(lo)-1+k])
		}
		lo += Index(len(got))
	}
	for i := l.LastIndex(); i > 0; i-- {
		data, err := l.Read(i)
		if err != nil {
			h.t.Fatalf("Read(%d): %v", i, err)
		}
		sameBytes(h.t, fmt.Sprintf("Read(%d)", i), data, want[i-1].Data)
		term, err := l.Term(i)
		if err != nil || term != want[i-1].Term {
			h.t.Fatalf("Term(%d) is %d, %v, want %d", i, term, err, want[i-1].Term)
		}
	}
}

func sameEntry(t testing.TB, got, want Entry) {
	t.Helper()
	if got.Index != want.Index || got.Term != want.Term || got.Type != want.Type {
		t.Fatalf("entry is %d/%d/%d, want %d/%d/%d", got.Index, got.Term, got.Type, want.Index, want.Term, want.Type)
	}
	sameBytes(t, fmt.Sprintf("entry %d", got.Index), got.Data, want.Data)
}

func sameBytes(t testing.TB, what string, got, want []byte) {
	t.Helper()
	if !bytes.Equal(got, want) {
		t.Fatalf("%s has %d bytes that differ from the %d appended", what, len(got), len(want))
	}
}

// entry makes an entry with n bytes that follow from its index and term.
func entry(i Index, term Term, n int) Entry {
	r := rand.New(rand.NewPCG(uint64(i), uint64(term)))
	data := make([]byte, n)
	for k := range data {
		data[k] = byte(r.Uint32())
	}
	return Entry{Term: term, Index: i, Type: uint8(i % 3), Data: data}
}

func TestEntriesComeBackAfterEveryReopen(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	h := newHarness(t, func(o *Options) { o.TailBytes, o.CacheBytes = 50_000, 60_000 })
	var want []Entry
	term := Term(1)
	for round := 0; round < 12; round++ {
		for k := r.IntN(40); k >= 0; k-- {
			var batch []Entry
			for n := r.IntN(5); n > 0; n-- {
				size := r.IntN(3000)
				if r.IntN(20) == 0 {
					size = r.IntN(100_000)
				}
				e := entry(Index(len(want)+1), term, size)
				want, batch = append(want, e), append(batch, e)
			}
			hs := &HardState{Term: term, Vote: r.Uint64(), Commit: Index(len(want) / 2)}
			if err := h.wait(h.l.Append(batch, hs, true)); err != nil {
				t.Fatal(err)
			}
		}
		h.expect(want)
		hs := h.l.HardState()
		h.reopen()
		h.expect(want)
		if h.l.HardState() != hs {
			t.Fatalf("hard state is %+v, was %+v", h.l.HardState(), hs)
		}
		if st := h.l.Stats(); st.TornTails != 0 {
			t.Fatalf("a clean log has torn tails: %+v", st)
		}
		term += Term(r.IntN(2))
	}
}
