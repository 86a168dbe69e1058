package broker

import (
	"sync/atomic"

	"github.com/mortarmq/mortarmq/codec"
	"github.com/mortarmq/mortarmq/coord"
	"github.com/mortarmq/mortarmq/flow"
	"github.com/mortarmq/mortarmq/shard"
)

// effects carries out what coord decided, in order, and hands the answers over at the end:
// whoever reads one finds its effects done.
func (ct *control) effects(list []coord.Effect) {
	for _, e := range list {
		ct.effect(e)
	}
	for _, id := range ct.gone {
		delete(ct.subs, id)
	}
	ct.gone = ct.gone[:0]
	r := replies{ct.b}
	for i := range ct.answers {
		if len(ct.answers[i]) > 0 {
			r.Complete(i, ct.answers[i])
			clear(ct.answers[i])
			ct.answers[i] = ct.answers[i][:0]
		}
		if len(ct.notices[i]) > 0 {
			r.Notify(i, ct.notices[i])
			clear(ct.notices[i])
			ct.notices[i] = ct.notices[i][:0]
		}
	}
}

func (ct *control) effect(e coord.Effect) {
	switch e := e.(type) {
	case coord.Propose:
		if err := ct.group.Propose(e.Record); err != nil {
			ct.b.log.Error("a metadata change could not be proposed", "err", err)
			ct.box.force(func(ct *control) { ct.step(coord.ProposalFailed{Code: codec.CodeMetadataReadOnly}) })
		}
	case coord.Reply:
		ct.reply(e)
	case coord.TopicAdded:
		ct.topicAdded(e.Topic)
	case coord.TopicRemoved:
		ct.topicRemoved(e.Topic)
	case coord.OpenGroup:
		ct.openGroup(e)
	case coord.MemberJoined:
		ct.joined(e)
	case coord.MemberGone:
		ct.memberGone(e)
	case coord.Notify:
		if sub := ct.subs[e.Member]; sub != nil {
			ct.notices[sub.Conn.Loop] = append(ct.notices[sub.Conn.Loop], flow.Notice{Sub: sub, Notice: e.Notice})
		}
	case coord.Own:
		ct.own(e)
	case coord.Disown:
		if sub := ct.subs[e.Member]; sub != nil {
			ct.shardOf(e.Topic, e.Partition).Do(func(c *shard.Core) { c.Disown(sub, e.Partition, e.Fail) })
		}
	case coord.Epochs:
		if sub := ct.subs[e.Member]; sub != nil {
			sub.Membership.Set(e.Membership.Confirmed, e.Membership.Told)
			sub.Assignment.Set(e.Assignment.Confirmed, e.Assignment.Told)
		}
	case coord.OwnedSet:
		ct.ownedSet(e)
	case coord.Dropped:
		ct.b.log.Warn("a committed metadata record no longer fitted and changed nothing", "index", e.Index, "why", e.Why)
	}
}

func (ct *control) shardOf(topic codec.TopicID, part codec.Partition) *shard.Shard {
	return ct.b.shards[flow.ShardOf(topic, part, ct.b.node.Shards)]
}

func (ct *control) reply(e coord.Reply) {
	conn := ct.conns[e.Conn]
	if conn == nil {
		return
	}
	done := flow.Completion{Conn: conn, Slot: e.Slot, Op: e.Op, Code: e.Code, Message: e.Message}
	if e.Code == 0 {
		switch e.Op {
		case codec.OpDeclare:
			done.Result = codec.AppendDeclareResult(nil, &e.Declare)
		case codec.OpSub:
			done.Result = codec.AppendSubResult(nil, &e.Sub)
			done.Subscribed = ct.subs[e.Member]
		case codec.OpHeartbeat:
			done.Unsubscribed = ct.subs[e.Member]
		}
	}
	ct.answers[conn.Loop] = append(ct.answers[conn.Loop], done)
}

// topicAdded shows a topic to the shards before the loop can route to it.
func (ct *control) topicAdded(t coord.Topic) {
	for _, s := range ct.b.shards {
		s.Do(func(c *shard.Core) { c.AddTopic(t.ID, t.Partitions) })
	}
	if ct.leading {
		ct.publish()
		ct.b.log.Info("topic created", "topic", t.Name, "id", t.ID, "partitions", t.Partitions)
	}
}

func (ct *control) topicRemoved(t coord.Topic) {
	if ct.leading {
		ct.publish()
		ct.b.log.Info("topic deleted", "topic", t.Name, "id", t.ID)
	}
	for _, s := range ct.b.shards {
		s.Do(func(c *shard.Core) { c.DropTopic(t.ID) })
	}
}

// openGroup asks every shard to open the group and tells coord when all have.
func (ct *control) openGroup(e coord.OpenGroup) {
	var left atomic.Int32
	left.Store(int32(len(ct.b.shards)))
	opened := coord.GroupOpened{Topic: e.Group.Topic, Group: e.Group.ID}
	for _, s := range ct.b.shards {
		ok := s.Do(func(c *shard.Core) {
			c.OpenGroup(e.Group.Topic, e.Group.ID, e.Group.Name, e.Group.StartPolicy, func() {
				if left.Add(-1) == 0 {
					ct.box.force(func(ct *control) { ct.step(opened) })
				}
			})
		})
		if !ok {
			failed := opened
			failed.Code = codec.CodeInternal
			ct.box.force(func(ct *control) { ct.step(failed) })
			return
		}
	}
}

func (ct *control) joined(e coord.MemberJoined) {
	sub := &flow.Subscription{
		Conn: ct.conns[e.Conn], Slot: e.Slot, ID: e.Subscription,
		Topic: e.Group.Topic, Group: e.Group.ID, GroupName: e.Group.Name, Member: e.Member,
	}
	count, bytes := e.CreditCount, e.CreditBytes
	if count == 0 {
		count = ct.b.cfg.CreditInitialCount
	}
	if bytes == 0 {
		bytes = ct.b.cfg.CreditInitialBytes
	}
	sub.Credit.SetWindow(count, bytes)
	sub.LastSeen.Store(int64(ct.b.clock.Now()))
	sub.Alive.Store(true)
	ct.subs[e.Member] = sub
}

// memberGone takes a member from everybody who knows it. After LEAVE the loop keeps
// its row until the OK is sent (G8).
func (ct *control) memberGone(e coord.MemberGone) {
	sub := ct.subs[e.Member]
	if sub == nil {
		return
	}
	sub.Alive.Store(false)
	for _, s := range ct.b.shards {
		s.Do(func(c *shard.Core) { c.MemberGone(sub) })
	}
	if e.Reason != coord.Left {
		replies{ct.b}.Revoked(sub)
	}
	ct.gone = append(ct.gone, e.Member)
}

func (ct *control) own(e coord.Own) {
	sub := ct.subs[e.Member]
	if sub == nil {
		return
	}
	ct.shardOf(e.Topic, e.Partition).Do(func(c *shard.Core) {
		if err := c.Own(sub, e.Partition, e.Epoch); err != nil {
			// The topic was dropped behind this; its Disown follows.
			ct.b.log.Debug("ownership of a partition that is gone", "err", err)
		}
	})
}

func (ct *control) ownedSet(e coord.OwnedSet) {
	sub := ct.subs[e.Member]
	if sub == nil {
		return
	}
	owned := make([]flow.Owned, len(e.Owned))
	for i, o := range e.Owned {
		owned[i] = flow.Owned{Partition: o.Partition, Epoch: o.Epoch}
	}
	sub.Owned.Store(&owned)
}
