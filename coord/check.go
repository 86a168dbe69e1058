package coord

import (
	"errors"
	"fmt"

	"github.com/mortarmq/mortarmq/codec"
)

// Check looks for broken invariants and returns what it finds. It walks over
// everything: for tests and simulations, after each call.
func (c *Core) Check() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf("coord: "+format, args...)) }
	c.checkRegistry(fault)
	members := 0
	for id, g := range c.live {
		if def, ok := c.reg.groups[id]; !ok || def != g.def {
			fault("group %d is live but the registry has %+v", id, def)
		}
		members += len(g.members)
		c.checkGroup(g, fault)
	}
	for id, g := range c.opening {
		if c.live[id] != g {
			fault("group %d is being opened but not live", id)
		}
	}
	if members != len(c.members) {
		fault("%d members in groups, %d in all", members, len(c.members))
	}
	c.checkConns(fault)
	c.checkNotices(fault)
	return errors.Join(faults...)
}

type faultFunc func(format string, args ...any)

func (c *Core) checkRegistry(fault faultFunc) {
	r, partitions := c.reg, 0
	for id, t := range r.topics {
		partitions += int(t.Partitions)
		if t.ID != id || r.names[t.Name] != id || id >= r.nextSource || !isSource(id) {
			fault("topic %d: %+v, its name leads to %d", id, t, r.names[t.Name])
		}
	}
	for id, g := range r.groups {
		if _, ok := r.topic(g.Topic); !ok || g.ID != id || r.groupNames[groupKey{g.Topic, g.Name}] != id {
			fault("group %d: %+v, topic exists: %v", id, g, ok)
		}
	}
	if partitions != r.partitions || len(r.names) != len(r.topics) || len(r.groupNames) != len(r.groups) {
		fault("the registry's books do not add up")
	}
}

func (c *Core) checkGroup(g *group, fault faultFunc) {
	if len(g.members) > c.cfg.MaxMembers {
		fault("group %d has %d members", g.def.ID, len(g.members))
	}
	if len(g.members) > 0 && !g.open || g.opening != (c.opening[g.def.ID] == g) || len(g.waiting) > 0 && !g.opening {
		fault("group %d: open %v, opening %v, %d members, %d waiting", g.def.ID, g.open, g.opening, len(g.members), len(g.waiting))
	}
	owned := map[codec.MemberID]int{}
	for i := range g.slots {
		s, p := &g.slots[i], codec.Partition(i)
		if s.owner != nil {
			owned[s.owner.id]++
		}
		if why := c.slotFault(g, p); why != "" {
			fault("group %d partition %d: %s", g.def.ID, p, why)
		}
	}
	for i, m := range g.members {
		if m.group != g || c.members[m.id] != m || i > 0 && g.members[i-1].id >= m.id {
			fault("group %d: member %x is misplaced", g.def.ID, m.id)
		}
		if len(m.owned) != owned[m.id] {
			fault("member %x is said to own %d partitions, but owns %d", m.id, len(m.owned), owned[m.id])
		}
		for j, o := range m.owned {
			if s := g.slots[o.Partition]; s.owner != m || s.epoch != o.Epoch || j > 0 && m.owned[j-1].Partition >= o.Partition {
				fault("member %x does not own %+v", m.id, o)
			}
		}
		for name, r := range map[string]Range{"membership": m.membership, "assignment": m.assignment} {
			if r.Confirmed > r.Told {
				fault("member %x: %s epochs %+v", m.id, name, r)
			}
		}
		if m.membership.Told > g.membership || m.assignment.Told > g.assignment {
			fault("member %x was told epochs that are yet to come", m.id)
		}
	}
}

// slotFault says what is wrong with a partition, or "".
func (c *Core) slotFault(g *group, p codec.Partition) string {
	s := &g.slots[p]
	alive := func(m *member) bool { return m == nil || c.members[m.id] == m && m.group == g }
	n := s.pending
	switch {
	case !alive(s.owner) || !alive(s.target):
		return "its owner or target is not a member"
	case len(g.members) > 0 && s.target == nil && s.retry == never:
		return "nobody is to own it, for ever"
	case s.retry != never && (s.target != nil || len(g.members) == 0):
		return "it waits for a retry without need"
	case s.retry < g.wake:
		return "nobody wakes for its retry"
	case s.target != nil && s.target != s.owner && n == nil:
		return "nothing moves it to its target"
	case s.target == nil && s.owner != nil:
		return "it has an owner but no target"
	case n == nil:
		return ""
	case !alive(n.member) || n.member.told[p] != n || n.state != open || n.Partition != p:
		return "its pending notice is not the latest open one of a member"
	case n.deadline < g.wake:
		return "nobody wakes for its notice"
	case n.OwnershipEpoch != s.epoch:
		return "its pending notice has another epoch"
	case n.Kind == codec.NoticeAssign && (s.owner != nil || n.member != s.target):
		return "an ASSIGN is pending beside an owner, or not to the target"
	case n.Kind == codec.NoticeRevoke && n.member != s.owner:
		return "a REVOKE is pending, but not to the owner"
	}
	return ""
}

func (c *Core) checkConns(fault faultFunc) {
	subs := 0
	for id, cn := range c.conns {
		subs += len(cn.subs)
		if len(cn.subs) > c.cfg.MaxSubscriptions {
			fault("connection %d has %d subscriptions", id, len(cn.subs))
		}
		for sub, m := range cn.subs {
			if m.conn != id || m.sub != sub || sub == 0 || c.members[m.id] != m {
				fault("connection %d: subscription %d is misplaced", id, sub)
			}
		}
	}
	if subs != len(c.members) {
		fault("%d subscriptions, %d members", subs, len(c.members))
	}
}

func (c *Core) checkNotices(fault faultFunc) {
	known := len(c.notices.farewells)
	for _, m := range c.members {
		known += len(m.told)
		for p, n := range m.told {
			if c.notices.byID[n.NoticeID] != n || n.member != m || n.Partition != p {
				fault("notice %x to member %x is misplaced", n.NoticeID, m.id)
			}
		}
	}
	for i, n := range c.notices.farewells {
		if c.notices.byID[n.NoticeID] != n || n.member != nil || i > 0 && c.notices.farewells[i-1].deadline > n.deadline {
			fault("farewell %x is misplaced", n.NoticeID)
		}
	}
	if known != len(c.notices.byID) {
		fault("%d notices are known, %d are in the book", known, len(c.notices.byID))
	}
	if c.queue.record == nil && (c.queue.current != nil || len(c.queue.waiting) > 0) {
		fault("commands wait behind nothing")
	}
	if waits := c.queue.counted(); waits != 0 {
		fault("the queue's books are off by %d", waits)
	}
}

// counted is how far the counts by topic and group are from the commands there are.
func (q *queue) counted() int {
	n := 0
	for _, by := range q.topics {
		n += by
	}
	for _, by := range q.groups {
		n += by
	}
	for range q.all() {
		n--
	}
	return n
}
