package client

import (
	"time"

	"github.com/mortarmq/mortarmq/codec"
)

// slotRef is a place in window.slots; none ends a list.
type slotRef int32

const none slotRef = -1

// slot is one message between its acceptance and its report.
//
// A message is bound once it has a number: it then means the same message under every
// (id, seq) it is sent with, so it can be sent again. Automatic numbering binds when a message is
// first sent, and unbinds only what can never have been stored under its number.
type slot struct {
	key, value []byte // the caller's
	report     func(Receipt, error)
	wait       *waiter // of a Publish; nil for PublishAsync and once its caller has left
	tag        uint64
	id         codec.ProducerID
	seq        codec.ProducerSeq // 0: not bound (or not idempotent)
	order      uint64            // counts acceptances
	deadline   time.Duration     // on the dialer's clock
	last       error             // why it was not stored when it was sent last
	prev, next slotRef           // in its lane
	partition  codec.Partition

	sent   bool // at least once
	onWire bool // sent on the present connection, not answered
	maybe  bool // an attempt has an unknown outcome
	orphan bool // on the wire behind a message that was given up with an unknown outcome
}

// size is what the message counts in the window: its PUB frame.
func (s *slot) size() int { return pubSize(len(s.key), len(s.value)) }

func pubSize(key, value int) int { return codec.HeaderLen + 28 + key + value }

// lane is the producer's side of one partition: the messages not yet
// reported, in order, and how they are numbered.
//
//	head ── on the wire ── … ── unsent ── not on the wire ── … ── tail
//
// While the lane is stalled nothing is sent; when the wire holds none of its
// messages any more, and its pause is over, it goes on from its head (P6).
type lane struct {
	head, tail slotRef
	unsent     slotRef // first that was not sent yet; meaningless while stalled
	onWire     int

	id   codec.ProducerID  // for the messages to be bound next
	next codec.ProducerSeq // the last number given under id
	// opened is the id that the broker knows: it has answered for it. Under
	// another one only one message is sent at a time, because the first PUB of an unknown producer
	// may carry any number (P4): were it refused, its successor would be stored.
	opened codec.ProducerID

	stalled  bool
	resumeAt time.Duration
	pause    backoff
}

// window holds the slots of all messages in flight.
type window struct {
	slots    []slot
	free     slotRef // list through next
	used     int
	bytes    int
	maxBytes int
	order    uint64
}

func newWindow(size, maxBytes int) window {
	w := window{slots: make([]slot, size), free: none, maxBytes: maxBytes}
	for i := size - 1; i >= 0; i-- {
		w.slots[i].next = w.free
		w.free = slotRef(i)
	}
	return w
}

// hasRoom reports whether a message of this size may be accepted. One that is
// larger than the whole window goes alone.
func (w *window) hasRoom(size int) bool {
	return w.free != none && (w.bytes+size <= w.maxBytes || w.used == 0)
}

// take returns an empty slot.
func (w *window) take() slotRef {
	i := w.free
	w.free = w.slots[i].next
	w.used++
	return i
}

// enter puts a filled slot at the end of its lane.
func (w *window) enter(ln *lane, i slotRef) {
	s := &w.slots[i]
	w.order++
	s.order = w.order
	w.bytes += s.size()
	s.prev, s.next = ln.tail, none
	if ln.tail == none {
		ln.head = i
	} else {
		w.slots[ln.tail].next = i
	}
	ln.tail = i
	if ln.unsent == none {
		ln.unsent = i
	}
}

// leave takes a slot out of its lane and frees it.
func (w *window) leave(ln *lane, i slotRef) {
	s := &w.slots[i]
	if s.prev == none {
		ln.head = s.next
	} else {
		w.slots[s.prev].next = s.next
	}
	if s.next == none {
		ln.tail = s.prev
	} else {
		w.slots[s.next].prev = s.prev
	}
	if ln.unsent == i {
		ln.unsent = s.next
	}
	w.bytes -= s.size()
	w.used--
	*s = slot{next: w.free}
	w.free = i
}

// ring is a queue of requests that wait for an answer. It grows as needed.
type ring[T any] struct {
	buf   []T // length is a power of two
	first int
	n     int
}

func (r *ring[T]) push(v T) {
	if r.n == len(r.buf) {
		r.grow()
	}
	r.buf[(r.first+r.n)&(len(r.buf)-1)] = v
	r.n++
}

func (r *ring[T]) grow() {
	next := make([]T, max(64, 2*len(r.buf)))
	for i := range r.n {
		next[i] = r.buf[(r.first+i)&(len(r.buf)-1)]
	}
	r.buf, r.first = next, 0
}

// front returns the oldest; the ring must not be empty.
func (r *ring[T]) front() *T { return &r.buf[r.first] }

// pop removes the oldest and returns it; the ring must not be empty.
func (r *ring[T]) pop() T {
	v := r.buf[r.first]
	var zero T
	r.buf[r.first] = zero
	r.first = (r.first + 1) & (len(r.buf) - 1)
	r.n--
	return v
}
