package loop

import (
	"time"

	"github.com/mortarmq/mortarmq/codec"
	"golang.org/x/sys/unix"
)

// How a session ends on our side:
//
//	dismiss ─ phaseLast ─ all earlier answers written ─► last word ─ finish ─ phaseFlush
//	─ all of it in the kernel ─► shutdown(SHUT_WR) ─ phaseLinger ─ peer closes, or Linger ─► closed
//
// The half-close lets the peer read the last word: closing a socket with unread
// input resets the connection, and a reset throws away what the peer has not read yet. So
// input is read and dropped until the end. Each step has a deadline.

// lastWord is what a session ends with, and when.
type lastWord struct {
	op       codec.Op
	code     codec.Code // 0: nothing is said
	text     string
	at       time.Duration // not before
	deadline time.Duration // of the phase; closed then whatever is missing
}

// cause is why a connection ended.
type cause uint8

const (
	causePeer        cause = iota // the peer closed, or its socket failed
	causeRefused                  // an ERR that closes
	causeAuthTimeout              // no CONNECT in time
	causeHalfFrame                // S5
	causeKeepalive                // S5
	causeSlow                     // S8: the peer does not read
	causeMemory                   // S8: no memory for what it has sent
	causeDeadline                 // the answers before its last word did not come in time
	causeInternal                 // a panic
	causeDrain                    // the server stops
	causes
)

var causeNames = [causes]string{
	"peer", "refused", "auth_timeout", "half_frame", "keepalive", "slow_consumer", "memory", "deadline", "internal", "drain",
}

// String returns the name used in Stats and logs.
func (c cause) String() string { return causeNames[c] }

// dismiss ends the session with an ERR, in its turn. Nothing that comes later is
// served. op 0 names no request (S4).
func (s *session) dismiss(op codec.Op, code codec.Code, text string) {
	if code != codec.CodeInternal {
		s.r.offence("a connection is refused", s, "code", code, "request_op", op)
	}
	s.lastly(causeRefused, lastWord{op: op, code: code, text: text})
}

// dismissLater is dismiss after a pause.
func (s *session) dismissLater(op codec.Op, code codec.Code, pause time.Duration) {
	s.dismiss(op, code, "")
	s.end.at += pause
	s.end.deadline += pause
}

func (s *session) lastly(why cause, w lastWord) {
	if s.phase >= phaseFlush {
		return
	}
	w.at = s.r.now
	w.deadline = s.r.now + s.r.limits.Closing
	s.phase, s.cause, s.end = phaseLast, why, w
	s.dropPart()
	if s.replaying { // what is behind the frame that ends the session
		s.behind.clear(s.r)
	}
	if s.pull != nil {
		s.endWait()
	}
	s.r.touch(s)
}

// lastWordIfDue says it when everything before it is answered.
func (s *session) lastWordIfDue() {
	if s.head != s.next || s.pull != nil || s.behind.n > 0 {
		return
	}
	if s.r.now < s.end.at {
		s.r.watch(s)
		return
	}
	if s.end.code != 0 {
		s.writeErr(s.end.code, s.end.op, s.end.text)
	}
	s.finish(s.cause)
}

// finish ends everything but the writing of what is said.
func (s *session) finish(why cause) {
	s.phase, s.cause = phaseFlush, why
	s.end.deadline = s.r.now + s.r.limits.Closing
	s.forget()
}

// drop ignores input behind the last request. A peer that goes on sending and
// still does not read gets less patience.
func (s *session) drop() {
	if s.cause == causeSlow {
		s.end.deadline = min(s.end.deadline, s.r.now+s.r.limits.Linger)
	}
}

// hangUp shuts our side once everything is in the kernel.
func (s *session) hangUp() {
	if len(s.out) > 0 || s.gc.OutboundBuffered() > 0 {
		s.r.watch(s)
		return
	}
	if err := unix.Shutdown(s.gc.Fd(), unix.SHUT_WR); err != nil {
		s.r.shut(s, s.cause) // the peer was faster
		return
	}
	s.phase = phaseLinger
	s.end.deadline = s.r.now + s.r.limits.Linger
}

// slow ends a session whose peer does not read (S8). What is not with gnet yet
// is dropped, at a frame's border; the ERR arrives if the peer begins to read. When memory is
// short over all connections, nobody waits for that.
func (s *session) slow() {
	if s.phase >= phaseFlush {
		return
	}
	s.r.offence("a client does not read", s, "backlog", s.backlog)
	s.dropOut()
	s.writeErr(codec.CodeSlowConsumer, 0, "")
	s.finish(causeSlow)
	if s.r.srv.crowded(0) {
		s.r.shut(s, causeSlow)
		return
	}
	out := s.out
	s.out = nil
	_, _ = s.gc.Write(out) // a failure has closed the session
	s.r.bufs.put(out)
	s.r.touch(s)
}

// shut closes the socket at once.
func (r *reactor) shut(s *session, why cause) {
	if s.phase == phaseGone {
		return
	}
	s.cause = why
	if err := s.gc.EventLoop().Close(s.gc); err != nil {
		r.log.Debug("closing a socket", "conn", s.conn.ID, "err", err)
	}
}

// drainSessions ends every session: what was received is served, then each ends
// without a word.
func (r *reactor) drainSessions() {
	r.draining = true
	for i := len(r.sessions) - 1; i >= 0; i-- {
		if s := r.sessions[i]; s.phase <= phaseOpen {
			s.lastly(causeDrain, lastWord{})
		}
	}
	r.checkDrained()
}
