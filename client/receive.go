package client

import (
	"errors"
	"fmt"
	"time"

	"github.com/mortarmq/mortarmq/codec"
)

// This file is what comes in on a member's connection.

// receive takes the frames of one read under one lock.
func (m *member) receive(f *frames) error {
	m.mu.Lock()
	taken := int32(0)
	var err error
	for err == nil {
		op, payload, ok := f.next()
		if !ok {
			break
		}
		switch op {
		case codec.OpMsg:
			var kept bool
			if kept, err = m.takeMessage(f.chunk, payload); kept {
				taken++
			}
		case codec.OpNotice:
			var n codec.Notice
			if n, err = codec.DecodeNotice(payload); err == nil {
				m.noticed(&n)
			}
		case codec.OpOK, codec.OpErr:
			err = m.takeAnswer(op, payload)
		}
	}
	f.chunk.refs.Add(taken)
	events := len(m.events) > 0
	m.mu.Unlock()
	if events {
		m.runEvents()
	}
	signal(m.wake)
	return err
}

// takeMessage queues a delivery. It reports whether the delivery holds a
// reference to the chunk, which the caller adds before it gives the lock up.
func (m *member) takeMessage(ck *chunk, payload []byte) (bool, error) {
	msg, err := codec.DecodeMsg(payload)
	if err != nil {
		return false, fmt.Errorf("%s sent a malformed MSG: %w", m.conn.server, err)
	}
	if msg.SubscriptionID != m.sub.SubscriptionID || m.leaving {
		return false, nil // LEAVE hands it back
	}
	if len(m.slab) == 0 {
		m.slab = make([]Delivery, slabSize)
	}
	d := &m.slab[0]
	m.slab = m.slab[1:]
	*d = Delivery{
		Topic: m.name, Partition: msg.Partition, Sequence: msg.Sequence, Attempt: int(msg.Attempt),
		Key: msg.Key, Value: msg.Value, ProducerID: msg.ProducerID, ProducerSeq: msg.ProducerSeq,
		m: m, chunk: ck, id: msg.DeliveryID, epoch: msg.OwnershipEpoch, size: len(msg.Key) + len(msg.Value),
	}
	if msg.Flags&codec.MsgDeadLetter != 0 {
		d.DeadLetter = true
		origin := msg.Origin
		d.Origin = &origin
	}
	m.count(d)
	if m.opts.ProgressEvery > 0 {
		m.leases.add(d, m.d.now())
	}
	m.queue.push(d)
	return true, nil
}

// takeAnswer deals with the answer to the oldest request.
func (m *member) takeAnswer(op codec.Op, payload []byte) error {
	var request codec.Op
	if m.wire.n > 0 {
		request = m.wire.front().op
	}
	a, err := m.conn.decodeAnswer(op, payload, request)
	if err != nil {
		return err
	}
	r := m.wire.pop()
	switch r.op {
	case codec.OpAck, codec.OpNack:
		m.answeredSettle(r, a)
	case codec.OpPull:
		m.pulled(r, a)
	case codec.OpHeartbeat:
		m.answeredHeartbeat(r, a)
	case codec.OpSub:
		return m.subscribed(a)
	case codec.OpControlAck:
		if a.code != 0 { // superseded: the notice that did it is on its way
			m.d.log.Debug("CONTROL_ACK refused", "error", m.conn.refusal(r.op, a))
		}
	case codec.OpCredit:
		if a.code != 0 {
			m.giveUp(m.conn.refusal(r.op, a))
		}
	}
	return nil
}

func (m *member) subscribed(a answer) error {
	defer close(m.joined)
	if a.code != 0 {
		m.refusal = m.conn.refusal(codec.OpSub, a)
		return nil
	}
	r, err := codec.DecodeSubResult(a.result)
	if err == nil && r.SubscriptionID == 0 {
		err = errors.New("subscription_id is 0")
	}
	if err != nil {
		m.refusal = fmt.Errorf("%s sent a malformed SUB result: %w", m.conn.server, err)
		return m.refusal
	}
	m.sub = r
	m.stats.Joins++
	m.pull()
	return nil
}

// answeredSettle deals with the answer to an ACK or NACK.
func (m *member) answeredSettle(r request, a answer) {
	if (a.code.Retriable() || a.code == codec.CodeInternal) && !notLeader(a.code) {
		m.later = append(m.later, r)
		if m.laterAt == 0 {
			m.laterAt = m.d.now() + m.pause.next(&m.d.opts)
			signal(m.alarm)
		}
		return
	}
	if a.code == 0 {
		m.tookSettle(r)
	} else {
		m.refusedSettle(r, m.conn.refusal(r.op, a))
	}
	if !r.progress {
		m.settling--
		m.ownership(r.d.Partition).settling--
		m.checkRevoke(r.d.Partition)
	}
}

func (m *member) tookSettle(r request) {
	m.pause.reset()
	switch {
	case r.op == codec.OpNack:
		m.stats.Nacked++
	case !r.progress:
		m.stats.Acked++
	}
	if r.wait != nil {
		r.wait <- nil
	}
}

// refusedSettle tells whoever waits, or the log, and draws the conclusions.
func (m *member) refusedSettle(r request, err *Error) {
	if !r.progress {
		m.stats.Refused++
	}
	if r.wait != nil {
		r.wait <- err
	} else {
		m.d.log.Debug("not settled", "partition", r.d.Partition, "sequence", uint64(r.d.Sequence), "error", err)
	}
	switch err.Code {
	case codec.CodeStaleGeneration, codec.CodeStaleLeaderEpoch, codec.CodeUnknownTopic:
		m.giveUp(err)
	case codec.CodeStaleOwner:
		// Fenced: nothing of this partition can be settled under this epoch any more.
		if o := m.ownership(r.d.Partition); o.epoch == r.d.epoch && o.revoke == nil {
			o.epoch = 0
			m.events = append(m.events, event{Rebalance{Partition: r.d.Partition, Lost: true}, nil})
		}
	}
}

func (m *member) answeredHeartbeat(r request, a answer) {
	switch {
	case r.leave:
		if a.code != 0 { // not a member any more, which was the aim
			m.d.log.Debug("LEAVE refused", "error", m.conn.refusal(r.op, a))
		}
		close(m.left)
	case a.code == codec.CodeUnknownMember, a.code == codec.CodeStaleGeneration, notLeader(a.code):
		m.giveUp(m.conn.refusal(r.op, a))
	}
}

// giveUp ends the membership: Run joins again, or returns the error.
func (m *member) giveUp(err error) {
	if m.fatal == nil {
		m.fatal = err
		signal(m.wake)
	}
}

// lost ends the membership with the connection. What was delivered and not
// settled is delivered again to somebody.
func (m *member) lost(err error) {
	m.mu.Lock()
	m.cause = err
	lost := outcome{ErrLostOwnership, err}
	for m.wire.n > 0 {
		if r := m.wire.pop(); r.wait != nil {
			r.wait <- lost
		}
	}
	for _, r := range m.later {
		if r.wait != nil {
			r.wait <- lost
		}
	}
	m.later = nil
	for m.queue.n > 0 {
		m.drop(m.queue.pop())
	}
	m.dropAll(true)
	close(m.gone)
	m.mu.Unlock()
	m.runEvents()
	signal(m.wake)
}

// keep is the member's keeper: it does what depends on time, until the connection is lost.
func (m *member) keep() {
	defer close(m.kept)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-m.gone:
			return
		case <-m.alarm:
		case <-timer.C:
		}
		m.mu.Lock()
		next := m.tick(m.d.now())
		events := len(m.events) > 0
		m.mu.Unlock()
		if events {
			m.runEvents()
		}
		timer.Reset(next)
	}
}

// tick does what is due and returns when to look again at the latest.
func (m *member) tick(now time.Duration) time.Duration {
	o := &m.d.opts
	next := max(min(time.Second, o.SilenceTimeout/4, o.KeepAlive/4, m.opts.RevokeTimeout/4), time.Millisecond)
	if m.opts.ProgressEvery > 0 {
		next = max(min(next, m.opts.ProgressEvery/4), time.Millisecond)
	}
	if m.wire.n > 0 && now-max(m.busySince, m.conn.lastIO()) > o.SilenceTimeout {
		m.conn.fail(fmt.Errorf("%s owes answers and was silent for %v", m.conn.server, o.SilenceTimeout))
	}
	if m.sub.SubscriptionID == 0 || m.cause != nil || m.leaving {
		return next
	}
	m.overdueRevokes(now)
	m.renewLeases(now)
	if m.laterAt > 0 {
		if now >= m.laterAt {
			m.settleLater()
		} else {
			next = min(next, m.laterAt-now)
		}
	}
	if m.pulling.after > now {
		next = min(next, m.pulling.after-now)
	} else if len(m.later) == 0 {
		m.pull()
	}
	if now-m.named > o.KeepAlive {
		m.conn.trim()
		m.push(request{op: codec.OpHeartbeat})
		m.conn.out = codec.AppendHeartbeat(m.conn.out, m.heartbeat(codec.HeartbeatActive))
		m.conn.flush()
		m.pull()
	}
	return next
}

// settleLater sends what was refused for want of room again.
func (m *member) settleLater() {
	later := m.later
	m.later, m.laterAt = nil, 0
	for _, r := range later {
		m.appendSettle(r)
	}
	m.flushAcks()
}

// renewBatch bounds the PROGRESSes per look, well below what may be unanswered.
const renewBatch = 1000

// renewLeases keeps the leases of what waits or is being handled running.
func (m *member) renewLeases(now time.Duration) {
	n := 0
	for d := m.leases.head; d != nil && now-d.leased >= m.opts.ProgressEvery && n < renewBatch; d = m.leases.head {
		m.leases.remove(d)
		if m.owns(d) {
			m.leases.add(d, now)
			m.sendSettle(request{op: codec.OpAck, d: d, progress: true})
			n++
		} else {
			m.uncount(d)
		}
	}
	if n > 0 {
		m.flushAcks()
	}
}
