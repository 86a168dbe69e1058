package loop

import (
	"github.com/mortarmq/mortarmq/codec"
	"github.com/mortarmq/mortarmq/flow"
)

// read serves the bytes of one read; a panic ends this session only.
func (r *reactor) read(s *session, in []byte) {
	r.serving, r.op = s, 0
	defer r.guard(s)
	r.touch(s)
	if due := s.overdue(); due != notDue {
		s.expire(due)
		return
	}
	s.lastByte = r.now
	s.marks.settle(s.head)
	s.feed(in)
	s.marks.close(s.next)
}

// feed cuts frames and serves them where they lie. The rest of the last one is
// copied: the bytes are gone after this call.
func (s *session) feed(in []byte) {
	if len(s.part) > 0 {
		in = s.resume(in)
	}
	for len(in) > 0 && s.phase <= phaseOpen {
		op, payload, n, need, err := codec.Cut(in)
		if err != nil {
			s.uncut(op, err)
			return
		}
		if n == 0 {
			if s.mayFinish(op, in, need) {
				s.gather(in, len(in)+need)
			}
			return
		}
		s.frame(op, in[:n], payload, nil)
		in = in[n:]
	}
}

// resume goes on with the unfinished frame and returns the bytes behind it.
func (s *session) resume(in []byte) []byte {
	for len(in) > 0 {
		_, _, _, need, _ := codec.Cut(s.part) // was unfinished when it was last looked at
		n := min(need, len(in))
		if !s.gather(in[:n], len(s.part)+need) {
			return nil
		}
		in = in[n:]
		op, payload, n, need, err := codec.Cut(s.part)
		switch {
		case err != nil:
			s.uncut(op, err)
			return nil
		case n > 0:
			s.gathered(op, payload)
			return in
		case !s.mayFinish(op, s.part, need):
			return nil
		}
	}
	return nil
}

// gather adds bytes to the unfinished frame. whole is the frame's length as far
// as it is known: the buffer grows as bytes arrive, towards it and never beyond.
func (s *session) gather(in []byte, whole int) bool {
	buf, ok := s.r.room(s.part, len(in), whole)
	if !ok {
		s.r.shut(s, causeMemory)
		return false
	}
	s.part = append(buf, in...)
	return true
}

// gathered serves the frame in part. A large one becomes a chunk as it is.
func (s *session) gathered(op codec.Op, payload []byte) {
	whole := s.part
	s.part = nil
	if len(whole) <= chunkSize {
		s.frame(op, whole, payload, nil)
		s.r.giveBack(whole)
		return
	}
	s.r.srv.unfinished.Add(-int64(cap(whole)))
	own := wrap(whole)
	s.frame(op, whole, payload, own)
	own.Release(1)
}

func (s *session) dropPart() {
	if s.part != nil {
		s.r.giveBack(s.part)
		s.part = nil
	}
}

// uncut ends a session whose next bytes are no frame. A bad length answers no
// request and names none (S4).
func (s *session) uncut(op codec.Op, err error) {
	if err == codec.ErrBadLength {
		op = 0
	}
	s.dismiss(op, errCode(err), "")
}

// mayFinish reports whether it makes sense to wait for the rest of a frame; if
// not, the session is ended on this byte (S1).
func (s *session) mayFinish(op codec.Op, buf []byte, need int) bool {
	if len(buf) < codec.HeaderLen {
		return true
	}
	if code := s.verdict(op); code != 0 {
		s.dismiss(op, code, "")
		return false
	}
	prefix, total := buf[codec.HeaderLen:], len(buf)+need-codec.HeaderLen
	if err := codec.CheckPrefix(op, prefix, total); err != nil {
		s.dismiss(op, errCode(err), codec.Explain(op, prefix, total))
		return false
	}
	if op == codec.OpSub && len(prefix) >= 2 && prefix[0] == 0 && prefix[1] == 0 {
		s.dismiss(op, codec.CodeMalformedPayload, emptyGroup)
		return false
	}
	return true
}

// emptyGroup is decided on group_len, before the rest of the SUB is there (G1).
const emptyGroup = "SUB.group is empty; name a group with 1 to 255 bytes."

// frame takes one whole frame. own is the chunk that it lies in, or nil when it
// has to be copied to outlive this call.
func (s *session) frame(op codec.Op, whole, payload []byte, own *flow.Chunk) {
	r := s.r
	r.op = op
	r.turn.frames[op]++
	s.lastFrame = r.now
	if s.pull != nil && (s.waitsBehind(op, whole, payload) || s.phase > phaseOpen) {
		return
	}
	s.serve(op, payload, own)
}

// errCode is the wire code of an error of package codec.
func errCode(err error) codec.Code { return err.(*codec.Error).Code }
