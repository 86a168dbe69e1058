package loop

import (
	"time"

	"github.com/mortarmq/mortarmq/codec"
)

// There are two clocks. The tick, at most twice a second, finds what is overdue (S5)
// in one walk over all sessions. A few sessions that wait for something gnet does not report
// (a backlog that drains, the pause before 0x0006) are watched every pollEvery; the poll timer
// runs only while there are some.
const pollEvery = 10 * time.Millisecond

// notDue says that nothing is overdue.
const notDue = causes

// overdue says which timer of the session has run out.
func (s *session) overdue() cause {
	now, l := s.r.now, s.r.limits
	switch {
	case s.phase >= phaseLast:
		if now >= s.end.deadline {
			return causeDeadline
		}
	case s.phase == phaseAuth && now-s.born >= l.AuthTimeout:
		return causeAuthTimeout
	case len(s.part) > 0 && now-s.lastByte >= l.HalfFrame:
		return causeHalfFrame
	case now-s.lastFrame >= l.Keepalive:
		return causeKeepalive
	}
	return notDue
}

// expire acts on an overdue timer.
func (s *session) expire(due cause) {
	switch {
	case due == causeAuthTimeout:
		s.dismiss(0, codec.CodeAuthTimeout, "")
		s.cause = causeAuthTimeout
	case s.phase >= phaseFlush:
		s.r.shut(s, s.cause) // the reason is known
	default:
		s.r.shut(s, due)
	}
}

// scan is the walk. Closing a session moves the last one to its place, so the walk goes backwards.
func (r *reactor) scan() {
	for i := len(r.sessions) - 1; i >= 0; i-- {
		r.check(r.sessions[i])
	}
	if !r.chunkUsed {
		r.dropChunk()
	}
	r.chunkUsed = false
}

func (r *reactor) check(s *session) {
	r.serving, r.op = s, 0
	defer r.guard(s)
	if due := s.overdue(); due != notDue {
		s.expire(due)
		return
	}
	if s.backlog > 0 {
		s.noteBacklog(s.gc.OutboundBuffered())
	}
	s.shrink()
}

// watch has a session flushed again soon.
func (r *reactor) watch(s *session) {
	if s.watched {
		return
	}
	s.watched = true
	r.watched = append(r.watched, s)
	if !r.polling {
		r.polling = true
		r.poll.Reset(pollEvery)
	}
}

// lookAgain flushes the watched sessions; those that still wait are watched again.
func (r *reactor) lookAgain() {
	r.polling = false
	list := r.watched
	r.watched = r.lookedAt[:0]
	for i, s := range list {
		list[i] = nil
		s.watched = false
		r.touch(s)
	}
	r.lookedAt = list[:0]
}
