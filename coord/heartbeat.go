package coord

import "github.com/mortarmq/mortarmq/codec"

// heartbeat serves a HEARTBEAT (G8).
func (c *Core) heartbeat(cmd Heartbeat) {
	var m *member
	if cn := c.conns[cmd.Conn]; cn != nil {
		m = cn.subs[cmd.Req.SubscriptionID]
	}
	switch {
	case m == nil || m.id != cmd.Req.MemberID:
		c.refuse(cmd, codec.CodeUnknownMember, "")
	case !m.membership.Contains(cmd.Req.MembershipEpoch) || !m.assignment.Contains(cmd.Req.AssignmentEpoch):
		m.seen = c.now
		c.refuse(cmd, codec.CodeStaleGeneration, "")
	case cmd.Req.State == codec.HeartbeatLeave:
		c.goodbye(m, cmd.Token)
	default:
		m.seen = c.now
		c.served(cmd)
	}
}

// leave serves a LEAVE whose numbers were checked before: the member may have been dropped since.
func (c *Core) leave(cmd Leave) {
	m := c.members[cmd.Member]
	if m == nil || m.conn != cmd.Conn {
		c.refuse(cmd, codec.CodeUnknownMember, "")
		return
	}
	c.goodbye(m, cmd.Token)
}

func (c *Core) goodbye(m *member, token Token) {
	c.endMember(m, Left)
	c.emit(Reply{Token: token, Op: codec.OpHeartbeat, Member: m.id})
	c.rebalance(m.group)
}
