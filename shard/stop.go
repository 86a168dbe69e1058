package shard

import (
	"github.com/mortarmq/mortarmq/codec"
	"github.com/mortarmq/mortarmq/flow"
)

// handBackAll ends all ownership before a planned stop: nobody is at fault, so no
// attempt fails.
func (c *Core) handBackAll() {
	for _, m := range c.members {
		for len(m.ledgers) > 0 {
			c.disown(m.ledgers[0], false)
		}
		if m.pull != nil && m.pull.Cancel() {
			c.complete(m, m.pull, 0)
		}
	}
	c.dirtySince = c.now - ledgerDelay // write the ledgers with the next entry
}

// idle reports whether everything that was staged is on disk and answered.
func (c *Core) idle() bool {
	return len(c.inflight) == 0 && !c.batch.hasWork() && len(c.dirtyLedgers) == 0 && len(c.forwards) == 0
}

// abandon answers everything that waits for a commit that will not come. The
// outcome is unknown to the client: the records may be on disk.
func (c *Core) abandon() {
	for _, b := range append(c.inflight, c.batch) {
		for i := range b.pubs {
			m := &b.pubs[i]
			if m.conn == nil {
				continue
			}
			c.reply(flow.Completion{Conn: m.conn, Slot: m.slot, Op: codec.OpPub, Code: codec.CodeInternal})
			if m.chunk != nil {
				m.chunk.Release(1)
				m.chunk = nil
			}
		}
		b.pubs = nil
	}
	for _, parts := range c.topics {
		for _, p := range parts {
			if p == nil {
				continue
			}
			for _, w := range p.waiting {
				c.reply(flow.Completion{Conn: w.conn, Slot: w.slot, Op: codec.OpPub, Code: codec.CodeInternal})
			}
			p.waiting = nil
		}
	}
	for _, m := range c.members {
		if m.pull != nil && m.pull.Cancel() {
			c.complete(m, m.pull, codec.CodeInternal)
		}
	}
}
