package coord

import (
	"slices"
	"time"

	"github.com/mortarmq/mortarmq/codec"
)

// advanceAll takes every partition of a group the next step towards its target.
func (c *Core) advanceAll(g *group) {
	for p := range g.slots {
		c.advance(g, codec.Partition(p))
	}
}

// advance takes one partition the next step towards its target (G6). It sends
// at most one notice; the step after that waits for its confirmation.
func (c *Core) advance(g *group, p codec.Partition) {
	s := &g.slots[p]
	if n := s.pending; n != nil {
		if n.Kind == codec.NoticeRevoke || n.member == s.target {
			return
		}
		c.supersede(s)
	}
	deadline := c.now + c.cfg.NoticeTimeout
	switch {
	case s.target == nil || s.target == s.owner:
		return
	case s.owner != nil:
		s.pending = c.notify(s.owner, p, codec.NoticeRevoke, s.epoch, deadline)
	default:
		c.ids.epoch++
		s.epoch = c.ids.epoch
		s.pending = c.notify(s.target, p, codec.NoticeAssign, s.epoch, deadline)
	}
	g.wake = min(g.wake, deadline)
}

// supersede gives up a pending notice: confirming it is 0x0020 from now on.
func (c *Core) supersede(s *slot) {
	s.pending.state = superseded
	s.pending = nil
}

// own makes the target the owner: it has confirmed the pending ASSIGN.
func (c *Core) own(g *group, p codec.Partition) {
	s := &g.slots[p]
	m := s.pending.member
	s.pending, s.owner = nil, m
	i, _ := slices.BinarySearchFunc(m.owned, p, func(o Owned, p codec.Partition) int { return int(o.Partition) - int(p) })
	m.owned = slices.Concat(m.owned[:i], []Owned{{p, s.epoch}}, m.owned[i:])
	c.emit(Own{Group: g.def.ID, Topic: g.def.Topic, Partition: p, Member: m.id, Epoch: s.epoch})
	c.emit(OwnedSet{Member: m.id, Owned: m.owned})
}

// disown ends the ownership of a partition by a member that stays.
func (c *Core) disown(g *group, p codec.Partition, why Reason) {
	m := g.slots[p].owner
	c.release(g, p, why)
	m.owned = slices.DeleteFunc(slices.Clone(m.owned), func(o Owned) bool { return o.Partition == p })
	c.emit(OwnedSet{Member: m.id, Owned: m.owned})
}

// release ends the ownership of a partition.
func (c *Core) release(g *group, p codec.Partition, why Reason) {
	s := &g.slots[p]
	c.emit(Disown{
		Group: g.def.ID, Topic: g.def.Topic, Partition: p, Member: s.owner.id, Epoch: s.epoch,
		Fail: why.fails(), Reason: why,
	})
	s.owner = nil
}

// expire deals with the deadlines of a group that have come, and finds the next one.
func (c *Core) expire(g *group) {
	var again []codec.Partition // need another target
	for i := range g.slots {
		s, p := &g.slots[i], codec.Partition(i)
		switch n := s.pending; {
		case n != nil && n.deadline <= c.now:
			c.supersede(s)
			if n.Kind == codec.NoticeRevoke {
				c.disown(g, p, Fenced)
			}
			if s.target == n.member {
				s.refuse(n.member, p, mute)
				again = append(again, p)
			}
		case s.retry <= c.now:
			for _, m := range g.members {
				delete(m.refused, p)
			}
			s.retry = never
			again = append(again, p)
		}
	}
	c.reassign(g, again)
	c.advanceAll(g)
	g.wake = g.nextWake()
}

func (g *group) nextWake() time.Duration {
	wake := never
	for i := range g.slots {
		if n := g.slots[i].pending; n != nil {
			wake = min(wake, n.deadline)
		}
		wake = min(wake, g.slots[i].retry)
	}
	return wake
}
