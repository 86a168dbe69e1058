package client

import (
	"time"

	"github.com/mortarmq/mortarmq/codec"
)

// pulling is the state of a member's PULLs and of its credit window as the
// client sees it. One PULL waits at the broker whenever there is credit. Any request behind it ends
// its wait (V2), so a new one is sent behind every batch of requests.
type pulling struct {
	count, bytes       int // the window (V5)
	outCount, outBytes int // delivered and not settled
	grown              bool

	waiting int           // PULLs without an answer
	last    bool          // the last request sent is a PULL: it is the one that waits
	got     int           // messages since the last answer to a PULL
	blocked bool          // NO_CREDIT: until something is settled
	after   time.Duration // not before this time, on the dialer's clock
	idle    int           // PULLs in a row that came back empty and early
	pause   backoff
}

// pull sends a PULL if none waits and there is room for what it brings.
func (m *member) pull() {
	p := &m.pulling
	switch {
	case m.stopping, m.fatal != nil, m.cause != nil, m.sub.SubscriptionID == 0:
		return
	case p.waiting > 1, p.waiting == 1 && p.last, p.blocked:
		return
	}
	free := p.count - p.outCount
	if free <= 0 || p.outBytes >= p.bytes {
		return
	}
	if m.queue.n > 0 && free < p.count/2 {
		return // there is enough to do: ask for more at a time
	}
	now := m.d.now()
	if now < p.after {
		signal(m.alarm)
		return
	}
	p.waiting++
	m.push(request{op: codec.OpPull, sent: now, grown: p.grown})
	m.conn.out = codec.AppendPull(m.conn.out, &codec.Pull{
		SubscriptionID: m.sub.SubscriptionID, MemberID: m.sub.MemberID,
		MembershipEpoch: m.sub.MembershipEpoch, AssignmentEpoch: m.sub.AssignmentEpoch,
		MaxMsgs: uint16(m.opts.MaxMsgs), WaitMs: uint16(m.opts.MaxWait / time.Millisecond),
	})
	m.conn.flush()
}

// count counts a message against the window.
func (m *member) count(d *Delivery) {
	d.counted = true
	m.pulling.outCount++
	m.pulling.outBytes += d.size
	m.pulling.got++
}

// uncount returns a delivery's credit.
func (m *member) uncount(d *Delivery) {
	if d.counted {
		d.counted = false
		m.pulling.blocked = false
		m.pulling.outCount--
		m.pulling.outBytes -= d.size
	}
}

// pulled deals with the answer to a PULL.
func (m *member) pulled(r request, a answer) {
	p := &m.pulling
	p.waiting--
	got := p.got
	p.got = 0
	switch {
	case a.code == 0:
		m.pulledOK(r, got)
	case a.code == codec.CodeNoCredit:
		// Nothing more until something is settled. With nothing to settle, the
		// broker counts something that was lost: look again after a pause.
		if p.outCount > 0 {
			p.blocked = true
		} else {
			m.pullLater()
		}
	case a.code == codec.CodeMessageExceedsCredit && !r.grown && !m.opts.FixedCredit:
		if !p.grown {
			m.growCredit()
		}
	case a.code.Retriable() && !notLeader(a.code):
		m.pullLater()
	default:
		m.giveUp(m.conn.refusal(codec.OpPull, a))
		return
	}
	m.pull()
}

// pulledOK watches for a broker that answers at once with nothing, again and again.
func (m *member) pulledOK(r request, got int) {
	p := &m.pulling
	early := m.d.now()-r.sent < m.opts.MaxWait/2
	if got > 0 {
		m.useful = true
	}
	if got > 0 || m.wire.n > 0 || !early {
		p.idle = 0
		p.pause.reset()
		return
	}
	if p.idle++; p.idle > 3 {
		m.pullLater()
	}
}

// pullLater has the next PULL wait for a pause, which the keeper ends.
func (m *member) pullLater() {
	m.pulling.after = m.d.now() + m.pulling.pause.next(&m.d.opts)
	signal(m.alarm)
}

// growCredit enlarges the byte window to the largest message there can be (V6).
func (m *member) growCredit() {
	p := &m.pulling
	p.grown = true
	p.bytes = max(p.bytes, codec.MaxValueLen+codec.MaxKeyLen)
	m.push(request{op: codec.OpCredit})
	m.conn.out = codec.AppendCredit(m.conn.out, &codec.Credit{
		SubscriptionID: m.sub.SubscriptionID, MembershipEpoch: m.sub.MembershipEpoch,
		Mode: codec.CreditSet, CreditCount: uint16(p.count), CreditBytes: uint32(p.bytes),
	})
	m.conn.flush()
}
