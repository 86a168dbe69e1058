package loop

import (
	"github.com/mortarmq/mortarmq/codec"
	"github.com/mortarmq/mortarmq/flow"
	"github.com/valyala/bytebufferpool"
)

// write encodes the answer whose turn it is. A code that closes is the last word.
func (s *session) write(c *flow.Completion) {
	switch {
	case s.phase >= phaseFlush:
	case c.Code != 0:
		s.writeErr(c.Code, c.Op, c.Message)
		if c.Code.Closes() {
			s.finish(causeRefused)
		}
	case c.Op == codec.OpPub:
		s.out = codec.AppendPubOK(s.buffer(), &c.Pub)
	case c.Pull != nil:
		if s.writeMessages(c.Pull) {
			s.out = codec.AppendEmptyOK(s.buffer(), codec.OpPull)
		}
	case len(c.Result) == 0:
		s.out = codec.AppendEmptyOK(s.buffer(), c.Op)
	default:
		s.out = codec.AppendOK(s.buffer(), &codec.OK{RequestOp: c.Op, Result: c.Result})
	}
	if c.Pull != nil {
		releaseBody(c.Pull)
	}
}

func (s *session) writeErr(code codec.Code, op codec.Op, text string) {
	s.r.srv.counts.errors.add(code)
	s.out = codec.AppendErrCode(s.buffer(), code, uint8(op), text)
}

// answerSize is what the buffer of a turn's answers is measured by.
const answerSize = 40

// buffer returns out, ready to be appended to.
func (s *session) buffer() []byte {
	if s.out == nil {
		s.out = s.r.bufs.get(min(int(s.next-s.head)*answerSize, largestBuffer))
	}
	return s.out
}

// smallBody is up to where copying the messages of a PULL is cheaper than another write.
const smallBody = 16 << 10

// writeMessages puts the MSG frames of a PULL into the output. Many of them are
// not copied: their buffer becomes the output, behind what was there before. It
// reports whether the session is still there.
func (s *session) writeMessages(p *flow.Pull) bool {
	if p.Body == nil {
		return true
	}
	if len(s.out) > 0 && len(p.Body.B) <= smallBody {
		s.out = append(s.out, p.Body.B...)
		return true
	}
	if len(s.out) > 0 {
		s.send(true)
		if s.phase >= phaseFlush {
			return false
		}
	}
	s.dropOut()
	s.out, s.outBody = p.Body.B, p.Body
	p.Body = nil
	return true
}

// dropOut gives the output buffer back.
func (s *session) dropOut() {
	if s.outBody != nil {
		s.outBody.B = s.out
		bytebufferpool.Put(s.outBody)
	} else if s.out != nil {
		s.r.bufs.put(s.out)
	}
	s.out, s.outBody = nil, nil
}

// heldNotice waits for the answer to its subscription's SUB.
type heldNotice struct {
	slot   uint64
	notice codec.Notice
}

// notice writes a NOTICE, at the earliest behind the answer to the subscription's SUB.
func (s *session) notice(sub *flow.Subscription, n *codec.Notice) {
	s.r.touch(s)
	if sub.Slot >= s.head || len(s.held) > 0 {
		s.held = append(s.held, heldNotice{sub.Slot, *n})
		return
	}
	s.out = codec.AppendNotice(s.buffer(), n)
}

func (s *session) writeHeld() {
	left := s.held[:0]
	for i := range s.held {
		if h := &s.held[i]; h.slot < s.head {
			s.out = codec.AppendNotice(s.buffer(), &h.notice)
		} else {
			left = append(left, *h)
		}
	}
	if s.held = left; len(left) == 0 {
		s.held = nil
	}
}

// flush ends a session's turn: what waited behind a PULL is served, and all that
// was answered is written at once.
func (s *session) flush() {
	s.dirty = false
	if s.phase == phaseGone {
		return
	}
	if s.behind.n > 0 && s.pull == nil {
		s.replay()
	}
	if len(s.held) > 0 {
		s.writeHeld()
	}
	if s.phase == phaseLast {
		s.lastWordIfDue()
	}
	if len(s.out) > 0 {
		s.send(false)
	}
	if s.phase == phaseFlush {
		s.hangUp()
	}
}

// When a peer does not keep up, gnet keeps each write apart and walks over all
// of them for each piece it sends. So behind a backlog of manyPieces, output is gathered into
// pieces of at least pieceSize.
const (
	manyPieces = 64
	pieceSize  = 32 << 10
)

// gnet keeps a write behind a backlog in a buffer of the next power of two: larger
// writes are cut, or they could cost twice their size.
const exactPiece = 64 << 10

// send writes the output, unless it is gathered behind a backlog; now says that
// it may not be.
func (s *session) send(now bool) {
	backlog := s.gc.OutboundBuffered()
	s.noteBacklog(backlog)
	if backlog == 0 {
		s.pieces = 0
	} else if s.tooSlow(backlog) {
		s.slow()
		return
	} else if s.pieces++; s.pieces > manyPieces && len(s.out) < pieceSize && !now {
		s.r.watch(s)
		return
	}
	s.r.turn.bytesOut += uint64(len(s.out))
	// A failed write has closed the session when it returns; OnClose has its error.
	out, body := s.out, s.outBody
	s.out, s.outBody = nil, nil
	rest := out
	for backlog > 0 && len(rest) > exactPiece { // see exactPiece
		_, _ = s.gc.Write(rest[:exactPiece])
		rest = rest[exactPiece:]
	}
	_, _ = s.gc.Write(rest)
	if body != nil {
		body.B = out
		bytebufferpool.Put(body)
	} else {
		s.r.bufs.put(out)
	}
	if s.phase < phaseGone {
		s.noteBacklog(s.gc.OutboundBuffered())
	}
}

// tooSlow applies S8 to a peer that has left a backlog: its own bound, and the one over all
// connections for a peer that takes nothing.
func (s *session) tooSlow(backlog int) bool {
	l := s.r.limits
	if backlog+len(s.out) > l.Outbound {
		return true
	}
	srv := s.r.srv
	return srv.crowded(len(s.out)) &&
		int64(backlog)*srv.backlogged.Load() > l.Backlog && // more than a share
		s.r.now-s.moved >= l.Stall
}

// noteBacklog keeps the account of what waits to be written, and of when the peer took some.
func (s *session) noteBacklog(n int) {
	if n < s.backlog || n == 0 {
		s.moved = s.r.now
	}
	if n == s.backlog {
		return
	}
	srv := s.r.srv
	if s.backlog == 0 {
		srv.backlogged.Add(1)
	} else if n == 0 {
		srv.backlogged.Add(-1)
	}
	srv.backlog.Add(int64(n - s.backlog))
	s.backlog = n
}
