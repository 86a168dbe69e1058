package coord

import (
	"maps"

	"github.com/mortarmq/mortarmq/codec"
)

// controlAck serves a CONTROL_ACK (G6, G9).
func (c *Core) controlAck(cmd ControlAck) {
	ack := cmd.Req
	n := c.notices.byID[ack.NoticeID]
	if n != nil && n.conn != cmd.Conn {
		n = nil // somebody else's is as good as unknown
	}
	goodbye := n != nil && n.member == nil && n.GroupID == ack.GroupID
	if _, exists := c.reg.groups[ack.GroupID]; !exists && !goodbye {
		c.refuse(cmd, codec.CodeUnknownGroup, "there is no group with this id, or no longer: its topic was deleted")
		return
	}
	if n == nil || !n.matches(ack) {
		c.refuse(cmd, codec.CodeStaleGeneration, "no notice with these fields is waiting for your confirmation; repeat those of the latest one for the partition")
		return
	}
	if n.member == nil {
		c.served(cmd)
		return
	}
	n.member.seen = c.now
	switch {
	case ack.Result == codec.ControlStale:
		c.served(cmd)
		c.resend(n)
	case n.state == superseded, n.state == refused && ack.Result == codec.ControlOK:
		c.refuse(cmd, codec.CodeStaleGeneration, "this notice was superseded: the partition goes to another member, or a newer notice is on its way to you")
	case n.state != open:
		c.served(cmd) // a repetition
	case n.Kind == codec.NoticeRevoke:
		c.confirmRevoke(cmd, n)
	case ack.Result == codec.ControlError:
		c.refuseAssign(cmd, n)
	default:
		c.confirmAssign(cmd, n)
	}
}

// confirm moves the lower end of what is current for the member up to the notice (G4).
func (c *Core) confirm(n *notice) {
	n.state = confirmed
	m := n.member
	membership := max(m.membership.Confirmed, n.MembershipEpoch)
	assignment := max(m.assignment.Confirmed, n.AssignmentEpoch)
	if membership != m.membership.Confirmed || assignment != m.assignment.Confirmed {
		m.membership.Confirmed, m.assignment.Confirmed = membership, assignment
		c.emitEpochs(m)
	}
}

func (c *Core) confirmAssign(cmd ControlAck, n *notice) {
	g := n.member.group
	if g.slots[n.Partition].pending == n {
		c.own(g, n.Partition)
	}
	c.confirm(n)
	c.served(cmd)
	c.revive(n.member)
}

// revive forgets that a member did not confirm other partitions in time: it lives
// and gets its share again.
func (c *Core) revive(m *member) {
	before := len(m.refused)
	maps.DeleteFunc(m.refused, func(_ codec.Partition, how refusal) bool { return how == mute })
	if len(m.refused) < before {
		c.rebalance(m.group)
	}
}

// confirmRevoke ends the ownership that the notice revoked; what is in flight is handed back (V8).
func (c *Core) confirmRevoke(cmd ControlAck, n *notice) {
	g := n.member.group
	moves := g.slots[n.Partition].pending == n
	if moves {
		g.slots[n.Partition].pending = nil
		c.disown(g, n.Partition, Revoked)
	}
	c.confirm(n)
	c.served(cmd)
	if moves {
		c.advance(g, n.Partition)
	}
}

// refuseAssign passes the partition on to another member, or after a pause to the same one (G9). An
// owner that answers ERROR when its ASSIGN is repeated hands the partition back.
func (c *Core) refuseAssign(cmd ControlAck, n *notice) {
	m, p := n.member, n.Partition
	s := &m.group.slots[p]
	n.state = refused
	s.refuse(m, p, declined)
	switch {
	case s.pending == n:
		s.pending = nil
	case s.owner == m:
		c.disown(m.group, p, Revoked)
	}
	c.served(cmd)
	c.reassign(m.group, []codec.Partition{p})
	c.advance(m.group, p)
}

// resend answers STALE: the member is told again how the partition stands, in a
// new notice. Time for confirming a move is not extended. A member that was passed
// over has shown that it lives: it takes part in the assignment again.
func (c *Core) resend(n *notice) {
	m, p := n.member, n.Partition
	g := m.group
	if len(m.refused) > 0 {
		clear(m.refused)
		c.rebalance(g)
	}
	if m.told[p] != n {
		return // it was just told
	}
	switch s := &g.slots[p]; {
	case s.pending != nil && s.pending.member == m:
		s.pending = c.notify(m, p, n.Kind, n.OwnershipEpoch, s.pending.deadline)
	case s.owner == m:
		c.notify(m, p, codec.NoticeAssign, s.epoch, never)
	case s.target == m: // its ASSIGN follows once the owner has let go
	default:
		c.notify(m, p, codec.NoticeRevoke, n.OwnershipEpoch, never)
	}
}
