package loop

import (
	"crypto/rand"
	"encoding/hex"
	"runtime/debug"

	"github.com/mortarmq/mortarmq/codec"
)

// guard is deferred around everything that is done for one session: a panic ends that session
// alone. The reactor's own state is small and changed in single steps, so the others go on.
func (r *reactor) guard(s *session) {
	if p := recover(); p != nil {
		r.panicked(s, p)
	}
}

// panicked ends a session over a bug of ours: 0x000A with an id that is also in the
// log, in its turn. A second panic closes it without a word.
func (r *reactor) panicked(s *session, p any) {
	id := diagnosticID()
	r.srv.counts.panics.Add(1)
	log := r.log.With("id", id, "op", r.op, "panic", p, "stack", string(debug.Stack()))
	if s == nil {
		log.Error("a panic over an answer without a connection; it is dropped")
		return
	}
	log.Error("a panic while a connection was served; only this connection is closed", "conn", s.conn.ID, "remote", s.conn.Remote)
	s.replaying = false
	switch {
	case s.phase == phaseGone:
	case s.phase >= phaseLast:
		r.shut(s, causeInternal)
	default:
		s.behind.clear(r)
		s.lastly(causeInternal, lastWord{op: r.op, code: codec.CodeInternal,
			text: "A bug in the broker ended this connection; give the operator the diagnostic id " + id + ", which is also in the log."})
	}
}

// diagnosticID is short enough to be read out, and long enough to be found in a log.
func diagnosticID() string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return hex.EncodeToString(b[:])
}
