package shard

import (
	"github.com/mortarmq/mortarmq/codec"
	"github.com/mortarmq/mortarmq/flow"
	mlog "github.com/mortarmq/mortarmq/log"
)

// partition is one partition of a topic or of its dead-letter twin.
type partition struct {
	topic codec.TopicID
	id    codec.Partition
	twin  bool

	last      codec.Sequence // the last one given out, committed or not
	earliest  codec.Sequence // the first that retention has left, 1 when it has taken nothing
	committed codec.Sequence // the last one on disk and applied: what may be delivered
	index     seqIndex
	ledgers   []*ledger // one per group that ever subscribed

	windows map[codec.ProducerID]*window
	// The producer of the last message: most partitions are written by few.
	recentID codec.ProducerID
	recent   *window

	// lost are messages that cannot be read; ascending. readOnly is why nothing is
	// stored any more, suspect why that may become so when the replay ends.
	lost     []span
	readOnly *mlog.CorruptionError
	suspect  *mlog.CorruptionError

	// waiting are repeats of messages that are not committed yet (P4).
	waiting []repeat

	// Staged messages of the batch being filled: a list through batch.pubs.
	head, tail int32
	bytes      int // of their records
	count      int
}

type repeat struct {
	conn *flow.Conn
	slot uint64
	seq  codec.Sequence
}

const noPub = -1

func newPartition(topic codec.TopicID, id codec.Partition) *partition {
	return &partition{topic: topic, id: id, twin: topic.IsTwin(), earliest: 1, head: noPub, tail: noPub}
}

// window returns the dedup window of a producer, or nil for an unknown one.
func (p *partition) window(id codec.ProducerID) *window {
	if p.recent != nil && p.recentID == id {
		return p.recent
	}
	w := p.windows[id]
	if w != nil {
		p.recentID, p.recent = id, w
	}
	return w
}

// remember adds a stored message to its producer's window.
func (p *partition) remember(id codec.ProducerID, n codec.ProducerSeq, seq codec.Sequence, age int64) {
	if id == 0 {
		return
	}
	w := p.window(id)
	if w == nil {
		if p.windows == nil {
			p.windows = make(map[codec.ProducerID]*window)
		}
		w = &window{}
		p.windows[id] = w
		p.recentID, p.recent = id, w
	}
	w.add(n, seq)
	w.used = age
}

// forget drops a producer's window (P5).
func (p *partition) forget(id codec.ProducerID) {
	delete(p.windows, id)
	if p.recentID == id {
		p.recentID, p.recent = 0, nil
	}
}

func (p *partition) ledger(group codec.GroupID) *ledger {
	for _, l := range p.ledgers {
		if l.group == group {
			return l
		}
	}
	return nil
}
