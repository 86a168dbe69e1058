package shard

import (
	"container/heap"
	"time"

	"github.com/mortarmq/mortarmq/codec"
)

// maxUnsettled is how far a group's deliveries may run ahead of its floor in one partition: past
// it first deliveries pause until the floor moves, so that one stuck message
// costs bounded memory (at most 3 MiB of slots here).
const maxUnsettled = 1 << 16

// ledger is what one group knows of one partition: everything up to floor is
// settled, everything after cursor was never delivered, and each message in
// between has a slot.
type ledger struct {
	part  *partition
	group codec.GroupID

	floor  codec.Sequence
	cursor codec.Sequence
	slots  []slot // power of two, indexed by sequence
	pos    readPos

	// owner is the member that is served, nil when nobody confirmed; every
	// in-flight delivery belongs to it (G7).
	owner *member
	epoch codec.OwnershipEpoch

	leases  leaseQueue
	retries retryHeap
	timed   bool // stands in Core.timed

	// Not yet recorded in the log.
	dirty        bool
	settled      []codec.Sequence // settled since the last record, in the order it happened
	marks        []mark
	newlySkipped uint64

	// Since this group started (N1).
	acked, dead, quarantined uint64
	skipped                  uint64 // gone before they were delivered: retention, damage
	inFlight                 int
}

type slotState uint8

const (
	slotInFlight slotState = iota
	slotWaiting            // failed or handed back; stands in retries
	slotMoving             // on its way to the twin, not committed yet
	slotSettled
)

// slot is one message between floor and cursor.
type slot struct {
	delivery codec.DeliveryID // the latest; 0: none that may still be settled
	deadline time.Duration    // end of the lease while in flight
	batch    uint64           // the batch whose record says that the last attempt failed
	size     uint32           // credit bytes
	attempts uint16           // that failed
	state    slotState
	reason   uint8 // why the last attempt failed (V12)
}

func newLedger(p *partition, group codec.GroupID, floor codec.Sequence) *ledger {
	return &ledger{part: p, group: group, floor: floor, cursor: floor}
}

func (l *ledger) slot(seq codec.Sequence) *slot {
	return &l.slots[int(seq)&(len(l.slots)-1)]
}

// known reports whether seq has a slot.
func (l *ledger) known(seq codec.Sequence) bool { return seq > l.floor && seq <= l.cursor }

// advance gives the message after cursor a slot.
func (l *ledger) advance() *slot {
	if int(l.cursor-l.floor) == len(l.slots) {
		l.grow()
	}
	l.cursor++
	s := l.slot(l.cursor)
	*s = slot{}
	return s
}

func (l *ledger) grow() {
	old := l.slots
	l.slots = make([]slot, max(16, 2*len(old)))
	for seq := l.floor + 1; seq <= l.cursor && len(old) > 0; seq++ {
		*l.slot(seq) = old[int(seq)&(len(old)-1)]
	}
}

// raiseFloor moves floor over everything that is settled and gives memory back
// when a large backlog is gone.
func (l *ledger) raiseFloor() {
	for l.floor < l.cursor && l.slot(l.floor+1).state == slotSettled {
		l.floor++
	}
	if l.floor == l.cursor && len(l.slots) > 1024 {
		l.slots = nil
	}
}

// take turns what is not recorded yet into a delta; the slices are valid until
// the next call.
func (l *ledger) take() ledgerDelta {
	d := ledgerDelta{
		topic: l.part.topic, part: l.part.id, group: l.group,
		floor: l.floor, cursor: l.cursor, marks: l.marks, skipped: l.newlySkipped,
	}
	l.newlySkipped = 0
	d.settled = spans(l.settled, l.floor)
	l.settled = l.settled[:0]
	l.marks = nil
	l.dirty = false
	return d
}

// skipTo closes out everything below earliest: its bytes are gone. It returns how
// many messages the group will never see, and their credit bytes that were in flight.
func (l *ledger) skipTo(earliest codec.Sequence) (skipped uint64, returned []int) {
	if earliest <= l.floor+1 {
		return 0, nil
	}
	for seq := l.floor + 1; seq < earliest; seq++ {
		if seq > l.cursor {
			skipped += uint64(earliest - seq)
			break
		}
		s := l.slot(seq)
		if s.state == slotInFlight {
			l.inFlight--
			returned = append(returned, int(s.size))
		}
		if s.state != slotSettled {
			skipped++
		}
	}
	l.floor = earliest - 1
	l.cursor = max(l.cursor, l.floor)
	l.pos = readPos{}
	l.skipped += skipped
	l.newlySkipped += skipped
	l.raiseFloor()
	return skipped, returned
}

// lag returns how many messages the group has not settled (depth, V15).
func (l *ledger) lag() uint64 {
	if l.part.committed < l.floor {
		return 0
	}
	return uint64(l.part.committed - l.floor)
}

// timer returns when the ledger next wants to be looked at, 0 for never.
func (l *ledger) timer() time.Duration {
	var at time.Duration
	if d, ok := l.leases.first(l); ok {
		at = d
	}
	if len(l.retries) > 0 && (at == 0 || l.retries[0].due < at) {
		at = l.retries[0].due
	}
	return at
}

// lease is an entry of a leaseQueue.
type lease struct {
	seq      codec.Sequence
	delivery codec.DeliveryID
	deadline time.Duration
}

// leaseQueue holds deliveries in the order in which their leases were given.
// All leases of a broker last equally long, so the front runs out first: no
// heap, and constant work for each delivery. Entries whose delivery ended are dropped when
// they come to the front; an entry whose lease was restarted goes back to the end.
type leaseQueue struct {
	q    []lease
	head int
}

func (q *leaseQueue) push(e lease) {
	if q.head > 64 && q.head*2 > len(q.q) {
		q.q = append(q.q[:0], q.q[q.head:]...)
		q.head = 0
	}
	q.q = append(q.q, e)
}

func (q *leaseQueue) pop() {
	q.head++
	if q.head == len(q.q) {
		q.q, q.head = q.q[:0], 0
		if cap(q.q) > 4096 {
			q.q = nil
		}
	}
}

// first drops what is over from the front and returns the deadline of the first
// lease that still runs.
func (q *leaseQueue) first(l *ledger) (time.Duration, bool) {
	for q.head < len(q.q) {
		e := q.q[q.head]
		if !l.known(e.seq) {
			q.pop()
			continue
		}
		s := l.slot(e.seq)
		if s.state != slotInFlight || s.delivery != e.delivery {
			q.pop()
			continue
		}
		if s.deadline > e.deadline { // restarted by PROGRESS
			q.pop()
			q.push(lease{e.seq, e.delivery, s.deadline})
			continue
		}
		return e.deadline, true
	}
	return 0, false
}

// retry is a message that waits to be delivered again.
type retry struct {
	due time.Duration
	seq codec.Sequence
}

// retryHeap orders retries by due time, then by sequence.
type retryHeap []retry

func (h retryHeap) Len() int { return len(h) }
func (h retryHeap) Less(i, j int) bool {
	if h[i].due != h[j].due {
		return h[i].due < h[j].due
	}
	return h[i].seq < h[j].seq
}
func (h retryHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *retryHeap) Push(x any) { *h = append(*h, x.(retry)) }

// Pop implements heap.Interface.
func (h *retryHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

func (l *ledger) retryAt(seq codec.Sequence, due time.Duration) {
	heap.Push(&l.retries, retry{due, seq})
}

// nextRetry returns the sequence of the first retry that is due, dropping the ones that are over.
func (l *ledger) nextRetry(now time.Duration) (codec.Sequence, bool) {
	for len(l.retries) > 0 {
		r := l.retries[0]
		if !l.known(r.seq) || l.slot(r.seq).state != slotWaiting {
			heap.Pop(&l.retries)
			continue
		}
		return r.seq, r.due <= now
	}
	return 0, false
}

// applyDelta brings a recorded change into a ledger that is being replayed.
func (l *ledger) applyDelta(d *ledgerDelta) {
	// Floor first: a busy group moves floor and cursor far in one record, and
	// only what stays between them needs slots.
	if d.floor > l.floor {
		for seq := l.floor + 1; seq <= d.floor; seq++ {
			if seq > l.cursor || l.slot(seq).state != slotSettled {
				l.acked++
			}
		}
		l.floor = d.floor
		l.cursor = max(l.cursor, l.floor)
	}
	for l.cursor < d.cursor {
		l.advance()
	}
	for _, s := range d.settled {
		for seq := s.from; seq <= s.to; seq++ {
			l.replaySettled(seq)
		}
	}
	for _, m := range d.marks {
		l.replayMark(m)
	}
	// What was skipped was settled too, and counted as acknowledged.
	l.acked -= d.skipped
	l.skipped += d.skipped
	l.raiseFloor()
}

func (l *ledger) replaySettled(seq codec.Sequence) {
	if l.known(seq) && l.slot(seq).state != slotSettled {
		l.slot(seq).state = slotSettled
		l.acked++
	}
}

func (l *ledger) replayMark(m mark) {
	if m.state == markQuarantined {
		// Quarantined messages are settled too; they were counted as acked.
		l.quarantined++
		l.acked--
		return
	}
	if !l.known(m.seq) {
		return
	}
	s := l.slot(m.seq)
	if s.state == slotSettled {
		return
	}
	s.attempts, s.reason = m.attempts, m.reason
	if m.state == markWaiting {
		s.state = slotWaiting
	} else {
		s.state = slotInFlight
	}
}
