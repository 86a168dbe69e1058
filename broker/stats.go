package broker

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mortarmq/mortarmq/admin"
	"github.com/mortarmq/mortarmq/codec"
	"github.com/mortarmq/mortarmq/coord"
	"github.com/mortarmq/mortarmq/shard"
)

// Ready implements admin.Source.
func (b *Broker) Ready() (bool, string) {
	switch f := b.state.failed.Load(); {
	case f != nil:
		return false, f.err.Error()
	case b.state.diskLow.Load():
		return false, fmt.Sprintf("free disk space is under disk_reserve_bytes (%d): PUB and DECLARE are refused", b.cfg.DiskReserveBytes)
	case !b.state.ready.Load():
		return false, "starting or stopping"
	}
	return true, ""
}

// Stats implements admin.Source.
func (b *Broker) Stats() admin.Stats {
	st := admin.Stats{
		Version: b.opts.Version, NodeID: b.node.NodeID,
		StartedAt: b.started, UptimeSeconds: time.Since(b.started).Seconds(),
	}
	st.Ready, st.Reason = b.Ready()
	b.loopStats(&st)
	var topics []coord.Topic
	var groups []coord.Group
	members := map[codec.GroupID]int{}
	b.control.ask(func(ct *control) {
		for t := range ct.core.Topics() {
			topics = append(topics, t)
		}
		for g := range ct.core.Groups() {
			groups = append(groups, g)
			members[g.ID] = ct.core.Members(g.ID)
		}
	})
	shards := b.shardStats()
	for _, s := range shards {
		st.Shards = append(st.Shards, shardRow(s))
	}
	st.Topics = topicRows(topics, groups, members, shards)
	return st
}

// shardStats asks every shard that still runs.
func (b *Broker) shardStats() []shard.Stats {
	var list []shard.Stats
	for id, s := range b.shards {
		row := shard.Stats{ID: id}
		s.Ask(func(c *shard.Core) { row = c.Stats() })
		list = append(list, row)
	}
	return list
}

func shardRow(s shard.Stats) admin.Shard {
	return admin.Shard{
		ID: s.ID, Leader: s.Term > 0, Term: s.Term,
		FirstIndex: uint64(s.First), LastIndex: uint64(s.Last), CommitIndex: uint64(s.Applied),
		Partitions: len(s.Parts), Segments: s.Log.Segments, LogBytes: s.Log.DiskBytes,
		WrittenBytes: s.Log.WrittenBytes, Fsyncs: s.Log.Syncs, TornBytes: uint64(s.Log.TornBytes),
	}
}

func topicRows(topics []coord.Topic, groups []coord.Group, members map[codec.GroupID]int, shards []shard.Stats) []admin.Topic {
	rows := make([]admin.Topic, len(topics))
	byID := map[codec.TopicID]*admin.Topic{}
	for i, t := range topics {
		rows[i] = admin.Topic{ID: uint16(t.ID), Name: t.Name, TwinID: uint16(t.ID.Twin()), Partitions: t.Partitions}
		byID[t.ID] = &rows[i]
	}
	sums := map[codec.GroupID]*admin.Group{}
	for _, g := range groups {
		sums[g.ID] = &admin.Group{ID: uint16(g.ID), Name: g.Name, Twin: g.Topic.IsTwin(), Members: members[g.ID]}
	}
	for _, s := range shards {
		for i := range s.Parts {
			addPartition(byID[s.Parts[i].Topic.Source()], sums, &s.Parts[i])
		}
	}
	for _, g := range groups {
		if row := byID[g.Topic.Source()]; row != nil {
			row.Groups = append(row.Groups, *sums[g.ID])
		}
	}
	for i := range rows {
		slices.SortFunc(rows[i].Groups, func(a, b admin.Group) int { return int(a.ID) - int(b.ID) })
	}
	return rows
}

func addPartition(row *admin.Topic, sums map[codec.GroupID]*admin.Group, p *shard.PartitionStats) {
	if row == nil {
		return // deleted between two questions
	}
	twin := p.Topic.IsTwin()
	if !twin {
		row.Produced += uint64(p.LastSeq)
	}
	for _, g := range p.Groups {
		if twin {
			row.Quarantined += g.Quarantined
		} else {
			row.Delivered += g.Acked
			row.DeadLettered += g.Dead
		}
		if sum := sums[g.Group]; sum != nil {
			sum.Lag += int64(g.Depth)
			sum.InFlight += int64(g.InFlight)
			sum.Delivered += g.Acked
			sum.DeadLettered += g.Dead
			sum.Quarantined += g.Quarantined
		}
	}
}

// loopStats fills in what the loop has counted.
func (b *Broker) loopStats(st *admin.Stats) {
	select {
	case <-b.listening:
	default:
		return
	}
	ls := b.server.Stats()
	st.Connections = admin.Connections{
		Open: ls.Connections, Accepted: ls.Accepted, Refused: ls.Rejected + ls.AcceptErrors,
	}
	for code, n := range ls.Errors {
		st.Errors = append(st.Errors, admin.ErrorCount{
			Code: fmt.Sprintf("0x%04X", uint16(code)), Name: code.Name(), Count: n,
		})
	}
	slices.SortFunc(st.Errors, func(a, b admin.ErrorCount) int { return strings.Compare(a.Code, b.Code) })
}
