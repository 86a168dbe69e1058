package shard

import (
	"errors"
	"fmt"
	"slices"

	"github.com/mortarmq/mortarmq/codec"
	mlog "github.com/mortarmq/mortarmq/log"
)

// What happens when the log is damaged in the middle, on a node that is alone:
// the messages in the damaged entries are lost and never delivered; the
// partitions they belong to take no new ones, so that no sequence is ever used
// twice; everything else is served.

// lostEntries says, while the log is replayed, that entries could not be read.
// Which partitions had messages in them shows later, if at all: a partition
// whose next messages follow on without a hole had none.
func (c *Core) lostEntries(err *mlog.CorruptionError) {
	c.damage = append(c.damage, err)
	for _, parts := range c.topics {
		for _, p := range parts {
			if p != nil {
				p.suspect = err
			}
		}
	}
}

// joins judges messages that are replayed: the first of them must follow the last one
// there is, or a hole that damage explains.
func (c *Core) joins(p *partition, first codec.Sequence) error {
	switch {
	case first == p.last+1:
		p.suspect = nil
	case first > p.last+1 && len(c.damage) > 0:
		c.lose(p, span{p.last + 1, first - 1}, c.damage[len(c.damage)-1])
		p.suspect = nil
		p.last = first - 1
	default:
		return fmt.Errorf("shard: topic %d partition %d: sequence %d follows %d", p.topic, p.id, first, p.last)
	}
	return nil
}

// lose notes that messages of a partition cannot be read any more.
func (c *Core) lose(p *partition, lost span, err *mlog.CorruptionError) {
	p.lost = append(p.lost, lost)
	slices.SortFunc(p.lost, func(a, b span) int { return int(int64(a.from) - int64(b.from)) })
	p.readOnly = err
	c.cfg.Logger.Error("messages are lost to damage; the partition is read-only",
		"topic", p.topic, "partition", p.id, "from", lost.from, "to", lost.to, "file", err.File, "offset", err.Offset, "why", err.Reason)
}

// closeSuspects ends a replay: a partition that may have had messages in what was
// lost, and shows none behind it, has no sequence that is surely free.
func (c *Core) closeSuspects() {
	for _, parts := range c.topics {
		for _, p := range parts {
			if p == nil || p.suspect == nil {
				continue
			}
			p.readOnly, p.suspect = p.suspect, nil
			c.cfg.Logger.Error("the last messages of a partition may be lost to damage; it is read-only",
				"topic", p.topic, "partition", p.id, "last", p.last, "file", p.readOnly.File, "offset", p.readOnly.Offset)
		}
	}
}

// unreadable takes note of an entry whose bytes turned out not to be what was
// written: the messages of its run are lost. It reports false for any other error.
func (c *Core) unreadable(p *partition, pos readPos, err error) bool {
	var damage *mlog.CorruptionError
	if !errors.As(err, &damage) {
		return false
	}
	c.lose(p, span{pos.seq, pos.end}, damage)
	return true
}

// readOnlyText is what a PUB to a read-only partition is told.
func (p *partition) readOnlyText() string {
	return fmt.Sprintf("partition %d of topic %d is read-only: %s is damaged at offset %d; publish to another partition, restore the file from a backup, or drain the topic and create it anew",
		p.id, p.topic, p.readOnly.File, p.readOnly.Offset)
}

// lostAt returns the end of the lost stretch that holds seq, or 0.
func (p *partition) lostAt(seq codec.Sequence) codec.Sequence {
	for _, s := range p.lost {
		if seq >= s.from && seq <= s.to {
			return s.to
		}
	}
	return 0
}

// passLost moves a ledger over lost messages. Deliveries up to them are settled
// first, so that the floor can jump. It reports whether the ledger moved.
func (c *Core) passLost(l *ledger, to codec.Sequence) bool {
	for seq := l.floor + 1; seq <= l.cursor; seq++ {
		s := l.slot(seq)
		if s.state == slotWaiting && l.part.lostAt(seq) != 0 {
			s.state = slotSettled // delivered once, and never again
			l.settled = append(l.settled, seq)
			l.skipped++
			l.newlySkipped++
		}
	}
	l.raiseFloor()
	c.markLedger(l)
	if l.floor < l.cursor {
		return false
	}
	if to <= l.cursor {
		return true
	}
	n := uint64(to - l.cursor)
	l.floor, l.cursor, l.pos = to, to, readPos{}
	l.skipped += n
	l.newlySkipped += n
	return true
}
