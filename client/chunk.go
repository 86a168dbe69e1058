package client

import (
	"sync"
	"sync/atomic"
)

// chunkSize is the usual receive buffer: large enough for a hundred 1 KiB
// messages per read, small enough for one per idle connection.
const chunkSize = 128 << 10

// chunk is a receive buffer. Deliveries hold views of it; only the reader of
// its connection adds references, so the reader alone holds it when refs is 1.
type chunk struct {
	buf  []byte
	refs atomic.Int32
	pool *chunkPool
}

// release gives up n references. The last one returns the chunk to its pool: no
// view of it may be used afterwards.
func (c *chunk) release(n int32) {
	if c.refs.Add(-n) == 0 && c.pool != nil {
		c.pool.p.Put(c)
	}
}

// chunkPool holds chunks of chunkSize. Larger ones, made for one large frame,
// are left to the garbage collector.
type chunkPool struct{ p sync.Pool }

// get returns a chunk of at least size bytes with one reference.
func (p *chunkPool) get(size int) *chunk {
	if size > chunkSize {
		c := &chunk{buf: make([]byte, size)}
		c.refs.Store(1)
		return c
	}
	c, ok := p.p.Get().(*chunk)
	if !ok {
		c = &chunk{buf: make([]byte, chunkSize), pool: p}
	}
	c.refs.Store(1)
	return c
}
