package shard

import (
	"sync"

	"github.com/mortarmq/mortarmq/flow"
	mlog "github.com/mortarmq/mortarmq/log"
)

// Bounds of what may wait for a shard: requests and PUB bytes, from their
// arrival until they are staged (what is staged and sealed is bounded by
// sealBytes). What exceeds them is refused (0x4001).
const (
	maxRequests = 1 << 18
	maxBytes    = 128 << 20
)

// mailbox is what others leave for a shard. Everybody appends under the mutex;
// the shard takes all at once.
type mailbox struct {
	mu       sync.Mutex
	in       inbox
	requests int // submitted and not staged, settled or refused yet
	bytes    int
	closed   bool

	bell chan struct{} // capacity 1: rung after a change
}

// inbox is the content of a mailbox.
type inbox struct {
	requests []flow.Request
	orders   []order
	written  mlog.Ticket
	failed   error
	stop     bool
}

// order is a PULL or a command and its place among the requests: whoever sends an ACK
// and then leaves has settled the message first.
type order struct {
	at      int // requests that came before it
	pull    *flow.Pull
	command func(c *Core) // when pull is nil
}

// give adds an order behind everything that is there.
func (b *inbox) give(o order) {
	o.at = len(b.requests)
	b.orders = append(b.orders, o)
}

func newMailbox() *mailbox { return &mailbox{bell: make(chan struct{}, 1)} }

func (m *mailbox) ring() {
	select {
	case m.bell <- struct{}{}:
	default:
	}
}

// submit accepts requests in order until a bound is reached and returns how many.
func (m *mailbox) submit(reqs []flow.Request) int {
	m.mu.Lock()
	n := 0
	for n < len(reqs) && m.requests < maxRequests && m.bytes < maxBytes && !m.closed {
		m.requests++
		m.bytes += len(reqs[n].Tail)
		n++
	}
	m.in.requests = append(m.in.requests, reqs[:n]...)
	m.mu.Unlock()
	if n > 0 {
		m.ring()
	}
	return n
}

// add changes the inbox under the mutex and rings. It reports false once the shard has stopped.
func (m *mailbox) add(f func(in *inbox)) bool {
	m.mu.Lock()
	ok := !m.closed
	if ok {
		f(&m.in)
	}
	m.mu.Unlock()
	if ok {
		m.ring()
	}
	return ok
}

// take swaps the content with the emptied spare and returns it. Requests and bytes that were completed
// since the last time make room.
func (m *mailbox) take(spare inbox, requests, bytes int) inbox {
	clear(spare.requests)
	clear(spare.orders)
	spare = inbox{requests: spare.requests[:0], orders: spare.orders[:0]}
	if cap(spare.requests) > 1<<16 {
		spare.requests = nil
	}
	m.mu.Lock()
	in := m.in
	m.in = spare
	m.requests -= requests
	m.bytes -= bytes
	m.mu.Unlock()
	return in
}

// close refuses everything from now on and returns what is still inside.
func (m *mailbox) close() inbox {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	in := m.in
	m.in = inbox{}
	return in
}
