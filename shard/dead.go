package shard

import (
	"github.com/mortarmq/mortarmq/codec"
	mlog "github.com/mortarmq/mortarmq/log"
)

// encodeDeads writes the moves to the twins. A message that cannot be read stays
// where it is and is tried again after its backoff.
func (c *Core) encodeDeads(dst []byte, b *batch) []byte {
	keep := b.deads[:0]
	for _, d := range b.deads {
		l := d.ledger
		twin := c.partition(l.part.topic.Twin(), l.part.id)
		if twin == nil || !l.known(d.seq) {
			continue // the topic was deleted meanwhile
		}
		s := l.slot(d.seq)
		rec, key, value, err := c.read(l, d.seq)
		if err != nil {
			c.cfg.Logger.Error("a message cannot be moved to its dead-letter twin; it stays pending",
				"topic", l.part.topic, "partition", l.part.id, "sequence", d.seq, "err", err)
			c.wait(l, d.seq, s, s.reason, c.cfg.RetryBackoffMax)
			continue
		}
		twin.last++
		d.twin = twin.last
		var start int
		dst, start = beginBlock(dst, blockDead)
		dst = appendDeadHead(dst, deadHead{l.part.topic, l.part.id, l.group, d.seq, d.twin})
		d.off = len(dst)
		dst = appendDeadLetter(dst, rec[:20+key+4+value], codec.Origin{
			TopicID: l.part.topic, Partition: l.part.id, Sequence: d.seq,
			Attempts: s.attempts, Reason: s.reason, Group: []byte(c.names[l.group]),
		})
		dst = endBlock(dst, start)
		keep = append(keep, d)
	}
	b.deads = keep
	return dst
}

// appendDeadLetter writes the twin's record: the original's with the flag and
// the origin behind it (V12).
func appendDeadLetter(dst, rec []byte, origin codec.Origin) []byte {
	n := len(dst)
	dst = append(dst, rec...)
	codec.SetTailFlags(dst[n:], codec.MsgDeadLetter)
	return codec.AppendOrigin(dst, &origin)
}

// commitDead settles the source and shows the twin's message.
func (c *Core) commitDead(d deadMove, index mlog.Index) {
	l := d.ledger
	twin := c.partition(l.part.topic.Twin(), l.part.id)
	if twin == nil {
		return
	}
	twin.index.add(d.twin, index, d.off)
	twin.committed = d.twin
	if l.known(d.seq) {
		l.slot(d.seq).state = slotSettled
		l.dead++
		l.raiseFloor()
		c.markLedger(l)
	}
	c.committed(twin)
}
