package loop

import (
	"context"
	"sync"

	"github.com/mortarmq/mortarmq/codec"
	"github.com/mortarmq/mortarmq/flow"
	"github.com/panjf2000/gnet/v2"
)

// mailbox is what others leave for a reactor. The reactor is woken when
// something comes into an empty one, and takes all of it.
type mailbox struct {
	mu     sync.Mutex
	in     mail
	rung   bool           // a wake is on its way
	loop   gnet.EventLoop // nil until the first connection: nobody has anything to say before
	closed bool
}

// mail is the content of a mailbox.
type mail struct {
	completions []flow.Completion
	notes       []note
	tick        bool // look at the timers
	poll        bool // look at the watched sessions
	drain       bool
}

// note is a NOTICE to write, or the end of a subscription.
type note struct {
	sub     *flow.Subscription
	notice  codec.Notice
	revoked bool
	after   int // completions of the same mail that were left before it
}

// Slices beyond these capacities are not kept: they come from a rare burst.
const (
	keepCompletions = 1 << 14
	keepNotes       = 1 << 10
)

// leave changes the content under the mutex and wakes the reactor.
func (m *mailbox) leave(r *reactor, f func(in *mail)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.closed {
		f(&m.in)
		m.ring(r)
	}
}

func (m *mailbox) complete(r *reactor, batch []flow.Completion) {
	m.leave(r, func(in *mail) { in.completions = append(in.completions, batch...) })
}

func (m *mailbox) notify(r *reactor, batch []flow.Notice) {
	m.leave(r, func(in *mail) {
		for i := range batch {
			in.notes = append(in.notes, note{sub: batch[i].Sub, notice: batch[i].Notice, after: len(in.completions)})
		}
	})
}

func (m *mailbox) revoke(r *reactor, sub *flow.Subscription) {
	m.leave(r, func(in *mail) {
		in.notes = append(in.notes, note{sub: sub, revoked: true, after: len(in.completions)})
	})
}

// idle reports whether the reactor has never had a connection, or serves no longer.
func (m *mailbox) idle() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.loop == nil || m.closed
}

// ring wakes the reactor unless that is under way. It is called with mu held, so
// that nothing is written to the engine's eventfd once close has returned: its
// number may belong to another file by then.
func (m *mailbox) ring(r *reactor) {
	if m.rung || m.loop == nil {
		return
	}
	if err := m.loop.Execute(context.Background(), r); err != nil {
		r.log.Error("a reactor cannot be woken", "reactor", r.id, "err", err) // the next tick tries again
		return
	}
	m.rung = true
}

// take swaps the content with an emptied spare.
func (m *mailbox) take(spare mail) mail {
	m.mu.Lock()
	defer m.mu.Unlock()
	in := m.in
	m.in = spare
	m.rung = false
	return in
}

// emptied returns the mail's slices for the next swap.
func (in *mail) emptied() mail {
	clear(in.completions)
	clear(in.notes)
	out := mail{completions: in.completions[:0], notes: in.notes[:0]}
	if cap(out.completions) > keepCompletions {
		out.completions = nil
	}
	if cap(out.notes) > keepNotes {
		out.notes = nil
	}
	return out
}

// opened tells the mailbox how to wake the reactor.
func (m *mailbox) opened(l gnet.EventLoop) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.loop = l
}

// close ends waking. What is left and what comes later is dropped.
func (m *mailbox) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	m.in = mail{}
}
