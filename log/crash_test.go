package log

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/mortarmq/mortarmq/env"
)

var (
	crashSeed  = flag.Uint64("crash.seed", 0, "run TestCrash with this seed alone")
	crashSeeds = flag.Int("crash.seeds", 60, "how many seeds TestCrash runs")
)

// TestCrash cuts the power at a random operation, several times in a row, and
// judges what Open finds: everything reported is there, the rest is a prefix of
// what was appended, and nothing looks like damage. Goroutines take turns as they
// like, so a seed repeats a failure often, not always.
func TestCrash(t *testing.T) {
	if *crashSeed != 0 {
		crashRun(t, *crashSeed)
		return
	}
	base := uint64(time.Now().UnixNano())
	for k := range uint64(*crashSeeds) {
		crashRun(t, base+k)
		if t.Failed() {
			return
		}
	}
}

// crashLife is one process between two crashes.
type crashLife struct {
	t     *testing.T
	r     *rand.Rand
	l     *Log
	term  Term
	alike bool // entries have one size, so that old records fit where new ones end

	states []model     // states[k] is the log after k entries were appended
	hards  []HardState // hards[k] is the hard state after k Appends, the first Open's
	upTo   []int       // upTo[k]: states after k Appends

	mu    sync.Mutex
	acked Ticket
}

func crashRun(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	disk := env.NewMemFS()
	disk.MkdirAll(crashDir, 0o700)
	policy := Policy(r.IntN(4) / 3)
	var want model
	var hs HardState
	alike := r.IntN(2) == 0
	for generation := range 5 {
		fs, err := newCrashFS(disk, r.Uint64(), 1+r.IntN(1<<r.IntN(10)))
		if err != nil {
			t.Fatal(err)
		}
		fs.kill = r.IntN(3) == 0
		life := &crashLife{t: t, r: r, alike: alike, states: []model{want}, hards: []HardState{hs}, upTo: []int{0}}
		life.run(fs, policy)
		if fs.kill {
			// What the next process finds, it must not lose when the power goes.
			fs.restart()
			want, hs = life.judge(fs, policy)
			life = &crashLife{t: t, r: r, states: []model{want}, hards: []HardState{hs}, upTo: []int{0}}
		}
		disk = fs.disk()
		want, hs = life.judge(disk, policy)
		if t.Failed() {
			t.Logf("seed %d, generation %d; repeat with -run TestCrash -args -crash.seed=%d", seed, generation, seed)
			return
		}
	}
}

func crashOptions(fs env.FS, r *rand.Rand, policy Policy) Options {
	return Options{
		Dir: crashDir, FS: fs, Rand: env.NewRand(r.Uint64()), SegmentMaxBytes: MinSegmentBytes,
		TailBytes: 1 + r.IntN(100_000), Policy: policy, OnWritten: func(Ticket, error) {},
	}
}

// run appends until the power is gone.
func (c *crashLife) run(fs *crashFS, policy Policy) {
	o := crashOptions(fs, c.r, policy)
	reported := make(chan struct{}, 1000)
	o.OnWritten = func(upTo Ticket, err error) {
		c.mu.Lock()
		if err == nil {
			c.acked = upTo
		}
		c.mu.Unlock()
		reported <- struct{}{}
	}
	l, err := Open(o)
	if err != nil {
		if !isPower(err) {
			c.t.Errorf("Open on a sound disk: %v", err)
		}
		return
	}
	c.l = l
	c.term = max(1, l.HardState().Term)
	for k := 0; k < 150 && l.Err() == nil; k++ {
		c.appendSome()
		if c.r.IntN(2) == 0 {
			<-reported
			for len(reported) > 0 {
				<-reported
			}
		}
	}
	if err := l.Close(); err != nil && !isPower(err) {
		c.t.Errorf("Close: %v", err)
	}
}

func isPower(err error) bool { return bytes.Contains([]byte(err.Error()), []byte(errPower.Error())) }

func (c *crashLife) appendSome() {
	l, r := c.l, c.r
	hs := l.HardState()
	state := c.states[len(c.states)-1]
	next := l.LastIndex() + 1
	if r.IntN(4) == 0 { // a new term, which replaces entries
		c.term++
		hs.Term, hs.Vote = c.term, r.Uint64N(4)
		if back := next - hs.Commit - 1; back > 0 {
			next -= Index(r.Uint64N(uint64(back) + 1))
		}
	}
	var batch []Entry
	for n := r.IntN(4); n > 0; n-- {
		size := r.IntN(1000)
		switch {
		case c.alike:
			size = 1000
		case r.IntN(8) == 0:
			size = r.IntN(30_000)
		}
		e := entry(next, c.term, size)
		e.Type = uint8(r.Uint32())
		batch, state = append(batch, e), state.with(e)
		c.states = append(c.states, state)
		next++
	}
	if r.IntN(3) == 0 && len(batch) > 0 && !c.alike {
		hs.Commit += Index(r.Uint64N(uint64(Index(len(state))-hs.Commit) + 1))
	}
	hs.Term = max(hs.Term, c.term)
	l.Append(batch, &hs, true)
	c.hards = append(c.hards, hs)
	c.upTo = append(c.upTo, len(c.states)-1)
}

// judge opens what is left and compares. It returns what it found.
func (c *crashLife) judge(disk env.FS, policy Policy) (model, HardState) {
	l, err := Open(crashOptions(disk, c.r, policy))
	if err != nil {
		c.t.Errorf("Open after the crash: %v", err)
		return nil, HardState{}
	}
	if fs, ok := disk.(*crashFS); ok {
		defer l.Close() // fails, and does not matter
		defer fs.disk() // the power goes before it
	} else {
		defer l.Close()
	}
	var got model
	for lo := Index(1); lo <= l.LastIndex(); {
		entries, err := l.Entries(lo, l.LastIndex()+1, 1<<20)
		if err != nil {
			c.t.Errorf("Entries(%d): %v", lo, err)
			return nil, HardState{}
		}
		got = append(got, entries...)
		lo += Index(len(entries))
	}
	acked := int(c.acked)
	if policy == SyncInterval {
		acked = 0
	}
	if !slices.ContainsFunc(c.states[c.upTo[acked]:], got.equal) {
		c.t.Errorf("%d entries are no state after the %d reported of %d Appends (%d entries then)",
			len(got), acked, len(c.upTo)-1, len(c.states[c.upTo[acked]]))
	}
	hs := l.HardState()
	if !slices.ContainsFunc(c.hards[acked:], func(h HardState) bool {
		raised := len(got) > 0 && hs == HardState{Term: got[len(got)-1].Term, Commit: h.Commit}
		return h == hs || raised
	}) {
		c.t.Errorf("hard state %+v is none of those after %d reported Appends: %s", hs, acked, fmt.Sprint(c.hards[acked:]))
	}
	return got, hs
}

func (m model) equal(o model) bool {
	return slices.EqualFunc(m, o, func(a, b Entry) bool {
		return a.Index == b.Index && a.Term == b.Term && a.Type == b.Type && bytes.Equal(a.Data, b.Data)
	})
}
