package coord

import (
	"fmt"

	"github.com/mortarmq/mortarmq/codec"
)

// subscribe serves a SUB, or lets it wait for its group to be created and opened.
// Order of checks: group name, topic, the connection's limit, existence, policy,
// members. It runs again from the start when it had to wait.
func (c *Core) subscribe(cmd Subscribe) {
	req := cmd.Req
	if err := codec.CheckGroupName(req.Group); err != nil {
		c.refuseErr(cmd, err)
		return
	}
	t, ok := c.reg.topic(req.TopicID)
	if !ok {
		c.refuse(cmd, codec.CodeUnknownTopic, unknownTopic(req.TopicID))
		return
	}
	if cn := c.conns[cmd.Conn]; cn != nil && len(cn.subs) >= c.cfg.MaxSubscriptions {
		c.refuse(cmd, codec.CodeGroupAssignmentLimit,
			fmt.Sprintf("this connection has %d subscriptions, the most there may be; leave one or open another connection", len(cn.subs)))
		return
	}
	id, exists := c.reg.groupNames[groupKey{req.TopicID, string(req.Group)}]
	if !exists {
		c.createGroup(cmd)
		return
	}
	def := c.reg.groups[id]
	if def.StartPolicy != req.StartPolicy {
		c.refuse(cmd, codec.CodeGroupExistsMismatch,
			fmt.Sprintf("the group exists with start_policy %d; SUB with that, or choose another group name", def.StartPolicy))
		return
	}
	g := c.live[id]
	if g == nil {
		g = newGroup(def, t.Partitions)
		c.live[id] = g
	}
	switch {
	case len(g.members) >= c.cfg.MaxMembers:
		c.refuse(cmd, codec.CodeGroupMemberLimit,
			fmt.Sprintf("the group has %d members, the most there may be; wait until one leaves, or join another group", len(g.members)))
	case g.open:
		c.join(g, cmd)
	default:
		g.waiting = append(g.waiting, owned(cmd).(Subscribe))
		if !g.opening {
			g.opening = true
			c.opening[id] = g
			c.emit(OpenGroup{Group: def, Partitions: t.Partitions})
		}
	}
}

func unknownTopic(id codec.TopicID) string {
	return fmt.Sprintf("there is no topic with id %d, or no longer; create it with `mortarmq topics create NAME`, or DECLARE its name again to learn its id", id)
}

// createGroup proposes a new group (G2, G10).
func (c *Core) createGroup(cmd Subscribe) {
	if cmd.Req.Flags&codec.SubNoCreate != 0 {
		c.refuse(cmd, codec.CodeUnknownGroup, "")
		return
	}
	id := c.reg.freeGroupID()
	if id == 0 {
		c.refuse(cmd, codec.CodeQuotaExceeded, "all 65535 group ids are in use; join an existing group, or have topics deleted whose groups are not needed")
		return
	}
	c.propose(cmd, groupCreated{ID: id, Topic: cmd.Req.TopicID, Name: string(cmd.Req.Group), StartPolicy: cmd.Req.StartPolicy})
}

// groupOpened lets the SUBs go on that waited for a group's floors.
func (c *Core) groupOpened(cmd GroupOpened) {
	g := c.live[cmd.Group]
	if g == nil || !g.opening || g.def.Topic != cmd.Topic {
		return // its topic was deleted meanwhile
	}
	delete(c.opening, cmd.Group)
	waiting := g.waiting
	g.waiting, g.opening, g.open = nil, false, cmd.Code == 0
	for _, sub := range waiting {
		if g.open {
			c.subscribe(sub)
		} else {
			c.refuse(sub, cmd.Code, cmd.Message)
		}
	}
}

// join makes a member. The answer stands before any notice to it.
func (c *Core) join(g *group, cmd Subscribe) {
	m := c.newMember(g, cmd.Conn)
	g.membership++
	c.retarget(g)
	m.membership = Range{g.membership, g.membership}
	m.assignment = Range{g.assignment, g.assignment}
	c.emit(MemberJoined{
		Token: cmd.Token, Member: m.id, Subscription: m.sub, Group: g.def,
		CreditCount: cmd.Req.CreditCount, CreditBytes: cmd.Req.CreditBytes,
	})
	c.emitEpochs(m)
	c.emit(Reply{Token: cmd.Token, Op: codec.OpSub, Member: m.id, Sub: codec.SubResult{
		SubscriptionID: m.sub, MemberID: m.id, MembershipEpoch: g.membership, AssignmentEpoch: g.assignment,
	}})
	c.advanceAll(g)
}
