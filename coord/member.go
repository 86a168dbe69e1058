package coord

import (
	"maps"
	"slices"
	"time"

	"github.com/mortarmq/mortarmq/codec"
)

// conn is a connection that has, or had, subscriptions.
type conn struct {
	subs map[codec.SubscriptionID]*member
	last codec.SubscriptionID // the id given last
}

// freeSub returns the next id: counting up, so that one that has ended
// comes round again as late as possible.
func (cn *conn) freeSub() codec.SubscriptionID {
	id := cn.last
	for {
		if id++; id == 0 {
			id = 1
		}
		if cn.subs[id] == nil {
			cn.last = id
			return id
		}
	}
}

// member is one membership: a subscription of a connection.
type member struct {
	id    codec.MemberID
	conn  uint64
	sub   codec.SubscriptionID
	group *group
	seen  time.Duration // when it was last heard of, as far as is known here

	membership, assignment Range
	owned                  []Owned // ascending; never changed in place: effects hold it

	// told is the latest notice for each partition that there was one for.
	told map[codec.Partition]*notice
	// refused are the partitions that it was offered and did not take. It is not
	// offered them again, except when nobody else takes them or after it answered STALE.
	refused map[codec.Partition]refusal
}

type refusal uint8

const (
	mute     refusal = 1 // not confirmed in time; forgotten when it confirms another ASSIGN: it lives
	declined refusal = 2 // answered with ERROR (G9)
)

// takes reports whether a partition may be offered to the member.
func (m *member) takes(p codec.Partition) bool { return m.refused[p] == 0 }

func (c *Core) newMember(g *group, conn uint64) *member {
	cn := c.conns[conn]
	if cn == nil {
		cn = newConn()
		c.conns[conn] = cn
	}
	c.ids.member++
	m := &member{
		id: c.ids.member, conn: conn, sub: cn.freeSub(), group: g, seen: c.now,
		told:    map[codec.Partition]*notice{},
		refused: map[codec.Partition]refusal{},
	}
	cn.subs[m.sub] = m
	c.members[m.id] = m
	g.members = append(g.members, m) // ids grow: it stays ascending
	c.nextDrop = min(c.nextDrop, m.seen+c.cfg.MemberTimeout)
	return m
}

func newConn() *conn { return &conn{subs: map[codec.SubscriptionID]*member{}} }

// endMember ends a membership: nothing is its any more. The group's target is not
// computed anew yet: rebalance does.
func (c *Core) endMember(m *member, why Reason) {
	g := m.group
	for p := range g.slots {
		s := &g.slots[p]
		if s.owner == m {
			c.release(g, codec.Partition(p), why)
		}
		if s.pending != nil && s.pending.member == m {
			s.pending = nil
		}
	}
	for _, n := range m.told {
		c.notices.remove(n)
	}
	g.members = slices.DeleteFunc(g.members, func(x *member) bool { return x == m })
	g.membership++
	delete(c.members, m.id)
	if cn := c.conns[m.conn]; cn != nil {
		delete(cn.subs, m.sub)
	}
	c.emit(MemberGone{Member: m.id, Conn: m.conn, Reason: why})
}

// rebalance spreads the partitions of groups whose members have changed.
func (c *Core) rebalance(groups ...*group) {
	slices.SortFunc(groups, byID)
	for _, g := range slices.Compact(groups) {
		c.retarget(g)
		c.advanceAll(g)
	}
}

// endMembers ends several memberships, then spreads what they leave.
func (c *Core) endMembers(ids []codec.MemberID, why Reason) {
	slices.Sort(ids)
	var groups []*group
	for _, id := range ids {
		m := c.members[id]
		groups = append(groups, m.group)
		c.endMember(m, why)
	}
	c.rebalance(groups...)
}

// disconnect ends everything of a connection at once (G3).
func (c *Core) disconnect(id uint64) {
	c.queue.forget(id)
	for _, g := range c.opening {
		g.waiting = slices.DeleteFunc(g.waiting, func(s Subscribe) bool { return s.Conn == id })
	}
	cn := c.conns[id]
	if cn == nil {
		return
	}
	var ids []codec.MemberID
	for m := range maps.Values(cn.subs) {
		ids = append(ids, m.id)
	}
	delete(c.conns, id)
	c.notices.forget(id)
	c.endMembers(ids, Lost)
}

// emitEpochs publishes the range of epochs that are current for a member.
func (c *Core) emitEpochs(m *member) {
	c.emit(Epochs{Member: m.id, Membership: m.membership, Assignment: m.assignment})
}
