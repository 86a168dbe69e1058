package shard

import (
	"slices"
	"time"

	"github.com/mortarmq/mortarmq/codec"
	"github.com/mortarmq/mortarmq/flow"
)

// delivery finds what an ACK or NACK names: the ledger and the slot of the
// latest delivery. The code says why there is none.
func (c *Core) delivery(r *flow.Request) (*ledger, *slot, codec.Code) {
	p := c.partition(r.Topic, r.Partition)
	if p == nil {
		return nil, nil, codec.CodeStaleOwner
	}
	l := p.ledger(r.Sub.Group)
	if l == nil || l.owner == nil || l.owner.sub != r.Sub || l.epoch != r.Epoch {
		return nil, nil, codec.CodeStaleOwner
	}
	if !l.known(r.Seq) {
		return nil, nil, codec.CodeUnknownDelivery
	}
	s := l.slot(r.Seq)
	if s.delivery != r.Delivery || r.Delivery == 0 || s.state > slotWaiting {
		return nil, nil, codec.CodeUnknownDelivery
	}
	return l, s, 0
}

// ack settles a delivery, or with PROGRESS keeps it leased (V7). A slot that
// waits here had its lease run out: its latest delivery still counts.
func (c *Core) ack(r *flow.Request) {
	l, s, code := c.delivery(r)
	switch {
	case code != 0:
	case r.Flags&codec.AckProgress != 0:
		c.progress(l, r.Seq, s)
	default:
		c.settle(l, r.Seq, s)
		l.acked++
	}
	c.reply(flow.Completion{Conn: r.Conn, Slot: r.Slot, Op: codec.OpAck, Code: code})
}

// progress restarts the lease. After it ran out the delivery is in flight again;
// the attempt that failed with it stays failed, attempts never fall.
func (c *Core) progress(l *ledger, seq codec.Sequence, s *slot) {
	s.deadline = c.now + c.cfg.DeliveryLease
	if s.state == slotWaiting {
		s.state = slotInFlight
		l.inFlight++
		l.owner.sub.Credit.Take(int(s.size))
		l.leases.push(lease{seq, s.delivery, s.deadline})
		c.note(l, mark{seq, markInFlight, s.attempts, s.reason})
		c.watch(l)
	}
}

// nack gives a delivery back (V9).
func (c *Core) nack(r *flow.Request) {
	l, s, code := c.delivery(r)
	if code == 0 {
		code = c.giveBack(l, r.Seq, s, r.Reason)
	}
	c.reply(flow.Completion{Conn: r.Conn, Slot: r.Slot, Op: codec.OpNack, Code: code})
}

func (c *Core) giveBack(l *ledger, seq codec.Sequence, s *slot, reason uint8) codec.Code {
	if s.state == slotWaiting {
		// The lease ran out before: that failed the attempt, and a NACK fails
		// nothing twice (V7). REJECT still means: not again.
		if reason == codec.NackReject {
			return c.exhaust(l, seq, s, codec.DeadReject)
		}
		return 0
	}
	l.owner.sub.Credit.Return(int(s.size))
	l.inFlight--
	switch reason {
	case codec.NackReject:
		s.attempts++
		return c.exhaust(l, seq, s, codec.DeadReject)
	case codec.NackRelease:
		c.handBack(l, seq, s, releaseDelay)
		return 0
	}
	return c.failSlot(l, seq, s, codec.DeadNack)
}

// settle ends a delivery for good.
func (c *Core) settle(l *ledger, seq codec.Sequence, s *slot) {
	if s.state == slotInFlight {
		l.inFlight--
		if l.owner != nil {
			l.owner.sub.Credit.Return(int(s.size))
		}
	}
	s.state = slotSettled
	s.delivery = 0
	l.settled = append(l.settled, seq)
	l.raiseFloor()
	c.markLedger(l)
}

// expire fails every delivery whose lease has run out.
func (c *Core) expire(l *ledger) {
	for {
		deadline, ok := l.leases.first(l)
		if !ok || deadline > c.now {
			return
		}
		e := l.leases.q[l.leases.head]
		l.leases.pop()
		s := l.slot(e.seq)
		if l.owner != nil {
			l.owner.sub.Credit.Return(int(s.size))
		}
		l.inFlight--
		last := s.delivery
		c.failSlot(l, e.seq, s, codec.DeadLease)
		if s.state == slotWaiting {
			s.delivery = last // its ACK still counts (V7)
		}
	}
}

// failSlot counts a failed attempt: the message waits for its backoff, or has
// used up its attempts. Credit was returned by the caller.
func (c *Core) failSlot(l *ledger, seq codec.Sequence, s *slot, reason uint8) codec.Code {
	s.attempts++
	if s.attempts >= c.cfg.DeliveryMaxAttempts {
		return c.exhaust(l, seq, s, reason)
	}
	c.wait(l, seq, s, reason, c.backoff(s.attempts))
	return 0
}

// handBack makes a message available again without failing its attempt.
func (c *Core) handBack(l *ledger, seq codec.Sequence, s *slot, after time.Duration) {
	c.wait(l, seq, s, s.reason, after)
}

func (c *Core) wait(l *ledger, seq codec.Sequence, s *slot, reason uint8, after time.Duration) {
	s.state = slotWaiting
	s.delivery = 0
	s.reason = reason
	s.batch = c.sealed + 1
	l.retryAt(seq, c.now+after)
	c.note(l, mark{seq, markWaiting, s.attempts, reason})
	c.watch(l)
}

// note records a mark with the next entry.
func (c *Core) note(l *ledger, m mark) {
	l.marks = append(l.marks, m)
	c.markLedger(l)
}

// exhaust ends a message's life in its group: it moves to the twin (V11), or, a
// twin's own message, is quarantined (V13).
func (c *Core) exhaust(l *ledger, seq codec.Sequence, s *slot, reason uint8) codec.Code {
	s.reason = reason
	s.delivery = 0
	if l.part.twin {
		s.state = slotSettled
		l.settled = append(l.settled, seq)
		l.quarantined++
		c.note(l, mark{seq, markQuarantined, s.attempts, reason})
		l.raiseFloor()
		return codec.CodeDLQPathOverflow
	}
	if twin := c.partition(l.part.topic.Twin(), l.part.id); twin != nil && twin.readOnly != nil {
		c.wait(l, seq, s, reason, c.cfg.RetryBackoffMax)
		return codec.CodeDLQUnavailable
	}
	s.state = slotMoving
	c.batch.deads = append(c.batch.deads, deadMove{ledger: l, seq: seq})
	return 0
}

// backoff is the wait before the attempt after n failed ones (V10). The jitter is drawn once a turn: what fails
// together comes back together, in sequence order.
func (c *Core) backoff(n uint16) time.Duration {
	d := c.cfg.RetryBackoffMax
	if shift := int(n) - 1; shift < 32 {
		d = min(d, c.cfg.RetryBackoffBase<<max(shift, 0))
	}
	if d <= 0 {
		return 0
	}
	return d + time.Duration(c.jitter*float64(d)/5)
}

// spans turns settled sequences into ascending ranges above floor. It sorts its
// argument in place: acknowledgements mostly come in order.
func spans(settled []codec.Sequence, floor codec.Sequence) []span {
	if len(settled) == 0 {
		return nil
	}
	slices.Sort(settled)
	var out []span
	for _, seq := range settled {
		switch n := len(out); {
		case seq <= floor:
		case n > 0 && out[n-1].to+1 == seq:
			out[n-1].to = seq
		default:
			out = append(out, span{seq, seq})
		}
	}
	return out
}
