package shard

import (
	"fmt"

	"github.com/mortarmq/mortarmq/codec"
	mlog "github.com/mortarmq/mortarmq/log"
)

// apply takes a committed entry into the state. Entries that this Core sealed
// itself are there already, except for what had to wait for the commit.
func (c *Core) apply(e mlog.Entry) error {
	if len(e.Data) == 0 {
		return nil // opens a term
	}
	if len(c.inflight) > 0 && c.inflight[0].index == e.Index {
		b := c.inflight[0]
		c.inflight[0] = nil
		c.inflight = append(c.inflight[:0], c.inflight[1:]...)
		c.commit(b, e.Index)
		return nil
	}
	return c.replay(e)
}

// commit makes a batch of our own visible and answers whom it concerns.
func (c *Core) commit(b *batch, index mlog.Index) {
	c.applied = b.number
	for i := range b.parts {
		s := &b.parts[i]
		p := s.part
		p.index.add(s.first, index, s.off)
		p.committed = s.first + codec.Sequence(s.count) - 1
	}
	for i := range b.pubs {
		m := &b.pubs[i]
		if m.conn != nil {
			c.pubOK(m.conn, m.slot, m.part, m.seq, 0)
		}
	}
	for i := range b.parts {
		c.committed(b.parts[i].part)
	}
	for _, d := range b.deads {
		c.commitDead(d, index)
	}
	c.done = append(c.done, b.done...)
	c.serveWoken()
	c.recycle(b)
}

// committed answers repeats that waited and wakes PULLs that may go on.
func (c *Core) committed(p *partition) {
	if len(p.waiting) > 0 {
		keep := p.waiting[:0]
		for _, w := range p.waiting {
			if w.seq > p.committed {
				keep = append(keep, w)
				continue
			}
			c.pubOK(w.conn, w.slot, p, w.seq, codec.PubDeduped)
		}
		p.waiting = keep
	}
	for _, l := range p.ledgers {
		if l.owner != nil {
			c.wake(l.owner)
		}
	}
}

// replay takes an entry into the state that is not, or no longer, in memory.
func (c *Core) replay(e mlog.Entry) error {
	if len(e.Data) >= entryHeaderLen {
		c.replayedAge = max(c.replayedAge, entryAge(e.Data))
	}
	return walkEntry(e.Data, func(kind blockKind, body []byte, off int) error {
		switch kind {
		case blockMessages:
			return c.replayMessages(body, e.Index, off)
		case blockLedger:
			return c.replayLedger(body)
		case blockDead:
			return c.replayDead(body, e.Index, off)
		case blockGroup:
			return c.replayGroup(body)
		case blockForget:
			return c.replayForget(body)
		}
		return fmt.Errorf("shard: block of unknown kind %d: written by a newer version, upgrade the broker", kind)
	})
}

func (c *Core) replayMessages(body []byte, index mlog.Index, off int) error {
	h, records, err := parseMessagesHead(body)
	if err != nil {
		return err
	}
	p := c.ensure(h.topic, h.part)
	if err := c.joins(p, h.first); err != nil {
		return err
	}
	p.index.add(h.first, index, off+messagesHeadLen)
	for range h.count {
		n, _, _, err := recordLen(records)
		if err != nil {
			return err
		}
		id, seq := recordProducer(records)
		p.last++
		p.remember(id, seq, p.last, c.replayedAge)
		records = records[n:]
	}
	if len(records) != 0 {
		return errBadEntry
	}
	p.committed = p.last
	return nil
}

func (c *Core) replayLedger(body []byte) error {
	d, err := parseLedgerDelta(body)
	if err != nil {
		return err
	}
	p := c.ensure(d.topic, d.part)
	if d.cursor > p.last {
		// Only a log that lost records can say this (V15).
		c.warn("a group's floor or cursor stands above the end of its partition; set to the end",
			"topic", d.topic, "partition", d.part, "group", d.group, "cursor", d.cursor, "last", p.last)
		c.clamped++
		d.floor, d.cursor, d.settled = min(d.floor, p.last), p.last, nil
	}
	l := p.ledger(d.group)
	if l == nil && len(c.damage) > 0 { // its start is lost
		l = newLedger(p, d.group, d.floor)
		p.ledgers = append(p.ledgers, l)
	}
	if l == nil {
		return fmt.Errorf("shard: ledger record of group %d, which was never opened on topic %d partition %d", d.group, d.topic, d.part)
	}
	l.applyDelta(&d)
	return nil
}

func (c *Core) replayDead(body []byte, index mlog.Index, off int) error {
	h, record, err := parseDeadHead(body)
	if err != nil {
		return err
	}
	if n, _, _, err := recordLen(record); err != nil || n != len(record) {
		return errBadEntry
	}
	p := c.ensure(h.topic, h.part)
	twin := c.ensure(h.topic.Twin(), h.part)
	if err := c.joins(twin, h.twin); err != nil {
		return err
	}
	twin.index.add(h.twin, index, off+deadHeadLen)
	twin.last, twin.committed = h.twin, h.twin
	l := p.ledger(h.group)
	if l == nil && len(c.damage) > 0 {
		l = newLedger(p, h.group, min(h.seq, p.last)-1)
		p.ledgers = append(p.ledgers, l)
	}
	if l == nil {
		return fmt.Errorf("shard: dead letter of group %d, which was never opened on topic %d partition %d", h.group, h.topic, h.part)
	}
	for l.cursor < min(h.seq, p.last) {
		l.advance()
	}
	if l.known(h.seq) && l.slot(h.seq).state != slotSettled {
		l.slot(h.seq).state = slotSettled
		l.dead++
		l.raiseFloor()
	}
	return nil
}

func (c *Core) replayGroup(body []byte) error {
	g, err := parseGroupStart(body)
	if err != nil {
		return err
	}
	p := c.ensure(g.topic, g.part)
	if p.ledger(g.group) == nil {
		p.ledgers = append(p.ledgers, newLedger(p, g.group, min(g.floor, p.last)))
	}
	return nil
}
