package shard

import (
	"errors"
	"fmt"
	"time"

	"github.com/mortarmq/mortarmq/codec"
	"github.com/mortarmq/mortarmq/env"
	"github.com/mortarmq/mortarmq/flow"
	mlog "github.com/mortarmq/mortarmq/log"
	"github.com/mortarmq/mortarmq/repl"
)

// Options are what a Shard needs besides its rules.
type Options struct {
	Config   Config
	Reactors int
	Clock    env.Clock
	Log      mlog.Options // OnWritten is the shard's own
	Replies  flow.Replies
	// Forward hands a PULL token to another shard.
	Forward func(shard int, p *flow.Pull)
	// Failed is told once when the shard can serve no longer: a failed disk, an
	// entry that does not apply. Until the process ends it refuses everything with 0x000A.
	Failed func(shard int, err error)
}

// Shard runs a Core on its own goroutine.
type Shard struct {
	opts    Options
	core    *Core
	log     *mlog.Log
	group   *repl.Group
	box     *mailbox
	done    chan struct{}
	ready   chan struct{}
	err     error // after done
	started bool

	spare    inbox          // slices that are used again
	rest     []flow.Request // taken; handled up to restAt, the batch was full then
	restAt   int
	orders   []order // taken and not carried out; at counts in rest
	finished int     // requests and bytes that left since the last take
	freed    int
}

// ErrStopped is returned by calls to a shard that has ended.
var ErrStopped = errors.New("shard: stopped")

// Open reads the shard's log. Run starts the goroutine that replays and serves it.
func Open(o Options) (*Shard, error) {
	s := &Shard{opts: o, box: newMailbox(), done: make(chan struct{}), ready: make(chan struct{})}
	lo := o.Log
	lo.OnWritten = func(upTo mlog.Ticket, err error) {
		s.box.add(func(in *inbox) {
			in.written = max(in.written, upTo)
			if err != nil && in.failed == nil {
				in.failed = err
			}
		})
	}
	var err error
	if s.log, err = mlog.Open(lo); err != nil {
		return nil, err
	}
	s.group, err = repl.New(repl.Config{ID: 1, Voters: []uint64{1}, Log: s.log, Logger: o.Config.Logger}, 0)
	if err != nil {
		return nil, errors.Join(err, s.log.Close())
	}
	s.core = NewCore(o.Config, s.log, s.group, o.Reactors)
	return s, nil
}

// Run replays the log, leads the group and serves until Stop. It returns at once;
// Ready tells when the shard serves.
func (s *Shard) Run() {
	s.started = true
	go s.run()
}

// Ready is closed once the shard leads its group with its whole log applied.
func (s *Shard) Ready() <-chan struct{} { return s.ready }

// Done is closed when the shard has ended; Err tells why.
func (s *Shard) Done() <-chan struct{} { return s.done }

// Err returns what ended the shard, nil after Stop. Valid once Done is closed.
func (s *Shard) Err() error { return s.err }

// Submit takes requests into the mailbox, in order, and returns how many found room.
// Never blocks. The slice may be reused afterwards.
func (s *Shard) Submit(reqs []flow.Request) int { return s.box.submit(reqs) }

// Pull takes the token of a PULL. Never blocks.
func (s *Shard) Pull(p *flow.Pull) {
	if !s.box.add(func(in *inbox) { in.give(order{pull: p}) }) {
		s.opts.Replies.Complete(p.Conn.Loop, []flow.Completion{p.Completion(codec.CodeInternal)})
	}
}

// Do runs f on the shard's goroutine, in order with other commands of the same
// caller. It reports false when the shard has ended: f will not run.
func (s *Shard) Do(f func(c *Core)) bool {
	return s.box.add(func(in *inbox) { in.give(order{command: f}) })
}

// Ask runs f on the shard's goroutine and waits for it. It reports false when the shard has ended.
func (s *Shard) Ask(f func(c *Core)) bool {
	ran := make(chan struct{})
	if !s.Do(func(c *Core) { f(c); close(ran) }) {
		return false
	}
	select {
	case <-ran:
		return true
	case <-s.done:
		return false
	}
}

// Stop hands back what is in flight, writes what is staged and ends the shard. The
// caller is the one who called Run, or would have.
func (s *Shard) Stop() error {
	if !s.started {
		return s.log.Close()
	}
	s.box.add(func(in *inbox) { in.stop = true })
	<-s.done
	return s.err
}

func (s *Shard) run() {
	defer close(s.done)
	err := s.serve()
	s.refuseRest()
	if cerr := s.log.Close(); err == nil {
		err = cerr
	}
	s.err = err
	if err != nil {
		s.opts.Failed(s.opts.Config.ID, err)
	}
}

// serve is the shard's life: see the package comment for one turn.
func (s *Shard) serve() error {
	if err := s.group.Campaign(); err != nil {
		return fmt.Errorf("shard: %w", err)
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	c := s.core
	stopping := false
	for {
		in := s.take()
		c.begin(s.opts.Clock.Now(), s.opts.Clock.Wall().UnixMilli())
		if in.failed != nil {
			return in.failed
		}
		if in.written > 0 {
			if err := s.group.Written(in.written); err != nil {
				return err
			}
		}
		s.handle(in)
		if in.stop && !stopping {
			stopping = true
			c.handBackAll()
		}
		next, err := s.turn()
		if err != nil {
			return err
		}
		if stopping && c.idle() {
			return nil
		}
		s.wait(timer, next)
	}
}

// turn lets everything take its course after the inbox was handled.
func (s *Shard) turn() (next time.Duration, err error) {
	c := s.core
	if err := c.pump(); err != nil {
		return 0, err
	}
	if c.leading {
		select {
		case <-s.ready:
		default:
			close(s.ready)
		}
	}
	next = c.timers()
	if err := c.seal(); err != nil {
		return 0, err
	}
	if err := c.pump(); err != nil {
		return 0, err
	}
	s.flush()
	return next, nil
}

// take returns what is to be handled now: first what was left over.
func (s *Shard) take() inbox {
	if s.restAt == len(s.rest) {
		s.spare.requests, s.rest, s.restAt = s.rest, nil, 0
	}
	in := s.box.take(s.spare, s.finished, s.freed)
	s.spare = inbox{orders: in.orders}
	s.finished, s.freed = 0, 0
	return in
}

func (s *Shard) handle(in inbox) {
	c := s.core
	base := len(s.rest)
	for _, o := range in.orders {
		o.at += base
		s.orders = append(s.orders, o)
	}
	if s.restAt == len(s.rest) {
		s.rest, s.restAt = in.requests, 0
	} else {
		s.rest = append(s.rest, in.requests...)
	}
	for s.obey(); s.restAt < len(s.rest) && !c.full(); s.obey() {
		r := &s.rest[s.restAt]
		s.finished++
		s.freed += len(r.Tail)
		c.Handle(r)
		s.restAt++
	}
}

// obey carries out the orders whose turn it is.
func (s *Shard) obey() {
	n := 0
	for n < len(s.orders) && s.orders[n].at <= s.restAt {
		if o := &s.orders[n]; o.pull != nil {
			s.core.Pull(o.pull)
		} else {
			o.command(s.core)
		}
		n++
	}
	if n > 0 {
		left := copy(s.orders, s.orders[n:])
		clear(s.orders[left:])
		s.orders = s.orders[:left]
	}
}

// wait sleeps until the bell rings or a timer is due.
func (s *Shard) wait(timer *time.Timer, next time.Duration) {
	if s.restAt < len(s.rest) && !s.core.full() {
		return
	}
	select {
	case <-s.box.bell:
		return
	default:
	}
	if next == 0 {
		<-s.box.bell
		return
	}
	timer.Reset(max(next-s.opts.Clock.Now(), 0))
	select {
	case <-s.box.bell:
	case <-timer.C:
	}
}

// flush hands the outputs of a turn over: one call for each reactor.
func (s *Shard) flush() {
	c := s.core
	for i := range c.out {
		if len(c.out[i]) > 0 {
			s.opts.Replies.Complete(i, c.out[i])
			clear(c.out[i])
			c.out[i] = c.out[i][:0]
			if cap(c.out[i]) > 1<<14 {
				c.out[i] = nil
			}
		}
	}
	for i, f := range c.forwards {
		s.opts.Forward(f.shard, f.pull)
		c.forwards[i] = forward{}
	}
	c.forwards = c.forwards[:0]
	for i, f := range c.done {
		f()
		c.done[i] = nil
	}
	c.done = c.done[:0]
}

// refuseRest answers everything that can no longer be served with 0x000A: what
// was staged or sealed is not known to be on disk.
func (s *Shard) refuseRest() {
	in := s.box.close()
	c := s.core
	for _, r := range append(s.rest[s.restAt:], in.requests...) {
		if r.Chunk != nil {
			r.Chunk.Release(1)
		}
		c.reply(flow.Completion{Conn: r.Conn, Slot: r.Slot, Op: r.Op, Code: codec.CodeInternal})
	}
	for _, o := range append(s.orders, in.orders...) {
		if o.pull != nil {
			c.reply(o.pull.Completion(codec.CodeInternal))
		}
	}
	c.abandon()
	s.flush()
}
