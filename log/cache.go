package log

// cache keeps entries that Read fetched from disk, least recently used first
// out. It belongs to the owner.
type cache struct {
	limit int // bytes
	bytes int
	byIdx map[Index]*cached
	// head.next is the most recently used, head.prev the least.
	head cached

	spare []byte // buffer of the entry evicted last, to read the next one into

	hits, misses uint64
}

// cached is one record as it is on disk; data is the part that is the payload.
type cached struct {
	index      Index
	buf, data  []byte
	next, prev *cached
}

func (c *cache) init(limit int) {
	c.limit = limit
	c.byIdx = map[Index]*cached{}
	c.head.next, c.head.prev = &c.head, &c.head
}

func (c *cache) get(i Index) ([]byte, bool) {
	e := c.byIdx[i]
	if e == nil {
		return nil, false
	}
	c.unlink(e)
	c.linkFirst(e)
	return e.data, true
}

// put takes over buf, whose part data is entry i.
func (c *cache) put(i Index, buf, data []byte) {
	if cap(buf) > c.limit {
		return
	}
	e := &cached{index: i, buf: buf, data: data}
	c.byIdx[i] = e
	c.linkFirst(e)
	c.bytes += cap(buf)
	for c.bytes > c.limit {
		old := c.head.prev
		c.drop(old)
		c.spare = old.buf
	}
}

// buffer returns n bytes to read into, reusing those of an evicted entry.
func (c *cache) buffer(n int) []byte {
	if s := c.spare; cap(s) >= n && cap(s) <= 2*n {
		c.spare = nil
		return s[:n]
	}
	return make([]byte, n)
}

// truncate drops the entries from i on: they are superseded.
func (c *cache) truncate(i Index) {
	for index, e := range c.byIdx {
		if index >= i {
			c.drop(e)
		}
	}
}

func (c *cache) drop(e *cached) {
	c.unlink(e)
	delete(c.byIdx, e.index)
	c.bytes -= cap(e.buf)
}

func (c *cache) unlink(e *cached) {
	e.prev.next, e.next.prev = e.next, e.prev
}

func (c *cache) linkFirst(e *cached) {
	e.next, e.prev = c.head.next, &c.head
	e.next.prev, c.head.next = e, e
}
