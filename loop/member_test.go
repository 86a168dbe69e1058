package loop_test

import (
	"math"
	"testing"
	"time"

	"github.com/mortarmq/mortarmq/codec"
	"github.com/mortarmq/mortarmq/flow"
	"github.com/mortarmq/mortarmq/loop"
)

func TestAckAndNackAreJudgedFirst(t *testing.T) {
	s, b := manual(t, loop.Config{})
	m := join(t, s, b)
	for _, c := range []struct {
		sub   codec.SubscriptionID
		topic codec.TopicID
		part  codec.Partition
		code  codec.Code
	}{
		{7, 1, 0, 0}, {7, 1, 3, 0},
		{8, 1, 0, codec.CodeStaleGeneration}, {0, 1, 0, codec.CodeStaleGeneration}, {65535, 1, 0, codec.CodeStaleGeneration},
		{7, 2, 0, codec.CodeStaleOwner}, {7, 3, 0, codec.CodeStaleOwner}, {7, 999, 0, codec.CodeStaleOwner},
		{7, 1, 4, codec.CodeStaleOwner}, {7, 1, 65535, codec.CodeStaleOwner},
	} {
		m.send(
			codec.AppendAck(nil, &codec.Ack{SubscriptionID: c.sub, TopicID: c.topic, Partition: c.part, Seq: 11, DeliveryID: 12, OwnershipEpoch: 13, Flags: 1}),
			codec.AppendNack(nil, &codec.Nack{SubscriptionID: c.sub, TopicID: c.topic, Partition: c.part, Seq: 11, DeliveryID: 12, OwnershipEpoch: 13, Reason: 2}))
		for _, op := range []codec.Op{codec.OpAck, codec.OpNack} {
			if c.code != 0 {
				m.err(op, c.code)
				continue
			}
			q := b.next().req
			want := flow.Request{Conn: q.Conn, Slot: q.Slot, Op: op, Topic: 1, Partition: c.part, Sub: m.sub, Seq: 11, Delivery: 12, Epoch: 13}
			if op == codec.OpAck {
				want.Flags = 1
			} else {
				want.Reason = 2
			}
			if got := *q; !sameRequest(&got, &want) {
				t.Errorf("got %+v, want %+v", got, want)
			}
			b.complete(flow.Completion{Conn: q.Conn, Slot: q.Slot, Op: op})
			m.ok(op)
		}
	}
	if len(b.jobs) > 0 {
		t.Errorf("a refused request reached the backend: %v", <-b.jobs)
	}
}

func sameRequest(a, b *flow.Request) bool {
	return a.Conn == b.Conn && a.Slot == b.Slot && a.Op == b.Op && a.Topic == b.Topic && a.Partition == b.Partition &&
		a.Sub == b.Sub && a.Seq == b.Seq && a.Delivery == b.Delivery && a.Epoch == b.Epoch && a.Flags == b.Flags && a.Reason == b.Reason
}

func (m *member) beat(f func(h *codec.Heartbeat)) []byte {
	h := codec.Heartbeat{SubscriptionID: 7, MemberID: m.sub.Member, MembershipEpoch: 5, AssignmentEpoch: 9}
	f(&h)
	return codec.AppendHeartbeat(nil, &h)
}

func TestHeartbeat(t *testing.T) {
	s, b := manual(t, loop.Config{})
	m := join(t, s, b)
	for _, c := range []struct {
		code codec.Code
		f    func(h *codec.Heartbeat)
	}{
		{0, func(*codec.Heartbeat) {}},
		{0, func(h *codec.Heartbeat) { h.MembershipEpoch, h.AssignmentEpoch = 3, 7 }},
		{codec.CodeUnknownMember, func(h *codec.Heartbeat) { h.SubscriptionID = 6 }},
		{codec.CodeUnknownMember, func(h *codec.Heartbeat) { h.MemberID++ }},
		{codec.CodeStaleGeneration, func(h *codec.Heartbeat) { h.MembershipEpoch = 2 }},
		{codec.CodeStaleGeneration, func(h *codec.Heartbeat) { h.MembershipEpoch = 6 }},
		{codec.CodeStaleGeneration, func(h *codec.Heartbeat) { h.AssignmentEpoch = 6 }},
		{codec.CodeStaleGeneration, func(h *codec.Heartbeat) { h.AssignmentEpoch, h.State = 10, codec.HeartbeatLeave }},
	} {
		m.send(m.beat(c.f))
		if c.code != 0 {
			m.err(codec.OpHeartbeat, c.code)
		} else {
			m.ok(codec.OpHeartbeat)
		}
	}
	leave := m.beat(func(h *codec.Heartbeat) { h.State = codec.HeartbeatLeave })
	m.send(leave)
	c := b.next().control
	if c.Op != codec.OpHeartbeat || c.Leave != m.sub {
		t.Fatalf("got %+v", c)
	}
	b.serveControl(c)
	m.ok(codec.OpHeartbeat)
	m.send(leave)
	m.err(codec.OpHeartbeat, codec.CodeUnknownMember)
}

func TestRevokedSubscriptionIsUnknown(t *testing.T) {
	s, b := manual(t, loop.Config{})
	m := join(t, s, b)
	other := &flow.Subscription{Conn: m.sub.Conn, ID: 7}
	s.Revoked(other) // not the one in the table
	m.send(m.beat(func(*codec.Heartbeat) {}))
	m.ok(codec.OpHeartbeat)
	s.Revoked(m.sub)
	s.Revoked(m.sub)
	eventually(t, "the entry is gone", func() bool {
		m.send(m.beat(func(*codec.Heartbeat) {}))
		op, _ := m.next()
		return op == codec.OpErr
	})
}

func TestCredit(t *testing.T) {
	s, b := manual(t, loop.Config{})
	m := join(t, s, b)
	m.own(40, 41)
	credit := func(f func(c *codec.Credit)) {
		c := codec.Credit{SubscriptionID: 7, MembershipEpoch: 4}
		f(&c)
		m.send(codec.AppendCredit(nil, &c))
	}
	expect := func(want codec.CreditResult) {
		t.Helper()
		got, err := codec.DecodeCreditResult(m.ok(codec.OpCredit))
		if err != nil || got != want {
			t.Fatalf("got %+v (%v), want %+v", got, err, want)
		}
	}
	m.sub.Credit.Take(100)
	m.sub.Credit.Take(50)
	credit(func(c *codec.Credit) { c.CreditCount, c.CreditBytes = 10, 1000 })
	expect(codec.CreditResult{GrantedCount: 10, GrantedBytes: 1000, OutstandingCount: 2, OutstandingBytes: 150, CreditEpoch: 1})
	credit(func(c *codec.Credit) {
		c.Mode, c.CreditCount, c.CreditBytes, c.OwnershipEpoch = codec.CreditAdd, 5, 7, 41
	})
	expect(codec.CreditResult{GrantedCount: 15, GrantedBytes: 1007, OutstandingCount: 2, OutstandingBytes: 150, CreditEpoch: 2})
	credit(func(c *codec.Credit) {
		c.Mode, c.CreditCount, c.CreditBytes = codec.CreditAdd, math.MaxUint16, math.MaxUint32
	})
	expect(codec.CreditResult{GrantedCount: math.MaxUint16, GrantedBytes: math.MaxUint32, OutstandingCount: 2, OutstandingBytes: 150, CreditEpoch: 3})
	credit(func(c *codec.Credit) {}) // SET 0 is a window of nothing
	expect(codec.CreditResult{OutstandingCount: 2, OutstandingBytes: 150, CreditEpoch: 4})

	credit(func(c *codec.Credit) { c.SubscriptionID = 8 })
	m.err(codec.OpCredit, codec.CodeStaleGeneration)
	credit(func(c *codec.Credit) { c.MembershipEpoch = 6 })
	m.err(codec.OpCredit, codec.CodeStaleGeneration)
	credit(func(c *codec.Credit) { c.OwnershipEpoch = 42 })
	m.err(codec.OpCredit, codec.CodeStaleGeneration)

	m.sub.Credit.Blocked.Store(500)
	credit(func(c *codec.Credit) { c.CreditCount, c.CreditBytes = 9, 499 })
	m.err(codec.OpCredit, codec.CodeMessageExceedsCredit)
	if count, bytes := m.sub.Credit.Window(); count != 0 || bytes != 0 {
		t.Errorf("a refused CREDIT changed the window to %d, %d", count, bytes)
	}
	credit(func(c *codec.Credit) { c.CreditCount, c.CreditBytes = 9, 500 })
	expect(codec.CreditResult{GrantedCount: 9, GrantedBytes: 500, OutstandingCount: 2, OutstandingBytes: 150, CreditEpoch: 5})

	for range 70_000 {
		m.sub.Credit.Take(100_000)
	}
	credit(func(c *codec.Credit) { c.CreditCount, c.CreditBytes = 1, 500 })
	expect(codec.CreditResult{GrantedCount: 1, GrantedBytes: 500, OutstandingCount: math.MaxUint16, OutstandingBytes: math.MaxUint32, CreditEpoch: 6})
}

// Every frame that names a subscription is noted (G3), CONTROL_ACK through its group.
func TestLastSeen(t *testing.T) {
	h, l := handClock()
	s, b := manual(t, loop.Config{Clock: h.clock, Limits: l})
	h.add(1)
	m := join(t, s, b)
	if got := m.sub.LastSeen.Load(); got != 1 {
		t.Errorf("SUB: last seen at %d, want 1", got)
	}
	for i, f := range [][]byte{
		codec.AppendAck(nil, &codec.Ack{SubscriptionID: 7, TopicID: 99}),
		codec.AppendNack(nil, &codec.Nack{SubscriptionID: 7, TopicID: 99}),
		m.pull(func(p *codec.Pull) { p.MembershipEpoch = 99 }),
		m.beat(func(*codec.Heartbeat) {}),
		codec.AppendCredit(nil, &codec.Credit{SubscriptionID: 7, MembershipEpoch: 5, CreditBytes: 1}),
		codec.AppendControlAck(nil, &codec.ControlAck{GroupID: 9}),
	} {
		h.add(1)
		m.send(f)
		if op, _, _, _, _ := codec.Cut(f); op == codec.OpControlAck {
			b.serveControl(b.next().control)
		}
		m.next()
		if got := m.sub.LastSeen.Load(); got != int64(i+2) {
			t.Errorf("%v: last seen at %d, want %d", codec.Op(f[4]), got, i+2)
		}
	}
	h.add(1)
	m.alive()
	m.send(codec.AppendControlAck(nil, &codec.ControlAck{GroupID: 10}))
	b.serveControl(b.next().control)
	m.ok(codec.OpControlAck)
	if got := m.sub.LastSeen.Load(); got != 7 {
		t.Errorf("PING and another group's CONTROL_ACK moved it to %d", got)
	}
}

func TestNoticesFollowTheirSub(t *testing.T) {
	s, b := manual(t, loop.Config{})
	p := session(t, s)
	p.send(pub(1, 0, "x"), subTo(1, "g"), pub(1, 1, "y"))
	x, c, y := b.next(), b.next().control, b.next()
	sub := b.newSub(c, 3)
	notify := func(ids ...codec.NoticeID) {
		for _, id := range ids {
			s.Notify(c.Conn.Loop, []flow.Notice{{Sub: sub, Notice: codec.Notice{NoticeID: id, GroupID: 9, TopicID: 1}}})
		}
	}
	b.complete(b.subOK(c, sub))
	notify(1, 2)
	b.complete(b.answer(y))
	p.quiet(20 * time.Millisecond) // all of it waits for the first answer
	b.complete(b.answer(x))
	p.ok(codec.OpPub)
	p.ok(codec.OpSub)
	seen := []codec.NoticeID{}
	pubs := 0
	for range 3 {
		switch op, payload := p.next(); op {
		case codec.OpNotice:
			n, err := codec.DecodeNotice(payload)
			if err != nil {
				t.Fatal(err)
			}
			seen = append(seen, n.NoticeID)
		case codec.OpOK:
			pubs++
		}
	}
	if pubs != 1 || len(seen) != 2 || seen[0] != 1 || seen[1] != 2 {
		t.Errorf("got notices %v and %d more answers", seen, pubs)
	}
	notify(3)
	if n := p.notice(); n.NoticeID != 3 {
		t.Errorf("got notice %d", n.NoticeID)
	}
	// Notices, answers and the end of the subscription keep their order.
	p.send(codec.AppendControlAck(nil, &codec.ControlAck{NoticeID: 3, GroupID: 9}))
	done := b.next().control
	notify(4)
	s.Revoked(sub)
	b.serveControl(done)
	if n := p.notice(); n.NoticeID != 4 {
		t.Errorf("got notice %d", n.NoticeID)
	}
	p.ok(codec.OpControlAck)
	p.send(codec.AppendAck(nil, &codec.Ack{SubscriptionID: 3, TopicID: 1}))
	p.err(codec.OpAck, codec.CodeStaleGeneration)
}
