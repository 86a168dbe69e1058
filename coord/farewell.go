package coord

import (
	"slices"

	"github.com/mortarmq/mortarmq/codec"
)

// farewell ends the groups of a topic that was deleted (T2). Every member gets a
// NOTICE REVOKE for each partition that it owns or was offered; one that has none
// gets a single one for codec.AnyPartition. They may be confirmed for
// NoticeTimeout, although the group is gone.
func (c *Core) farewell(t Topic) {
	for _, g := range c.liveGroups() {
		if g.def.Topic.Source() != t.ID {
			continue
		}
		for _, m := range slices.Clone(g.members) {
			c.dismiss(g, m)
		}
		for _, cmd := range g.waiting {
			c.refuse(cmd, codec.CodeUnknownTopic, unknownTopic(g.def.Topic))
		}
		delete(c.live, g.def.ID)
		delete(c.opening, g.def.ID)
	}
}

// dismiss tells a member that all of its partitions are gone, and ends it.
func (c *Core) dismiss(g *group, m *member) {
	type loss struct {
		p     codec.Partition
		epoch codec.OwnershipEpoch
	}
	var lost []loss
	for i := range g.slots {
		s := &g.slots[i]
		if s.owner == m || s.pending != nil && s.pending.member == m {
			lost = append(lost, loss{codec.Partition(i), s.epoch})
		}
	}
	if len(lost) == 0 {
		lost = []loss{{codec.AnyPartition, c.ids.epoch}}
	}
	for _, l := range lost {
		n := c.send(g, m, l.p, codec.NoticeRevoke, l.epoch)
		n.deadline = c.now + c.cfg.NoticeTimeout
		c.notices.farewells = append(c.notices.farewells, n)
	}
	c.endMember(m, Deleted)
}
