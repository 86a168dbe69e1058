package client

import (
	"context"
	"time"

	"github.com/mortarmq/mortarmq/codec"
)

// Delivery is one message in the hands of a handler.
//
// Key, Value and Origin.Group are views of the receive buffer: they must not be changed, and
// they are valid until the handler returns, with ManualAck until the delivery
// is settled if that is later. Whoever keeps them longer copies them.
type Delivery struct {
	Topic       string // a dead-letter topic's name ends in .dlq
	Partition   codec.Partition
	Sequence    codec.Sequence
	Attempt     int // 1 for the first delivery; grows with every attempt that failed
	Key         []byte
	Value       []byte
	ProducerID  codec.ProducerID
	ProducerSeq codec.ProducerSeq
	// DeadLetter says that the message comes from a dead-letter topic; Origin,
	// else nil, says where it came from.
	DeadLetter bool
	Origin     *codec.Origin

	m     *member
	chunk *chunk
	id    codec.DeliveryID
	epoch codec.OwnershipEpoch
	size  int // credit bytes: key and value

	// All below is guarded by m.mu.
	leased     time.Duration // since when its lease runs
	prev, next *Delivery     // in m.leases
	state      deliveryState
	counted    bool // in the credit window's outstanding part
	handling   bool // in the handler's hands
}

// deliveryState is what became of a delivery.
type deliveryState uint8

const (
	waiting deliveryState = iota // in the queue
	handed                       // to the handler
	settled                      // ACK or NACK was sent
)

// Ack settles the delivery: the message was handled. It waits for the broker's
// answer. The error wraps ErrLostOwnership when the message is, or was,
// delivered to somebody again, and ErrSettled when it was settled before.
func (d *Delivery) Ack(ctx context.Context) error {
	return d.m.settle(ctx, d, request{op: codec.OpAck, d: d})
}

// Nack gives the message back: codec.NackRetry counts a failed attempt and
// has it delivered again after a pause, codec.NackReject moves it to the
// dead-letter topic at once, codec.NackRelease has it delivered again, to whomever, without a failed
// attempt. Errors are those of Ack, and DLQ_PATH_OVERFLOW for a message of a
// dead-letter topic that is now quarantined.
func (d *Delivery) Nack(ctx context.Context, reason uint8) error {
	return d.m.settle(ctx, d, request{op: codec.OpNack, d: d, reason: reason})
}

// Progress restarts the delivery's lease, for handlers that take long. Errors are those of Ack.
func (d *Delivery) Progress(ctx context.Context) error {
	return d.m.settle(ctx, d, request{op: codec.OpAck, d: d, progress: true})
}

// release gives up the bytes. Called once, when nobody may look at them any more.
func (d *Delivery) release() {
	if d.chunk != nil {
		d.chunk.release(1)
		d.chunk = nil
	}
}

// leases is a list of deliveries whose leases the client renews, the one that
// was renewed longest ago first.
type leases struct{ head, tail *Delivery }

func (l *leases) add(d *Delivery, now time.Duration) {
	d.leased = now
	d.prev, d.next = l.tail, nil
	if l.tail == nil {
		l.head = d
	} else {
		l.tail.next = d
	}
	l.tail = d
}

// remove takes d out; nothing happens when it is not in.
func (l *leases) remove(d *Delivery) {
	if d.prev == nil && l.head != d {
		return
	}
	if d.prev == nil {
		l.head = d.next
	} else {
		d.prev.next = d.next
	}
	if d.next == nil {
		l.tail = d.prev
	} else {
		d.next.prev = d.prev
	}
	d.prev, d.next = nil, nil
}
