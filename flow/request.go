package flow

import (
	"sync/atomic"

	"github.com/mortarmq/mortarmq/codec"
	"github.com/valyala/bytebufferpool"
)

// Request is one PUB, ACK or NACK on its way to the shard that owns its
// partition. The loop has checked everything that can be checked without the
// shard's state: payload, topic, twin, partition, producer fields, node state,
// disk reserve, rate (P1).
type Request struct {
	Conn      *Conn
	Slot      uint64
	Op        codec.Op
	Topic     codec.TopicID
	Partition codec.Partition

	// PUB
	ProducerID  codec.ProducerID
	ProducerSeq codec.ProducerSeq
	Tail        []byte // codec.Pub.Tail; a view into Chunk
	Chunk       *Chunk // nil when Op is not PUB

	// ACK, NACK
	Sub      *Subscription
	Seq      codec.Sequence
	Delivery codec.DeliveryID
	Epoch    codec.OwnershipEpoch
	Flags    uint16 // ACK
	Reason   uint8  // NACK
}

// Control is one DECLARE, SUB, HEARTBEAT(LEAVE) or CONTROL_ACK on its way to the
// control plane. Its byte slices are copies that belong to it.
type Control struct {
	Conn       *Conn
	Slot       uint64
	Op         codec.Op
	Declare    codec.Declare
	Sub        codec.Sub
	ControlAck codec.ControlAck
	// Leave is the subscription of a HEARTBEAT with state LEAVE whose numbers the loop
	// has checked.
	Leave *Subscription
}

// Chunk is a pooled receive buffer with a reference count. The loop copies
// received bytes into it once; requests hold views of it.
type Chunk struct {
	Buf  *bytebufferpool.ByteBuffer
	refs atomic.Int32
}

// chunks has receive buffers only: bodies of PULLs, which differ in size, would
// teach a shared pool the wrong sizes.
var chunks bytebufferpool.Pool

// maxPooledChunk is where a buffer is left to the collector: the buffer of one
// huge PUB must not come back for a small read.
const maxPooledChunk = 1 << 20

// NewChunk returns an empty chunk with one reference, the caller's.
func NewChunk() *Chunk {
	c := &Chunk{Buf: chunks.Get()}
	c.refs.Store(1)
	return c
}

// Retain adds n references. Only a holder may call it.
func (c *Chunk) Retain(n int) { c.refs.Add(int32(n)) }

// Release gives back n references. With the last one the buffer returns to
// the pool: no view of it may be used afterwards.
func (c *Chunk) Release(n int) {
	left := c.refs.Add(-int32(n))
	if left == 0 {
		if cap(c.Buf.B) <= maxPooledChunk {
			chunks.Put(c.Buf)
		}
		c.Buf = nil
	} else if left < 0 {
		panic("flow: chunk released more often than it was retained")
	}
}
