package shard

import (
	"encoding/binary"

	"github.com/mortarmq/mortarmq/codec"
)

// forgetProducers ends every window that was idle too long (P5). The records
// stand in front of the messages of their entry: a producer that comes back in
// the same batch starts anew there too.
func (c *Core) forgetProducers() {
	if !c.leading || c.cfg.ProducerIdle <= 0 {
		return
	}
	limit := c.age() - c.cfg.ProducerIdle.Milliseconds()
	for _, parts := range c.topics {
		for _, p := range parts {
			if p == nil {
				continue
			}
			for id, w := range p.windows {
				if w.used < limit {
					p.forget(id)
					c.batch.forget = append(c.batch.forget, forgotten{p, id})
				}
			}
		}
	}
}

func encodeForget(dst []byte, list []forgotten) []byte {
	var start int
	for _, f := range list {
		dst, start = beginBlock(dst, blockForget)
		dst = appendPartition(dst, f.part.topic, f.part.id)
		dst = endBlock(binary.BigEndian.AppendUint64(dst, uint64(f.id)), start)
	}
	return dst
}

func (c *Core) replayForget(body []byte) error {
	if len(body) != 12 {
		return errBadEntry
	}
	topic, part := codec.TopicID(binary.BigEndian.Uint16(body)), codec.Partition(binary.BigEndian.Uint16(body[2:]))
	if p := c.partition(topic, part); p != nil {
		p.forget(codec.ProducerID(binary.BigEndian.Uint64(body[4:])))
	}
	return nil
}
