package coord

import (
	"time"

	"github.com/mortarmq/mortarmq/codec"
)

type noticeState uint8

const (
	open       noticeState = iota // not answered yet
	confirmed                     // OK; or ERROR to a REVOKE, which counts as OK (G9)
	refused                       // ERROR to an ASSIGN
	superseded                    // not confirmed in time, or the partition went elsewhere
)

// notice is a NOTICE that was sent, kept while its confirmation can mean
// something: until the next one for the same member and partition, or the end of the membership.
//
// A notice that no slot has as pending is for information only: it repeats the
// current state after STALE, or says farewell.
type notice struct {
	codec.Notice
	conn     uint64
	member   *member // nil for a farewell: it outlives the membership
	state    noticeState
	deadline time.Duration // of a pending notice or a farewell
}

// matches reports whether a CONTROL_ACK repeats the notice's fields.
func (n *notice) matches(ack codec.ControlAck) bool {
	return n.Kind == ack.NoticeKind && n.GroupID == ack.GroupID && n.MembershipEpoch == ack.MembershipEpoch &&
		n.AssignmentEpoch == ack.AssignmentEpoch && n.OwnershipEpoch == ack.OwnershipEpoch
}

// noticeBook finds notices by id.
type noticeBook struct {
	byID map[codec.NoticeID]*notice
	// farewells end by time; their deadlines ascend.
	farewells []*notice
}

func newNoticeBook() noticeBook { return noticeBook{byID: map[codec.NoticeID]*notice{}} }

func (b *noticeBook) remove(n *notice) { delete(b.byID, n.NoticeID) }

// forget takes out the farewells to a connection that is gone.
func (b *noticeBook) forget(conn uint64) {
	kept := b.farewells[:0]
	for _, n := range b.farewells {
		if n.conn == conn {
			b.remove(n)
		} else {
			kept = append(kept, n)
		}
	}
	clear(b.farewells[len(kept):])
	b.farewells = kept
}

// expire takes out the farewells whose time is over.
func (b *noticeBook) expire(now time.Duration) {
	i := 0
	for i < len(b.farewells) && b.farewells[i].deadline <= now {
		b.remove(b.farewells[i])
		i++
	}
	if b.farewells = b.farewells[i:]; len(b.farewells) == 0 {
		b.farewells = nil
	}
}

// notify sends a member a notice about a partition. It carries the group's
// current epochs, and replaces the member's earlier notice for the partition.
func (c *Core) notify(m *member, p codec.Partition, kind uint8, epoch codec.OwnershipEpoch, deadline time.Duration) *notice {
	g := m.group
	n := c.send(g, m, p, kind, epoch)
	n.member, n.deadline = m, deadline
	if old := m.told[p]; old != nil {
		c.notices.remove(old)
	}
	m.told[p] = n
	return n
}

// send emits a notice and enters it into the book.
func (c *Core) send(g *group, m *member, p codec.Partition, kind uint8, epoch codec.OwnershipEpoch) *notice {
	if m.membership.Told != g.membership || m.assignment.Told != g.assignment {
		m.membership.Told, m.assignment.Told = g.membership, g.assignment
		c.emitEpochs(m)
	}
	c.ids.notice++
	n := &notice{conn: m.conn, Notice: codec.Notice{
		NoticeID: c.ids.notice, Kind: kind, GroupID: g.def.ID,
		MembershipEpoch: g.membership, AssignmentEpoch: g.assignment, OwnershipEpoch: epoch,
		TopicID: g.def.Topic, Partition: p, MemberID: m.id,
	}}
	c.notices.byID[n.NoticeID] = n
	c.emit(Notify{Member: m.id, Conn: m.conn, Notice: n.Notice})
	return n
}
