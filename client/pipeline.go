package client

import (
	"fmt"

	"github.com/mortarmq/mortarmq/codec"
)

// This file is what the producer does with its lanes: send, take answers, and
// put things right after a failure. Everything here is called with p.mu held.

// pump sends what may be sent of a lane.
func (p *Producer) pump(ln *lane) {
	for ln.unsent != none && !ln.stalled && p.conn != nil && !p.moving && !p.stopped {
		s := &p.win.slots[ln.unsent]
		id := s.id
		if s.seq == 0 {
			id = ln.id
		}
		if ln.onWire > 0 && (id != ln.opened || p.idempotent() && ln.onWire >= dedupWindow) {
			return
		}
		i := ln.unsent
		ln.unsent = s.next
		p.send(ln, i)
	}
}

func (p *Producer) idempotent() bool { return !p.opts.NonIdempotent }

// send puts a message on the wire, bound to a number.
func (p *Producer) send(ln *lane, i slotRef) {
	s := &p.win.slots[i]
	if s.seq == 0 && p.auto {
		ln.next++
		s.id, s.seq = ln.id, ln.next
	}
	if s.sent {
		p.stats.Resent++
	}
	s.sent, s.onWire = true, true
	ln.onWire++
	if p.wire.n == 0 {
		p.busySince = p.now()
	}
	p.wire.push(i)
	p.conn.out = codec.AppendPub(p.conn.out, &codec.Pub{
		TopicID: p.topic.ID, Partition: s.partition,
		ProducerID: s.id, ProducerSeq: s.seq, Key: s.key, Value: s.value,
	})
	p.conn.flush()
}

// answered deals with the answer to a message that was on the wire.
func (p *Producer) answered(i slotRef, a answer) error {
	s := &p.win.slots[i]
	ln := &p.lanes[s.partition]
	s.onWire = false
	ln.onWire--
	var err error
	switch {
	case a.code == 0:
		err = p.stored(ln, i, a.result)
	case a.code == codec.CodeSeqExpired:
		ln.opened = s.id
		p.finish(i, Receipt{}, p.expired(a))
	case a.code == codec.CodeSeqGap:
		p.gap(ln, i, p.conn.refusal(codec.OpPub, a))
	default:
		p.refused(ln, i, p.conn.refusal(codec.OpPub, a))
	}
	if ln.stalled {
		if ln.onWire == 0 {
			p.wakeKeeper()
		}
	} else {
		p.pump(ln)
	}
	return err
}

func (p *Producer) stored(ln *lane, i slotRef, result []byte) error {
	r, err := codec.DecodePubResult(result)
	if err != nil {
		// Whatever it means, the message stays unanswered: the connection is given up.
		s := &p.win.slots[i]
		s.maybe = true
		return fmt.Errorf("%s sent a malformed PUB result: %w", p.conn.server, err)
	}
	ln.opened = p.win.slots[i].id
	ln.pause.reset()
	p.progress = true
	p.finish(i, Receipt{
		Sequence: r.Sequence, Durability: r.Durability,
		Duplicate: r.ResultFlags&codec.PubDeduped != 0,
	}, nil)
	return nil
}

// expired is the error for SEQ_EXPIRED: the number is old, and whether this
// very message has it is no longer known.
func (p *Producer) expired(a answer) error {
	e := p.conn.refusal(codec.OpPub, a)
	if p.auto {
		return outcome{ErrOutcomeUnknown, e}
	}
	return outcome{ErrRepeat, e}
}

// gap deals with SEQ_GAP: the number is above the last stored one plus 1.
func (p *Producer) gap(ln *lane, i slotRef, e *Error) {
	s := &p.win.slots[i]
	switch {
	case s.orphan:
		p.resolveOrphan(ln, i, e)
	case p.auto && s.seq == 0, ln.head != i:
		// The consequence of a predecessor's failure (P6): it is sent again behind that one.
		s.last = e
		p.stall(ln, false)
	case !p.auto:
		ln.opened = s.id // the broker knows the producer: it misses a number
		p.finish(i, Receipt{}, e)
	case ln.opened != s.id:
		p.giveUp(i, e) // a broker that misses what precedes the first number makes no sense
	default:
		// Everything before it was acknowledged, but the broker has lost it. The
		// messages at hand were not stored under this id and never will be.
		p.log.Warn("the broker has forgotten acknowledged messages; going on with a new producer id",
			"partition", s.partition, "producer_id", uint64(s.id), "producer_seq", uint64(s.seq))
		s.last = e
		p.rebind(ln, i)
		p.stall(ln, false)
	}
}

// refused deals with every other refusal.
func (p *Producer) refused(ln *lane, i slotRef, e *Error) {
	s := &p.win.slots[i]
	s.last = e
	if outcomeOpen(e.Code) {
		s.maybe = true
	}
	switch {
	case s.orphan:
		p.resolveOrphan(ln, i, e)
	case !mayResend(e.Code), s.maybe && !p.idempotent():
		p.giveUp(i, e)
	case s.deadline <= p.now():
		p.giveUp(i, outcome{ErrRetryTimeout, e})
	default:
		p.stall(ln, true)
		if notLeader(e.Code) {
			p.moving = true
			p.d.prefer(leaderHint(e.Message), e.Server)
		}
	}
}

// outcomeOpen reports whether a PUB that was answered with code may have been stored.
func outcomeOpen(code codec.Code) bool {
	switch code {
	case codec.CodeQuorumLost, codec.CodeLeaseExpired, codec.CodeInternal:
		return true
	}
	return false
}

// mayResend reports whether a PUB that was answered with code is sent again.
// INTERNAL is: the node may be about to give up its leadership.
func mayResend(code codec.Code) bool {
	return code == codec.CodeInternal || code>>12 == 0x6 || code.Retriable()
}

// stall stops the lane until nothing of it is on the wire any more; a refusal
// adds a pause, the first one of the stall counts.
func (p *Producer) stall(ln *lane, pause bool) {
	if !ln.stalled {
		ln.stalled = true
		ln.resumeAt = 0
		p.stalled = append(p.stalled, ln)
	}
	if pause && ln.resumeAt == 0 {
		ln.resumeAt = p.now() + ln.pause.next(&p.d.opts)
	}
}

// resume lets the lane go on from its head.
func (p *Producer) resume(ln *lane) {
	ln.stalled = false
	ln.unsent = ln.head
	p.pump(ln)
}

// giveUp reports a message that is not sent again. In a lane with automatic
// numbers its successors must not wait for its number:
//
//   - It was certainly not stored: then nothing behind it was or will be,
//     whatever its outcome. The successors get numbers under a new id.
//   - It may have been stored: then so may every successor that has been sent.
//     Those are given up too, except that one whose answer is still to come waits for it.
func (p *Producer) giveUp(i slotRef, cause error) {
	s := &p.win.slots[i]
	ln := &p.lanes[s.partition]
	maybe, bound, next := s.maybe, s.seq != 0, s.next
	if maybe {
		cause = outcome{ErrOutcomeUnknown, cause}
	}
	p.finish(i, Receipt{}, cause)
	switch {
	case !p.auto || !bound:
		return
	case !maybe:
		p.rebind(ln, next)
	default:
		p.abandonBound(ln, next, cause)
	}
	if ln.head != none {
		p.stall(ln, false)
	}
}

// rebind takes the numbers from the messages from i on, none of which can be
// stored under them, and gives the lane a new producer id for those to come.
func (p *Producer) rebind(ln *lane, i slotRef) {
	ln.id, ln.next = freshID(), 0
	for ; i != none; i = p.win.slots[i].next {
		s := &p.win.slots[i]
		s.id, s.seq, s.maybe, s.orphan = 0, 0, false, false
	}
}

// abandonBound deals with the successors, from i on, of a message that may have been stored.
func (p *Producer) abandonBound(ln *lane, i slotRef, cause error) {
	ln.id, ln.next = freshID(), 0
	for i != none {
		s := &p.win.slots[i]
		next := s.next
		switch {
		case s.seq == 0:
		case s.onWire:
			s.orphan = true
		case s.maybe:
			p.finish(i, Receipt{}, cause)
		default:
			s.id, s.seq = 0, 0
		}
		i = next
	}
}

// resolveOrphan deals with a refusal of an orphan: it was not stored now. If no
// earlier attempt may have been, it gets a new number.
func (p *Producer) resolveOrphan(ln *lane, i slotRef, e *Error) {
	s := &p.win.slots[i]
	s.orphan = false
	switch {
	case s.maybe:
		p.finish(i, Receipt{}, outcome{ErrOutcomeUnknown, e})
	case e.Code != codec.CodeSeqGap && !mayResend(e.Code):
		p.finish(i, Receipt{}, e)
	default:
		s.id, s.seq, s.last = 0, 0, e
	}
	if ln.head != none {
		p.stall(ln, false)
	}
}

func (p *Producer) wakeKeeper() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}
