package loop

import (
	"math"
	"time"

	"github.com/mortarmq/mortarmq/codec"
	"github.com/mortarmq/mortarmq/flow"
)

// servePull starts a PULL: its token goes to the shards. Until it comes back, it is a
// barrier: what arrives meanwhile ends its wait and is served after it (V2).
func (s *session) servePull(payload []byte) {
	m, err := codec.DecodePull(payload)
	if err != nil {
		s.malformed(codec.OpPull, payload)
		return
	}
	if code, text := s.r.refusal(codec.OpPull); code != 0 {
		s.refuse(codec.OpPull, code, text)
		return
	}
	sub := s.sub(m.SubscriptionID)
	if code := judgePull(sub, &m); code != 0 {
		s.refuse(codec.OpPull, code, "")
		return
	}
	if s.overLimit(codec.OpPull) {
		return
	}
	srv := s.r.srv
	if srv.pulls.Add(1) > int64(s.r.limits.WaitingPulls) {
		srv.pulls.Add(-1)
		s.refuse(codec.OpPull, codec.CodeMaxWaitingPulls, "")
		return
	}
	p := &flow.Pull{
		Conn: &s.conn, Slot: s.slot(), Sub: sub,
		MaxMsgs: orNoLimit(int(m.MaxMsgs)), MaxBytes: orNoLimit(int(m.MaxBytes)), MinBytes: int(m.MinBytes),
		Wait: min(time.Duration(m.WaitMs)*time.Millisecond, srv.cfg.PollMaxWait),
	}
	s.pull = p
	s.r.submit() // ACKs before it make room for it
	s.r.backend.Pull(p)
	if s.behind.n > 0 || s.phase > phaseOpen {
		s.endWait() // something stands behind it already
	}
}

// judgePull checks what a PULL claims: membership and epochs (G4), and all owned
// partitions if it names epochs at all (V3).
func judgePull(sub *flow.Subscription, m *codec.Pull) codec.Code {
	if sub == nil || sub.Member != m.MemberID ||
		!sub.Membership.Contains(m.MembershipEpoch) || !sub.Assignment.Contains(m.AssignmentEpoch) {
		return codec.CodeStaleGeneration
	}
	n := m.OwnershipEpochs.Len()
	if n == 0 {
		return 0
	}
	owned := ownedBy(sub)
	if n != len(owned) {
		return codec.CodeNotOwner
	}
	for i := range owned {
		if owned[i].Epoch != m.OwnershipEpochs.At(i) {
			return codec.CodeNotOwner
		}
	}
	return 0
}

func ownedBy(sub *flow.Subscription) []flow.Owned {
	if p := sub.Owned.Load(); p != nil {
		return *p
	}
	return nil
}

func orNoLimit(n int) int {
	if n == 0 {
		return math.MaxInt
	}
	return n
}

// endWait ends the wait of the PULL under way. When nobody holds its token it is
// answered here and now with what is there; else its holder does so.
func (s *session) endWait() {
	p := s.pull
	if p.Cancelled() || !p.Cancel() {
		return
	}
	c := p.Completion(p.Verdict)
	s.answered(&c)
}
