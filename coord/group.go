package coord

import (
	"maps"
	"slices"
	"time"

	"github.com/mortarmq/mortarmq/codec"
)

// group is the volatile side of a group: it exists from the group's first SUB
// under this leader on.
type group struct {
	def     Group
	open    bool        // the shards have its floors
	opening bool        // they were asked and have not answered
	waiting []Subscribe // for that answer

	membership uint32 // grows with every join, leave and drop (G4)
	assignment uint32 // grows with every new target assignment
	members    []*member
	slots      []slot // by partition
	// wake is at or before the earliest deadline and retry of the slots.
	wake time.Duration
}

// slot is where one partition is and where it is to go.
type slot struct {
	target *member // who is to own it; nil: nobody can
	owner  *member // who owns it: confirmed an ASSIGN and was not disowned since
	epoch  codec.OwnershipEpoch
	// pending is the notice that the next change waits for. An ASSIGN is pending only
	// without an owner and to the target, a REVOKE only to the owner.
	pending *notice
	// last is who refused it last, or 0.
	last codec.MemberID
	// retry is when a partition that every member refused is offered again; never otherwise.
	retry time.Duration
}

func newGroup(def Group, partitions uint16) *group {
	g := &group{def: def, wake: never, slots: make([]slot, partitions)}
	for p := range g.slots {
		g.slots[p].retry = never
	}
	return g
}

// liveGroups returns the groups that have a volatile side, ascending by id.
func (c *Core) liveGroups() []*group {
	groups := make([]*group, 0, len(c.live))
	for _, id := range slices.Sorted(maps.Keys(c.live)) {
		groups = append(groups, c.live[id])
	}
	return groups
}

func byID(a, b *group) int { return int(a.def.ID) - int(b.def.ID) }

func (g *group) memberIDs() []codec.MemberID {
	ids := make([]codec.MemberID, len(g.members))
	for i, m := range g.members {
		ids[i] = m.id
	}
	return ids
}

func (g *group) targets() []codec.MemberID {
	ids := make([]codec.MemberID, len(g.slots))
	for p := range g.slots {
		if t := g.slots[p].target; t != nil {
			ids[p] = t.id
		}
	}
	return ids
}

// retarget computes the assignment anew. Nobody is told yet: advanceAll does.
func (c *Core) retarget(g *group) {
	members, previous := g.memberIDs(), g.targets()
	target := Assign(members, previous)
	passOver(target, previous, members, func(p int, id codec.MemberID) bool {
		return !c.members[id].takes(codec.Partition(p))
	})
	c.setTargets(g, previous, target)
}

// refuse notes that a member did not take the partition.
func (s *slot) refuse(m *member, p codec.Partition, how refusal) {
	m.refused[p] = how
	s.last = m.id
}

// reassign gives partitions whose target did not take them to others, and leaves the rest
// alone. Who refused a partition last gets it again only when there is nobody else.
func (c *Core) reassign(g *group, partitions []codec.Partition) {
	if len(partitions) == 0 {
		return
	}
	members, previous := g.memberIDs(), g.targets()
	target := slices.Clone(previous)
	load := map[codec.MemberID]int{}
	for _, p := range partitions {
		target[p] = 0
	}
	for _, id := range target {
		load[id]++
	}
	for _, p := range partitions {
		takes := func(id codec.MemberID) bool { return c.members[id].takes(p) }
		others := func(id codec.MemberID) bool { return takes(id) && id != g.slots[p].last }
		if target[p] = lightest(members, load, others); target[p] == 0 {
			target[p] = lightest(members, load, takes)
		}
		load[target[p]]++
	}
	c.setTargets(g, previous, target)
}

func (c *Core) setTargets(g *group, previous, target []codec.MemberID) {
	if !slices.Equal(previous, target) {
		g.assignment++
	}
	for p, id := range target {
		s := &g.slots[p]
		s.target = c.members[id] // nil for 0
		switch {
		case s.target != nil || len(g.members) == 0:
			s.retry = never
		case s.retry == never:
			s.retry = c.now + c.cfg.RetryAssign
			g.wake = min(g.wake, s.retry)
		}
	}
}
