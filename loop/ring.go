package loop

import (
	"math/bits"

	"github.com/mortarmq/mortarmq/codec"
	"github.com/mortarmq/mortarmq/flow"
)

// Answers leave in request order (S6). One that arrives in its turn is encoded at
// once and needs no memory. Three places hold the others, by slot:
//
//	head                head+Limits.Requests                 next
//	├── ring: answers ───────┼── late: refusals, in order ─────┤
//
// The ring is a power of two that grows as far as it has to. Beyond the limit
// of unanswered requests (S7) everything is refused, so late holds refusals only; each
// moves into the ring when head comes near. What late may owe is bounded by S8.

// answer waits in the ring for its turn.
type answer struct {
	ready bool
	op    codec.Op
	code  codec.Code
	text  string
	pub   codec.PubResult
	rest  *flow.Completion // of an answer with a result or a PULL: all of it
}

// lateAnswer is the refusal of a request over the limit.
type lateAnswer struct {
	op   codec.Op
	code codec.Code
	text string
}

// errSize is an upper estimate of an ERR frame with a standing text.
const errSize = 256

// answered takes an answer that comes from a shard or the control plane.
func (s *session) answered(c *flow.Completion) {
	r := s.r
	if c.Pull != nil {
		r.srv.pulls.Add(-1)
		if s.pull == c.Pull {
			s.pull = nil
		}
	}
	if s.phase >= phaseFlush {
		if c.Pull != nil {
			releaseBody(c.Pull)
		}
		return
	}
	if c.Slot-s.head >= s.next-s.head {
		panic("loop: an answer to a request that was answered before, or never came")
	}
	if c.Subscribed != nil {
		s.subscribed(c.Subscribed)
	}
	if c.Unsubscribed != nil {
		s.unsubscribed(c.Unsubscribed)
	}
	s.put(c)
}

// put encodes an answer if it is its turn, and those that waited for it; else it waits.
func (s *session) put(c *flow.Completion) {
	if s.phase >= phaseFlush {
		return
	}
	s.r.touch(s)
	if c.Slot != s.head {
		s.park(c)
		return
	}
	s.write(c)
	s.advance()
	for s.parked > 0 {
		a := &s.ring[s.head&uint64(len(s.ring)-1)]
		if !a.ready {
			return
		}
		parked := *a
		*a = answer{}
		s.parked--
		if parked.rest != nil {
			s.write(parked.rest)
		} else {
			s.write(&flow.Completion{Op: parked.op, Code: parked.code, Message: parked.text, Pub: parked.pub})
		}
		s.advance()
	}
}

// advance moves on to the next slot; the refusal that comes within the ring's reach moves there.
func (s *session) advance() {
	s.head++
	if len(s.late) > 0 {
		l := s.late[0]
		s.late = s.late[1:]
		s.place(s.head+uint64(s.r.limits.Requests)-1, answer{op: l.op, code: l.code, text: l.text})
	}
}

func (s *session) park(c *flow.Completion) {
	if c.Slot-s.head >= uint64(s.r.limits.Requests) {
		s.late = append(s.late, lateAnswer{c.Op, c.Code, c.Message})
		if len(s.late)*errSize > s.r.limits.Outbound {
			s.slow()
		}
		return
	}
	a := answer{op: c.Op, code: c.Code, text: c.Message, pub: c.Pub}
	if c.Result != nil || c.Pull != nil {
		whole := *c
		a.rest = &whole
	}
	s.place(c.Slot, a)
}

func (s *session) place(slot uint64, a answer) {
	if slot-s.head >= uint64(len(s.ring)) {
		s.growRing(slot)
	}
	at := &s.ring[slot&uint64(len(s.ring)-1)]
	if at.ready {
		panic("loop: a second answer to one request")
	}
	a.ready = true
	*at = a
	s.parked++
}

// smallestRing keeps the first growths few: 8 answers are half a KiB.
const smallestRing = 8

// growRing makes the ring reach slot. Slots keep their place modulo the new length.
func (s *session) growRing(slot uint64) {
	size := max(uint64(1)<<bits.Len64(slot-s.head), smallestRing)
	old := s.ring
	s.ring = make([]answer, size)
	for i := range uint64(len(old)) {
		if a := &old[(s.head+i)&uint64(len(old)-1)]; a.ready {
			s.ring[(s.head+i)&(size-1)] = *a
		}
	}
}
