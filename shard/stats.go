package shard

import (
	"github.com/mortarmq/mortarmq/codec"
	mlog "github.com/mortarmq/mortarmq/log"
)

// Stats is a shard's state at one moment.
type Stats struct {
	ID                   int
	Term                 uint64
	First, Last, Applied mlog.Index
	Log                  mlog.Stats
	Parts                []PartitionStats
}

// PartitionStats is one partition of a topic or of a twin.
type PartitionStats struct {
	Topic     codec.TopicID
	Partition codec.Partition
	LastSeq   codec.Sequence // stored and committed; also the number of messages produced
	Groups    []GroupStats
}

// GroupStats is one group on one partition. In a quiet moment, for a group that
// started at the beginning: LastSeq = Acked + Dead + Quarantined + Skipped + Depth (N1).
type GroupStats struct {
	Group                    codec.GroupID
	AckFloor, Cursor         codec.Sequence
	Acked, Dead, Quarantined uint64
	Skipped                  uint64 // gone before they were settled: retention
	Depth                    uint64
	InFlight, Retrying       int
	Member                   codec.MemberID // 0: nobody owns the partition
	Epoch                    codec.OwnershipEpoch
}

// Stats returns the state; call it through Shard.Do.
func (c *Core) Stats() Stats {
	st := Stats{ID: c.cfg.ID, Term: c.term, First: c.log.FirstIndex(), Last: c.log.LastIndex(), Applied: c.group.Applied(), Log: c.log.Stats()}
	for _, parts := range c.topics {
		for _, p := range parts {
			if p == nil {
				continue
			}
			ps := PartitionStats{Topic: p.topic, Partition: p.id, LastSeq: p.committed}
			for _, l := range p.ledgers {
				gs := GroupStats{
					Group: l.group, AckFloor: l.floor, Cursor: l.cursor,
					Acked: l.acked, Dead: l.dead, Quarantined: l.quarantined, Skipped: l.skipped,
					Depth: l.lag(), InFlight: l.inFlight, Retrying: len(l.retries), Epoch: l.epoch,
				}
				if l.owner != nil {
					gs.Member = l.owner.sub.Member
				}
				ps.Groups = append(ps.Groups, gs)
			}
			st.Parts = append(st.Parts, ps)
		}
	}
	return st
}
