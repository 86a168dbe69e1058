package loop

import (
	"encoding/binary"
	"math"

	"github.com/mortarmq/mortarmq/codec"
)

// behind is what arrived while a PULL was under way: whole frames, one behind
// the other. A request over the limits of S7 is kept as a frame of length 0 with its op,
// which no client can send: it is answered 0x4001 in its turn.
type behind struct {
	buf     []byte // from reactor.room
	at      int    // the first frame not served yet
	n       int    // frames from there on
	refused int    // of these, over the limits
}

const refusedLen = codec.HeaderLen

func (b *behind) bytes() int { return len(b.buf) - b.at }

func (b *behind) clear(r *reactor) {
	if b.buf != nil {
		r.giveBack(b.buf)
	}
	*b = behind{}
}

// waitsBehind reports whether a frame has to wait for the PULL under way, and keeps
// it then. A request ends the PULL's wait; often that answers it at once.
func (s *session) waitsBehind(op codec.Op, whole, payload []byte) bool {
	if s.verdict(op) != 0 {
		return false // ends the session; the last word waits for its turn by itself
	}
	if (op == codec.OpErr || op == codec.OpOK) && codec.CheckPrefix(op, payload, len(payload)) == nil {
		return false // no request
	}
	s.endWait()
	if s.pull == nil {
		return false
	}
	s.keep(op, whole)
	return true
}

// keep copies a frame to be served later.
func (s *session) keep(op codec.Op, whole []byte) {
	r, b := s.r, &s.behind
	var refused [refusedLen]byte
	if unanswered := s.next - s.head + uint64(b.n); unanswered >= uint64(r.limits.Requests) ||
		s.unansweredBytes()+len(whole) > r.limits.PubBytes {
		b.refused++
		if b.refused*errSize > r.limits.Outbound {
			s.slow()
			return
		}
		refused[codec.PrefixLen] = byte(op)
		whole = refused[:]
	}
	buf, ok := r.room(b.buf, len(whole), math.MaxInt)
	if !ok {
		r.shut(s, causeMemory)
		return
	}
	b.buf = append(buf, whole...)
	b.n++
}

// replay serves what waited, until it is all served or another PULL is under way.
func (s *session) replay() {
	b := &s.behind
	s.replaying = true
	for s.pull == nil && b.n > 0 && s.phase <= phaseLast {
		b.n--
		frame := b.buf[b.at:]
		if binary.BigEndian.Uint32(frame) == 0 {
			b.at += refusedLen
			b.refused--
			s.refuse(codec.Op(frame[codec.PrefixLen]), codec.CodeBackpressure, "")
			continue
		}
		op, payload, n, _, _ := codec.Cut(frame) // was cut when it came
		b.at += n
		s.r.op = op
		s.serve(op, payload, nil)
	}
	s.replaying = false
	s.marks.close(s.next)
	if b.n == 0 {
		b.clear(s.r)
	}
}
