package conformance

import (
	"strings"
	"testing"
	"time"
)

func TestG_SubResultsAndCodes(t *testing.T) {
	t.Parallel()
	addr := ordinary.addr(t)
	t.Run("G3: ids on one connection", func(t *testing.T) {
		t.Parallel()
		p := session(t, addr)
		a, b := p.topic(1), p.topic(1)
		m1 := p.subscribe("G3", subTo(a, "g"))
		m2 := p.subscribe("G3", subTo(b, "g"))
		m3 := p.subscribe("G1: another group of the same topic", subTo(a, "h"))
		if m1.sub == m2.sub || m1.sub == m3.sub || m2.sub == m3.sub || m1.id == m2.id || m1.id == m3.id || m2.id == m3.id {
			p.failf("G3: subscription_id belongs to the connection, member_id is never reused", "%d/%d %d/%d %d/%d", m1.sub, m1.id, m2.sub, m2.id, m3.sub, m3.id)
		}
		for _, m := range []*member{m1, m2, m3} {
			m.assigned("G6", 1)
		}
		if m1.groupID == m2.groupID || m1.groupID == m3.groupID || m2.groupID == m3.groupID {
			p.failf("G1, G10: a group belongs to one topic and has a group_id of its own", "%d %d %d", m1.groupID, m2.groupID, m3.groupID)
		}
	})
	t.Run("G3: member_id is never reused", func(t *testing.T) {
		t.Parallel()
		p := session(t, addr)
		topic := p.topic(1)
		seen := map[uint64]bool{}
		for range 5 {
			m := join(t, addr, subTo(topic, "g"), 1)
			if seen[m.id] {
				m.failf("G3: member_id is never reused", "%d came twice", m.id)
			}
			seen[m.id] = true
			m.leave("G8")
		}
	})
	t.Run("codes", func(t *testing.T) {
		t.Parallel()
		p := session(t, addr)
		topic := p.topic(1)
		for _, id := range []uint16{0, 0xFFFD, 0xFFFE, 0xFFFF} {
			p.send(subTo(id, "g").frame())
			p.err("section 2.1 note 5: SUB on a nonexistent topic returns 0x0008", opSub, codeUnknownTopic)
		}
		noCreate := subTo(topic, "g")
		noCreate.flags = subNoCreate
		p.send(noCreate.frame())
		p.err("G2: 0x2005: SUB with NO_CREATE on a group that does not exist", opSub, codeUnknownGroup)
		p.send(noCreate.frame())
		p.err("G2: NO_CREATE created nothing", opSub, codeUnknownGroup)
		p.subscribe("G2: SUB creates the group", subTo(topic, "g"))
		p.subscribe("G2: NO_CREATE on a group that exists", noCreate)
		latest := subTo(topic, "g")
		latest.policy = fromLatest
		p.send(latest.frame())
		p.err("G2: 0x2002: start_policy is part of the group's definition", opSub, codeGroupMismatch)
		latest.group = "G"
		p.subscribe("G1: names are case-sensitive bytes", latest)
		other := subTo(p.topic(1), "g")
		other.policy = fromLatest
		p.subscribe("G1: the same name on another topic is another group", other)
	})
	t.Run("G2: a group outlives its members", func(t *testing.T) {
		t.Parallel()
		p := session(t, addr)
		topic := p.topic(1)
		p.fill(topic, 0, "a", "b")
		m := p.join(subTo(topic, "g"), 1)
		m.ack("ACK", m.take("PULL", 1)...)
		m.leave("G8")
		latest := subTo(topic, "g")
		latest.policy = fromLatest
		p.send(latest.frame())
		p.err("G2: 0x2002 also when nobody is in the group", opSub, codeGroupMismatch)
		again := subTo(topic, "g")
		again.flags = subNoCreate
		m = p.join(again, 1)
		if got := m.take("G2: it goes on where it was", 1); string(got[0].value) != "b" {
			p.failf("G2: a group goes on where it was", "got %s", show(got))
		}
	})
}

func TestG1_Names(t *testing.T) {
	t.Parallel()
	addr := ordinary.addr(t)
	p := session(t, addr)
	topic := p.topic(1)
	for _, name := range []string{"a", strings.Repeat("g", 255), "*", "a..b", "$x", "größe", "g.dlq", "#>+", strings.Repeat("é", 127)} {
		p.subscribe("G1: the topic's other name rules do not apply", subTo(topic, name))
	}
	for _, name := range []string{"", strings.Repeat("g", 256), "a b", "a\tb", "a\x00", "\x7f", "a\u0085", "a\u00a0b", "\u2003", "\xff", "a\xc3"} {
		q := session(t, addr)
		q.send(subTo(topic, name).frame())
		q.refused("G1: 1 to 255 bytes of UTF-8 without control or white space characters, else 0x0003", opSub, codeMalformed)
	}
}

func TestG_Limits(t *testing.T) {
	t.Parallel()
	addr := ordinary.addr(t)
	t.Run("0x0024: the group has 10 members", func(t *testing.T) {
		t.Parallel()
		p := session(t, addr)
		topic := p.topic(1)
		var all []*member
		for range 10 {
			all = append(all, session(t, addr).subscribe("0x0024: ten are allowed", subTo(topic, "g")))
		}
		q := session(t, addr)
		q.send(subTo(topic, "g").frame())
		q.err("0x0024: the group has 10 members", opSub, codeMemberLimit)
		q.subscribe("0x0024: another group has room", subTo(topic, "h"))
		all[9].leave("G8")
		q.subscribe("0x0024: who leaves makes room", subTo(topic, "g"))
	})
	t.Run("0x0025: the connection has 64 subscriptions", func(t *testing.T) {
		t.Parallel()
		p := session(t, addr)
		topic := p.topic(1)
		var all []*member
		for range 64 {
			all = append(all, p.subscribe("0x0025: 64 are allowed", subTo(topic, unique("g"))))
		}
		p.send(subTo(topic, unique("g")).frame())
		p.err("0x0025: the connection has 64 subscriptions", opSub, codeAssignLimit)
		for _, m := range all {
			m.assigned("G6", 1)
		}
		all[0].leave("G8")
		p.subscribe("0x0025: who leaves makes room", subTo(topic, unique("g")))
	})
}

func TestG2_StartPolicies(t *testing.T) {
	t.Parallel()
	p := session(t, ordinary.addr(t))
	topic := p.topic(1)
	p.fill(topic, 0, "1", "2", "3")
	latest := subTo(topic, "latest")
	latest.policy = fromLatest
	a := p.subscribe("G2", latest)
	p.fill(topic, 0, "4", "5")
	a.assigned("G6", 1)
	b := p.join(subTo(topic, "earliest"), 1)
	if got := values(a.take("G2: start_policy 1 = after the newest at that moment", 2)); got[0] != "4" || got[1] != "5" {
		p.failf("G2: start_policy 1 = after the newest at that moment", "got %q", got)
	}
	if got := values(b.take("G2: start_policy 0 = earliest", 5)); strings.Join(got, "") != "12345" {
		p.failf("G2: start_policy 0 = earliest retained message", "got %q", got)
	}
	a.none("V1", 0)
}

func TestG4_Epochs(t *testing.T) {
	t.Parallel()
	addr := ordinary.addr(t)
	p := session(t, addr)
	topic := p.topic(2)
	a := p.join(subTo(topic, "g"), 2)
	beat := func(rule string, mem, asg uint32, code uint16) {
		t.Helper()
		a.send(a.beat(mem, asg, stateActive))
		if code == 0 {
			a.empty(rule, opHeartbeat)
		} else {
			a.err(rule, opHeartbeat, code)
		}
	}
	beat("G4: what was told last is current", a.mem, a.asg, 0)
	for name, d := range map[string][2]uint32{"membership_epoch": {1, 0}, "assignment_epoch": {0, 1}, "both": {1000, 1000}} {
		beat("G4: a number never told is 0x0020: "+name, a.mem+d[0], a.asg+d[1], codeStaleGeneration)
		a.send(a.pullOf(pull{}).frame()) // refusals change nothing
		a.pulled("G4")
		x := pull{sub: a.sub, member: a.id, mem: a.mem + d[0], asg: a.asg + d[1]}
		a.send(x.frame())
		a.err("G4: the same for PULL", opPull, codeStaleGeneration)
	}
	oldMem, oldAsg := a.mem, a.asg
	b := join(t, addr, subTo(topic, "g"), 0)
	n := a.notice("G6: a second member takes one of two partitions", patience)
	if n.kind != kindRevoke || n.mem <= oldMem && n.asg <= oldAsg {
		a.failf("G4: epochs grow with a join", "were %d, %d, got %+v", oldMem, oldAsg, n)
	}
	beat("G4: between the last confirmed and the last told: the old ones", oldMem, oldAsg, 0)
	beat("G4: between the last confirmed and the last told: the new ones", n.mem, n.asg, 0)
	a.confirm("G6", n)
	beat("G4: the new ones after confirming", n.mem, n.asg, 0)
	beat("G4: older than the last confirmed is 0x0020", oldMem, oldAsg, codeStaleGeneration)
	a.send(pull{sub: a.sub, member: a.id, mem: oldMem, asg: oldAsg}.frame())
	a.err("G4: the same for PULL", opPull, codeStaleGeneration)
	a.send(credit{sub: a.sub, mem: oldMem, mode: creditAdd}.frame())
	a.err("G4: the same for CREDIT", opCredit, codeStaleGeneration)
	b.assigned("G6", 1)

	// A third member changes nothing for two owners of two partitions: they keep their numbers.
	session(t, addr).subscribe("G4", subTo(topic, "g"))
	for _, m := range []*member{a, b} {
		m.send(m.beat(m.mem, m.asg, stateActive), m.pullOf(pull{}).frame())
		m.empty("G4: a member that is not touched by a change keeps its numbers", opHeartbeat)
		m.pulled("G4: a member that is not touched by a change keeps its numbers")
		if len(m.notices) > 0 {
			m.failf("G5: nothing moves", "got %+v", m.notices)
		}
	}
}

func TestG5_G6_SharingAndHandOver(t *testing.T) {
	t.Parallel()
	addr := ordinary.addr(t)
	p := session(t, addr)
	topic := p.topic(4)
	a := join(t, addr, subTo(topic, "g"), 4)
	epochs := map[uint16]uint64{}
	for part, e := range a.own {
		epochs[part] = e
	}
	b := join(t, addr, subTo(topic, "g"), 0)
	moved := a.revoked("G6: REVOKE to the old owner", 2)
	got := b.assigned("G6: ASSIGN to the new owner", 2)
	for _, n := range got {
		if n.partition != moved[0].partition && n.partition != moved[1].partition {
			b.failf("G5: only the revoked partitions move", "revoked %+v, assigned %+v", moved, n)
		}
		if n.epoch <= epochs[n.partition] {
			b.failf("G4: ownership_epoch grows", "was %d, got %+v", epochs[n.partition], n)
		}
	}
	c := join(t, addr, subTo(topic, "g"), 0)
	from := map[*member]int{a: 0, b: 0}
	for _, m := range []*member{a, b} { // 2+2 becomes 2+1+1: exactly one of them gives one up
		m.send(ping())
		m.empty("PING", opPing)
	}
	giver := whoIsTold(t, a, b)
	giver.revoked("G5: the fewest partitions move", 1)
	c.assigned("G5", 1)
	from[giver]++
	for m := range from {
		m.alive("G5")
		if len(m.notices) != 0 {
			m.failf("G5: exactly one partition moves from 2+2 to 2+1+1", "got %+v", m.notices)
		}
	}
	for part := range uint16(4) {
		owners := 0
		for _, m := range []*member{a, b, c} {
			if _, is := m.own[part]; is {
				owners++
			}
		}
		if owners != 1 {
			t.Fatalf("G7: exactly one member owns partition %d, got %d", part, owners)
		}
	}
	shareWork(t, p, topic, []*member{a, b, c})

	c.leave("G8: state 1 = LEAVE")
	heir := whoIsTold(t, a, b)
	heir.assigned("G5: a LEAVE hands over its partition", 1)
	heir.nc.Close()
	rest := a
	if heir == a {
		rest = b
	}
	since := time.Now()
	rest.assigned("G3: closing the connection ends its memberships at once", 4-len(rest.own))
	if d := time.Since(since); d > 3*time.Second {
		t.Errorf("G3: at once, not after %v", d)
	}
	shareWork(t, p, topic, []*member{rest})
}

// whoIsTold waits until one of two members has a notice.
func whoIsTold(t *testing.T, a, b *member) *member {
	t.Helper()
	for end := deadlineIn(patience); time.Now().Before(end); {
		for _, m := range []*member{a, b} {
			if len(m.notices) == 0 {
				if f, err := m.read(deadlineIn(20 * time.Millisecond)); err == nil {
					m.keep("NOTICE", f)
				}
			}
			if len(m.notices) > 0 {
				return m
			}
		}
	}
	t.Fatal("G6: nobody was told about a move")
	return nil
}

// shareWork publishes to all partitions and lets the members consume: each
// message comes once, to the owner of its partition.
func shareWork(t *testing.T, p *peer, topic uint16, members []*member) {
	t.Helper()
	for part := range uint16(4) {
		p.fill(topic, part, "a", "b", "c")
	}
	for _, m := range members {
		msgs := m.take("G7", 3*len(m.own))
		next := map[uint16]uint64{}
		for _, x := range msgs {
			if want := next[x.partition]; want != 0 && x.seq != want || x.attempt != 1 {
				m.failf("V4: first deliveries of a partition follow its sequence order", "want %d, got %s", want, show(msgs))
			}
			next[x.partition] = x.seq + 1
		}
		m.ack("ACK", msgs...)
		m.none("G7: nobody else's messages", 20*time.Millisecond)
	}
}

func TestG6_StaleMakesTheBrokerTellAgain(t *testing.T) {
	t.Parallel()
	p := session(t, ordinary.addr(t))
	topic := p.topic(1)
	p.fill(topic, 0, "x")
	m := p.subscribe("SUB", subTo(topic, "g"))
	n := m.notice("G6", patience)
	m.send(reply(n, resultStale).frame())
	m.empty("G6: STALE is answered OK", opControlAck)
	again := m.notice("G6: STALE makes the broker send the current state again", patience)
	if again.kind != kindAssign || again.partition != n.partition || again.epoch < n.epoch {
		m.failf("G6: STALE makes the broker send the current state again", "first %+v, then %+v", n, again)
	}
	m.none("G6: delivery starts when the new owner's CONTROL_ACK(OK) arrives", 50*time.Millisecond)
	m.confirm("G6", again)
	if again.id != n.id {
		m.send(reply(n, resultOK).frame())
		m.err("G9: confirming a notice that was superseded is 0x0020", opControlAck, codeStaleGeneration)
	}
	m.take("G6: delivery starts when the new owner's CONTROL_ACK(OK) arrives", 1)
}

func TestG6_DeliveryStartsWithTheConfirmation(t *testing.T) {
	t.Parallel()
	p := session(t, ordinary.addr(t))
	topic := p.topic(1)
	p.fill(topic, 0, "x")
	m := p.subscribe("SUB", subTo(topic, "g"))
	n := m.notice("G6", patience)
	rule := "G6: delivery starts when the new owner's CONTROL_ACK(OK) arrives"
	m.none(rule, 100*time.Millisecond)
	m.send(m.pullOf(pull{waitMS: 5000}).frame(), reply(n, resultOK).frame())
	m.own[n.partition] = n.epoch
	first := m.pulled("V2: CONTROL_ACK ends a waiting PULL")
	m.empty(rule, opControlAck)
	if len(first) == 0 {
		m.take(rule, 1)
	}
}

func TestG6_OldOwnerIsFenced(t *testing.T) {
	slow(t)
	t.Parallel()
	addr := ordinary.addr(t)
	p := session(t, addr)
	topic := p.topic(2)
	for part := range uint16(2) {
		p.fill(topic, part, "x")
	}
	a := join(t, addr, subTo(topic, "g"), 2)
	msgs := a.take("PULL", 2)
	b := join(t, addr, subTo(topic, "g"), 0)
	n := a.notice("G6", patience)
	since := time.Now()
	x := msgs[0]
	if x.partition != n.partition {
		x = msgs[1]
	}
	rule := "G6: no CONTROL_ACK within 10 s: the old owner is fenced and the move goes on"
	for range 4 { // a lives and beats, it only does not confirm
		a.quiet(rule, 2*time.Second)
		a.send(a.beat(a.mem, a.asg, stateActive))
		a.empty("HEARTBEAT", opHeartbeat)
	}
	got := b.notice(rule, 5*time.Second)
	b.notBefore(rule, since, 9*time.Second)
	if got.kind != kindAssign || got.partition != n.partition {
		b.failf(rule, "got %+v", got)
	}
	b.confirm("G6", got)
	a.settleErr("G6: a fenced owner gets 0x0022 from then on", a.settleOf(x), codeStaleOwner)
	again := b.take("V8: the fenced member's message goes to the new owner", 1)
	if string(again[0].value) != "x" || again[0].attempt != 2 {
		b.failf("V8: a member lost without LEAVE or REVOKE (also a fenced one) fails the attempt", "got %s", show(again))
	}
}

func TestG6_UnconfirmedNewOwnerIsPassedOver(t *testing.T) {
	slow(t)
	t.Parallel()
	addr := ordinary.addr(t)
	p := session(t, addr)
	topic := p.topic(1)
	p.fill(topic, 0, "x")
	a := session(t, addr).subscribe("SUB", subTo(topic, "g"))
	n := a.notice("G6", patience)
	since := time.Now()
	b := join(t, addr, subTo(topic, "g"), 0)
	for range 3 {
		a.send(a.beat(a.mem, a.asg, stateActive))
		a.empty("HEARTBEAT", opHeartbeat)
		b.quietOrNotice("G6", 3*time.Second)
	}
	got := b.notice("G6: a new owner that does not confirm is passed over", 5*time.Second)
	b.notBefore("G6", since, 9*time.Second)
	if got.kind != kindAssign || got.partition != n.partition || got.epoch <= n.epoch {
		b.failf("G6: a new owner that does not confirm is passed over", "first %+v, then %+v", n, got)
	}
	b.confirm("G6", got)
	b.take("G6", 1)
}

func TestG8_Heartbeat(t *testing.T) {
	t.Parallel()
	addr := ordinary.addr(t)
	p := session(t, addr)
	topic := p.topic(1)
	m := p.join(subTo(topic, "g"), 1)
	q := session(t, addr)
	q.send(m.beat(m.mem, m.asg, stateActive))
	q.err("G3: subscription_id belongs to the connection", opHeartbeat, codeUnknownMember)
	for _, c := range []struct {
		rule string
		h    heartbeat
		code uint16
	}{
		{"G8: unknown subscription", heartbeat{sub: m.sub + 9, member: m.id, mem: m.mem, asg: m.asg}, codeUnknownMember},
		{"G8: subscription 0", heartbeat{member: m.id, mem: m.mem, asg: m.asg}, codeUnknownMember},
		{"G8: unknown member", heartbeat{sub: m.sub, member: m.id + 1, mem: m.mem, asg: m.asg}, codeUnknownMember},
		{"G8: member before epochs", heartbeat{sub: m.sub, member: m.id + 1, mem: m.mem + 9, asg: m.asg}, codeUnknownMember},
		{"G8: epochs", heartbeat{sub: m.sub, member: m.id, mem: m.mem + 9, asg: m.asg}, codeStaleGeneration},
		{"G8: LEAVE with wrong epochs leaves nothing", heartbeat{sub: m.sub, member: m.id, mem: m.mem, asg: m.asg + 9, state: stateLeave}, codeStaleGeneration},
	} {
		p.send(c.h.frame())
		p.err(c.rule, opHeartbeat, c.code)
	}
	p.send(m.beat(m.mem, m.asg, stateActive))
	p.empty("G8: right", opHeartbeat)

	p.fill(topic, 0, "x")
	x := m.take("PULL", 1)[0]
	m.leave("G8: state 1 = LEAVE")
	rule := "G8: the subscription is gone once LEAVE's OK is sent"
	p.send(m.beat(m.mem, m.asg, stateActive), m.pullOf(pull{}).frame(), m.settleOf(x).ack(), m.settleOf(x).nack(), credit{sub: m.sub, mem: m.mem}.frame())
	p.err(rule, opHeartbeat, codeUnknownMember)
	p.err(rule, opPull, codeStaleGeneration)
	p.err(rule, opAck, codeStaleGeneration)
	p.err(rule, opNack, codeStaleGeneration)
	p.err(rule, opCredit, codeStaleGeneration)
	again := p.join(subTo(topic, "g"), 1)
	if y := again.take("V8: LEAVE hands back without failing the attempt", 1)[0]; y.seq != x.seq || y.attempt != 1 || y.delivery == x.delivery {
		p.failf("V8: LEAVE hands back without failing the attempt", "first %s, then %s", show([]message{x}), show([]message{y}))
	}
}

func TestG9_ControlAck(t *testing.T) {
	t.Parallel()
	addr := ordinary.addr(t)
	p := session(t, addr)
	topic := p.topic(1)
	p.fill(topic, 0, "x")
	m := p.subscribe("SUB", subTo(topic, "g"))
	n := m.notice("G6", patience)
	right := reply(n, resultOK)
	for name, change := range map[string]func(*controlAck){
		"an unknown notice_id": func(c *controlAck) { c.id += 1000 },
		"notice_kind":          func(c *controlAck) { c.kind = kindRevoke },
		"membership_epoch":     func(c *controlAck) { c.mem++ },
		"assignment_epoch":     func(c *controlAck) { c.asg++ },
		"ownership_epoch":      func(c *controlAck) { c.epoch++ },
	} {
		c := right
		change(&c)
		p.send(c.frame())
		p.err("G9: an unknown notice_id or differing fields is 0x0020: "+name, opControlAck, codeStaleGeneration)
	}
	c := right
	c.group = 0xFFFE
	c.id += 1000
	p.send(c.frame())
	p.err("0x2005: CONTROL_ACK for a group_id that does not exist", opControlAck, codeUnknownGroup)
	m.none("G9: refused confirmations confirm nothing", 50*time.Millisecond)
	m.confirm("G6", n)
	x := m.take("G6", 1)[0]
	for range 2 {
		p.send(right.frame())
		p.empty("G9: repeating a confirmed one is answered OK and changes nothing", opControlAck)
	}
	m.ack("G9: a repeat changes nothing", x)
	q := session(t, addr)
	q.send(right.frame())
	f := q.answer("G9", patience)
	if e, err := decodeErr(f.payload); f.op != opErr || err != nil || e.code != codeStaleGeneration {
		q.failf("G9: a notice is confirmed by the connection that was told", "got %v", f)
	}
}

func TestG9_ErrorOnAssign(t *testing.T) {
	t.Parallel()
	p := session(t, ordinary.addr(t))
	topic := p.topic(1)
	p.fill(topic, 0, "x")
	m := p.subscribe("SUB", subTo(topic, "g"))
	n := m.notice("G6", patience)
	since := time.Now()
	m.send(reply(n, resultError).frame())
	m.empty("G9: ERROR is answered OK", opControlAck)
	again := m.notice("G9: after 1 s to the same member when there is no other", patience)
	m.notBefore("G9: after 1 s to the same member", since, 900*time.Millisecond)
	if again.kind != kindAssign || again.partition != n.partition || again.id == n.id {
		m.failf("G9: ERROR on ASSIGN", "first %+v, then %+v", n, again)
	}
	m.confirm("G6", again)
	m.take("G6", 1)
}

func TestG9_ErrorOnAssignGoesToAnother(t *testing.T) {
	t.Parallel()
	addr := ordinary.addr(t)
	p := session(t, addr)
	topic := p.topic(1)
	a := session(t, addr).subscribe("SUB", subTo(topic, "g"))
	n := a.notice("G6", patience)
	b := session(t, addr).subscribe("SUB", subTo(topic, "g"))
	a.send(reply(n, resultError).frame())
	a.empty("G9", opControlAck)
	b.assigned("G9: ERROR on ASSIGN: the partition goes to another member", 1)
}

func TestG9_ErrorOnRevokeCountsAsOK(t *testing.T) {
	t.Parallel()
	addr := ordinary.addr(t)
	p := session(t, addr)
	topic := p.topic(2)
	a := join(t, addr, subTo(topic, "g"), 2)
	b := join(t, addr, subTo(topic, "g"), 0)
	n := a.notice("G6", patience)
	a.send(reply(n, resultError).frame())
	a.empty("G9", opControlAck)
	b.assigned("G9: ERROR on REVOKE counts as OK", 1)
}

// TestV8_RevokeHandsBack: a confirmed REVOKE gives unsettled deliveries to the new owner without failing them.
func TestV8_RevokeHandsBack(t *testing.T) {
	t.Parallel()
	addr := ordinary.addr(t)
	p := session(t, addr)
	topic := p.topic(2)
	for part := range uint16(2) {
		p.fill(topic, part, "x")
	}
	a := join(t, addr, subTo(topic, "g"), 2)
	msgs := a.take("PULL", 2)
	b := join(t, addr, subTo(topic, "g"), 0)
	n := a.revoked("G6", 1)[0]
	b.assigned("G6", 1)
	got := b.take("V8: a confirmed REVOKE hands back", 1)[0]
	if got.partition != n.partition || got.attempt != 1 {
		b.failf("V8: a confirmed REVOKE hands back without failing the attempt", "got %s", show([]message{got}))
	}
	for _, x := range msgs {
		s := a.settleOf(x)
		if x.partition == n.partition {
			a.settleErr("0x0022: ownership_epoch is not the partition's current one", s, codeStaleOwner)
		} else {
			a.ack("ACK of what is still owned", x)
		}
	}
	b.ack("ACK by the new owner", got)
	res := a.window("V5: loss of ownership settles and so returns credit", creditAdd, 0, 0)
	if res.outstandingCount != 0 || res.outstandingBytes != 0 {
		a.failf("V5: loss of ownership settles and so returns credit", "got %+v", res)
	}
}
