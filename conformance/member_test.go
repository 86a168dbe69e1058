package conformance

import (
	"fmt"
	"testing"
	"time"
)

// member is one subscription of a connection, with what it was told last.
type member struct {
	*peer
	group    string
	topic    uint16
	sub      uint16
	id       uint64
	mem, asg uint32 // last told
	groupID  uint16 // 0 until the first notice
	own      map[uint16]uint64
	credits  uint64 // the last credit_epoch
}

// subscribe sends SUB and checks the result's form.
func (p *peer) subscribe(rule string, s sub) *member {
	p.t.Helper()
	p.send(s.frame())
	res, err := decodeSubResult(p.ok(rule, opSub))
	if err != nil {
		p.failf(rule, "%v", err)
	}
	if res.sub == 0 || res.member == 0 {
		p.failf("G3: subscription_id is 1..65535, member_id is never 0", "got %+v", res)
	}
	return &member{peer: p, group: s.group, topic: s.topic, sub: res.sub, id: res.member, mem: res.mem, asg: res.asg, own: map[uint16]uint64{}}
}

// join opens a connection, subscribes and confirms n assignments.
func join(t testing.TB, addr string, s sub, n int) *member {
	t.Helper()
	return session(t, addr).join(s, n)
}

func (p *peer) join(s sub, n int) *member {
	p.t.Helper()
	m := p.subscribe("SUB is answered OK", s)
	m.assigned("G6: a member is told its partitions by NOTICE ASSIGN", n)
	return m
}

// notice returns this member's next notice; no request may be outstanding.
func (m *member) notice(rule string, within time.Duration) notice {
	m.t.Helper()
	deadline := time.Now().Add(within)
	for {
		for i, n := range m.notices {
			if n.member == m.id {
				m.notices = append(m.notices[:i:i], m.notices[i+1:]...)
				m.told(rule, n)
				return n
			}
		}
		f := m.next(rule, time.Until(deadline))
		if f.op != opNotice {
			m.failf(rule, "want a NOTICE, got %v", f)
		}
		m.keep(rule, f)
	}
}

// told checks a notice's fields and takes its epochs over.
func (m *member) told(rule string, n notice) {
	m.t.Helper()
	bad := ""
	switch {
	case n.kind != kindAssign && n.kind != kindRevoke:
		bad = "kind is 0 or 1"
	case n.group == 0 || m.groupID != 0 && n.group != m.groupID:
		bad = fmt.Sprintf("group_id is 1..65535 and stays the same (was %d)", m.groupID)
	case n.topic != m.topic:
		bad = fmt.Sprintf("topic_id is the subscription's, %d", m.topic)
	case n.mem < m.mem || n.asg < m.asg:
		bad = fmt.Sprintf("G4: epochs grow (were %d, %d)", m.mem, m.asg)
	case n.epoch>>32 == 0:
		bad = "G4: the upper half of ownership_epoch is the leader's term, at least 1"
	}
	if bad != "" {
		m.failf(rule, "NOTICE %+v: %s", n, bad)
	}
	m.groupID, m.mem, m.asg = n.group, n.mem, n.asg
}

// reply is the CONTROL_ACK that belongs to a notice.
func reply(n notice, result uint8) controlAck {
	return controlAck{id: n.id, kind: n.kind, group: n.group, mem: n.mem, asg: n.asg, epoch: n.epoch, result: result}
}

// confirm answers a notice with OK and keeps the books of owned partitions.
func (m *member) confirm(rule string, n notice) {
	m.t.Helper()
	m.send(reply(n, resultOK).frame())
	m.empty(rule, opControlAck)
	if n.kind == kindAssign {
		m.own[n.partition] = n.epoch
	} else {
		delete(m.own, n.partition)
	}
}

// assigned waits for n ASSIGN notices and confirms each.
func (m *member) assigned(rule string, n int) []notice { return m.moved(rule, kindAssign, n) }

// revoked waits for n REVOKE notices and confirms each.
func (m *member) revoked(rule string, n int) []notice { return m.moved(rule, kindRevoke, n) }

func (m *member) moved(rule string, kind uint8, n int) []notice {
	m.t.Helper()
	var all []notice
	for range n {
		x := m.notice(rule, patience)
		if x.kind != kind {
			m.failf(rule, "want kind %d, got %+v", kind, x)
		}
		if _, owned := m.own[x.partition]; owned != (kind == kindRevoke) {
			m.failf(rule, "partition %d: owned before is %v, but got %+v", x.partition, owned, x)
		}
		m.confirm(rule, x)
		all = append(all, x)
	}
	return all
}

// pullOf fills in who pulls.
func (m *member) pullOf(p pull) pull {
	p.sub, p.member, p.mem, p.asg = m.sub, m.id, m.mem, m.asg
	return p
}

// pull sends PULL and returns its messages; it must end in OK.
func (m *member) pull(rule string, p pull) []message {
	m.t.Helper()
	m.send(m.pullOf(p).frame())
	return m.pulled(rule)
}

// pulled reads MSG frames up to the OK of PULL.
func (m *member) pulled(rule string) []message {
	m.t.Helper()
	msgs, last := m.upTo(rule)
	if got := m.asOK(rule, last, opPull); len(got) != 0 {
		m.failf(rule, "OK for PULL is empty, got %s", brief(got))
	}
	return msgs
}

// upTo reads MSG frames and the answer behind them.
func (m *member) upTo(rule string) ([]message, frame) {
	m.t.Helper()
	var msgs []message
	for {
		f := m.answer(rule, patience)
		if f.op != opMsg {
			return msgs, f
		}
		x, err := decodeMsg(f.payload)
		if err != nil {
			m.failf(rule, "%v", err)
		}
		if x.sub != m.sub || x.topic != m.topic || x.attempt == 0 || x.delivery == 0 {
			m.failf(rule, "MSG for subscription %d, topic %d: %v", m.sub, m.topic, f)
		}
		if e, owned := m.own[x.partition]; !owned || e != x.epoch {
			m.failf("G7: only a partition's owner is sent its messages, with its ownership_epoch", "own %v, got %v", m.own, f)
		}
		msgs = append(msgs, x)
	}
}

// pullErr sends PULL and expects ERR at once, without any message.
func (m *member) pullErr(rule string, p pull, code uint16) {
	m.t.Helper()
	m.send(m.pullOf(p).frame())
	m.err(rule, opPull, code)
}

// take pulls until n messages have come.
func (m *member) take(rule string, n int) []message {
	m.t.Helper()
	var msgs []message
	deadline := time.Now().Add(patience)
	for len(msgs) < n {
		if time.Now().After(deadline) {
			m.failf(rule, "%d of %d messages within %v", len(msgs), n, patience)
		}
		msgs = append(msgs, m.pull(rule, pull{maxMsgs: uint16(min(n-len(msgs), 65535)), waitMS: 1000})...)
	}
	return msgs
}

// none pulls for a while and expects no message.
func (m *member) none(rule string, d time.Duration) {
	m.t.Helper()
	if got := m.pull(rule, pull{waitMS: uint16(d.Milliseconds())}); len(got) != 0 {
		m.failf(rule, "want no message within %v, got %v", d, show(got))
	}
}

// settleOf names one delivery.
func (m *member) settleOf(x message) settle {
	return settle{sub: m.sub, topic: x.topic, partition: x.partition, seq: x.seq, delivery: x.delivery, epoch: x.epoch}
}

func (m *member) ack(rule string, msgs ...message) {
	m.t.Helper()
	frames := make([][]byte, len(msgs))
	for i, x := range msgs {
		frames[i] = m.settleOf(x).ack()
	}
	m.send(frames...)
	for range msgs {
		m.empty(rule, opAck)
	}
}

func (m *member) nack(rule string, x message, reason uint8) {
	m.t.Helper()
	s := m.settleOf(x)
	s.reason = reason
	m.send(s.nack())
	m.empty(rule, opNack)
}

func (m *member) progress(rule string, x message) {
	m.t.Helper()
	s := m.settleOf(x)
	s.flags = ackProgress
	m.send(s.ack())
	m.empty(rule, opAck)
}

// ackErr expects the code for an ACK, and the same for a NACK, of s.
func (m *member) settleErr(rule string, s settle, code uint16) {
	m.t.Helper()
	m.send(s.ack(), s.nack())
	m.err(rule, opAck, code)
	m.err(rule, opNack, code)
}

// window sends CREDIT for this member and checks that credit_epoch grows (V5).
func (m *member) window(rule string, mode uint8, count uint16, bytes uint32) creditResult {
	m.t.Helper()
	res := m.credit(rule, credit{sub: m.sub, mem: m.mem, mode: mode, count: count, bytes: bytes})
	if res.epoch <= m.credits {
		m.failf("V5: credit_epoch grows with each CREDIT", "was %d, got %+v", m.credits, res)
	}
	m.credits = res.epoch
	return res
}

// beat sends HEARTBEAT with the given epochs.
func (m *member) beat(mem, asg uint32, state uint8) []byte {
	return heartbeat{sub: m.sub, member: m.id, mem: mem, asg: asg, state: state}.frame()
}

// leave ends the membership by HEARTBEAT LEAVE.
func (m *member) leave(rule string) {
	m.t.Helper()
	m.send(m.beat(m.mem, m.asg, stateLeave))
	m.empty(rule, opHeartbeat)
}

// values are the messages' values, in order.
func values(msgs []message) []string {
	out := make([]string, len(msgs))
	for i, x := range msgs {
		out[i] = string(x.value)
	}
	return out
}

// show is a short form for failures.
func show(msgs []message) string {
	s := fmt.Sprintf("%d messages", len(msgs))
	for i, x := range msgs {
		if i == 20 {
			return s + " …"
		}
		s += fmt.Sprintf(" [p%d s%d d%d a%d %.20q]", x.partition, x.seq, x.delivery, x.attempt, x.value)
	}
	return s
}
