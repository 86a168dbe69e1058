package client

import (
	"time"

	"github.com/mortarmq/mortarmq/codec"
)

// ownership is a partition as the member sees it.
type ownership struct {
	epoch    codec.OwnershipEpoch // 0: not owned
	handling int                  // deliveries in the handler's hands
	held     int                  // ManualAck: handed out and not settled
	settling int                  // ACKs and NACKs without a final answer
	revoke   *codec.Notice        // REVOKE, not confirmed yet
	revoked  time.Duration        // when it came, on the dialer's clock
}

// event is a rebalance to be told and, with a notice, to be confirmed then.
type event struct {
	what   Rebalance
	notice *codec.Notice
}

// ownership returns the state of a partition, which is made when it is new.
func (m *member) ownership(p codec.Partition) *ownership {
	for int(p) >= len(m.owned) {
		m.owned = append(m.owned, ownership{})
	}
	return &m.owned[p]
}

// noticed deals with a NOTICE. The newest numbers told are the ones to use (G4).
func (m *member) noticed(n *codec.Notice) {
	if n.MemberID != m.sub.MemberID || m.leaving {
		return
	}
	m.sub.MembershipEpoch, m.sub.AssignmentEpoch = n.MembershipEpoch, n.AssignmentEpoch
	o := m.ownership(n.Partition)
	if n.Kind == codec.NoticeAssign {
		// An ASSIGN over a partition at hand replaces it: what was delivered
		// before carries the old epoch and is skipped.
		o.epoch, o.revoke = n.OwnershipEpoch, nil
		m.useful = true
		m.events = append(m.events, event{Rebalance{Partition: n.Partition, Assigned: true}, n})
		return
	}
	o.revoke, o.revoked = n, m.d.now()
	m.checkRevoke(n.Partition)
}

// checkRevoke lets a partition go that is wanted back, once nothing of it is in
// anybody's hands and what was settled is known to be: an ACK that is refused for want of room is sent again,
// and must not come after the confirmation. What is in the queue is skipped: the confirmation hands it back (V8).
func (m *member) checkRevoke(p codec.Partition) {
	o := m.ownership(p)
	if o.revoke == nil || o.handling > 0 || o.held > 0 || o.settling > 0 {
		return
	}
	m.letGo(p, false)
}

// letGo ends the ownership of a partition that is wanted back.
func (m *member) letGo(p codec.Partition, lost bool) {
	o := m.ownership(p)
	n := o.revoke
	o.epoch, o.revoke = 0, nil
	m.events = append(m.events, event{Rebalance{Partition: p, Lost: lost}, n})
	signal(m.wake)
}

// overdueRevokes gives partitions away whose handler takes too long: better
// than to be fenced, which counts as a failed attempt.
func (m *member) overdueRevokes(now time.Duration) {
	for p := range m.owned {
		if o := &m.owned[p]; o.revoke != nil && now-o.revoked >= m.opts.RevokeTimeout {
			m.letGo(codec.Partition(p), true)
		}
	}
}

// runEvents tells the rebalance events, in order, and confirms their notices.
// Called without the lock.
func (m *member) runEvents() {
	m.eventMu.Lock()
	defer m.eventMu.Unlock()
	for {
		m.mu.Lock()
		if len(m.events) == 0 {
			m.mu.Unlock()
			return
		}
		e := m.events[0]
		m.events = m.events[1:]
		m.mu.Unlock()
		if m.opts.OnRebalance != nil {
			m.opts.OnRebalance(e.what)
		}
		m.mu.Lock()
		m.confirm(e.notice)
		m.mu.Unlock()
	}
}

// confirm answers a NOTICE.
func (m *member) confirm(n *codec.Notice) {
	if n == nil || m.leaving || m.cause != nil {
		return
	}
	m.push(request{op: codec.OpControlAck})
	m.conn.out = codec.AppendControlAck(m.conn.out, &codec.ControlAck{
		NoticeID: n.NoticeID, NoticeKind: n.Kind, GroupID: n.GroupID,
		MembershipEpoch: n.MembershipEpoch, AssignmentEpoch: n.AssignmentEpoch,
		OwnershipEpoch: n.OwnershipEpoch, Result: codec.ControlOK,
	})
	m.conn.flush()
	m.pulling.blocked = false // a REVOKE returns the credit of what it hands back
	m.pull()
}

// dropAll tells that every partition goes: it was lost, or the member leaves.
func (m *member) dropAll(lost bool) {
	for p := range m.owned {
		if o := &m.owned[p]; o.epoch != 0 {
			o.epoch, o.revoke = 0, nil
			m.events = append(m.events, event{Rebalance{Partition: codec.Partition(p), Lost: lost}, nil})
		}
	}
}
