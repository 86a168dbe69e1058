package log

import "sync"

// item is one record on its way to the writer.
type item struct {
	head  *segmentHead
	off   int64
	data  []byte // an entry's payload
	vote  uint64 // a hard state's payload
	term  Term
	index Index
	kind  recordKind
	typ   uint8
}

func (it *item) payloadLen() int {
	if it.kind == kindHardState {
		return hardStateLen
	}
	return len(it.data)
}

// queue hands items from the owner to the writer. The owner locks it while it
// appends, the writer while it swaps; neither does anything slow meanwhile.
type queue struct {
	mu     sync.Mutex
	items  []item
	last   Ticket // of the newest Append
	taken  Ticket // of the newest Append the writer took
	force  bool   // sync whatever the policy
	closed bool

	bell chan struct{} // capacity 1: rung when there is something new
}

func newQueue() *queue { return &queue{bell: make(chan struct{}, 1)} }

// add appends an item; the caller holds mu.
func (q *queue) add(it item) { q.items = append(q.items, it) }

func (q *queue) ring() {
	select {
	case q.bell <- struct{}{}:
	default: // it rings already
	}
}

func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.ring()
}

// batch is what the writer takes at a time.
type batch struct {
	items []item
	last  Ticket
	force bool
}

// take swaps everything queued into b, whose slice is reused. It reports whether
// there was any Append, and whether the queue is closed.
func (q *queue) take(b *batch) (any, closed bool) {
	clear(b.items) // drop the references to the entries
	q.mu.Lock()
	defer q.mu.Unlock()
	q.items, b.items = b.items[:0], q.items
	b.last, b.force = q.last, q.force
	any = q.last != q.taken
	q.taken, q.force = q.last, false
	return any, q.closed
}

// idle reports whether nothing is queued.
func (q *queue) idle() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.last == q.taken
}

// ticketFIFO remembers which entries the Appends not yet written hold, so that
// the tail keeps those. It belongs to the owner.
type ticketFIFO struct {
	all     []pendingTicket
	head    int
	written Index // entries up to here can be read from disk
}

type pendingTicket struct {
	ticket Ticket
	last   Index // newest entry when the ticket was given
}

func (f *ticketFIFO) push(t Ticket, last Index) {
	f.all = append(f.all, pendingTicket{ticket: t, last: last})
}

// advance notes that the Appends up to t are written and returns the newest
// entry that can be read from disk.
func (f *ticketFIFO) advance(t Ticket) Index {
	for f.head < len(f.all) && f.all[f.head].ticket <= t {
		f.written = f.all[f.head].last
		f.head++
	}
	if f.head > 64 && f.head > len(f.all)/2 {
		n := copy(f.all, f.all[f.head:])
		f.all, f.head = f.all[:n], 0
	}
	return f.written
}

// truncate notes that the entries from i on are replaced by ones not written.
func (f *ticketFIFO) truncate(i Index) {
	f.written = min(f.written, i-1)
	for k := f.head; k < len(f.all); k++ {
		f.all[k].last = min(f.all[k].last, i-1)
	}
}
