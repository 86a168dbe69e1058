package loop

import (
	"github.com/mortarmq/mortarmq/flow"
	"github.com/valyala/bytebufferpool"
)

// chunkSize is how much the PUBs of many reads share. A shard gives its references back
// when it has copied the bytes into its batch, so chunks live shortly.
const chunkSize = 128 << 10

// store copies a PUB's tail into the current chunk. The request that gets the view
// holds a reference from submit on.
func (r *reactor) store(tail []byte) ([]byte, *flow.Chunk) {
	c := r.chunk
	if c == nil || cap(c.Buf.B)-len(c.Buf.B) < len(tail) {
		c = r.nextChunk(len(tail))
	}
	at := len(c.Buf.B)
	c.Buf.B = append(c.Buf.B, tail...)
	r.chunkRefs++
	return c.Buf.B[at:len(c.Buf.B):len(c.Buf.B)], c
}

func (r *reactor) nextChunk(room int) *flow.Chunk {
	r.dropChunk()
	c := flow.NewChunk()
	if room = max(room, chunkSize); cap(c.Buf.B) < room {
		c.Buf.B = make([]byte, 0, room)
	}
	r.chunk = c
	return c
}

// retainChunk takes the references of the requests staged since the last time. Until
// then the reactor's own one keeps the chunk.
func (r *reactor) retainChunk() {
	if r.chunkRefs > 0 {
		r.chunkUsed = true
		r.chunk.Retain(r.chunkRefs)
		r.chunkRefs = 0
	}
}

// dropChunk ends the reactor's use of the current chunk.
func (r *reactor) dropChunk() {
	if r.chunk != nil {
		r.retainChunk()
		r.chunk.Release(1)
		r.chunk = nil
	}
}

// wrap makes a chunk of a buffer that a large frame was gathered in; the
// caller holds the one reference.
func wrap(buf []byte) *flow.Chunk {
	c := flow.NewChunk()
	unused := c.Buf
	c.Buf = &bytebufferpool.ByteBuffer{B: buf}
	bytebufferpool.Put(unused)
	return c
}
