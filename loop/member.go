package loop

import (
	"math"

	"github.com/mortarmq/mortarmq/codec"
	"github.com/mortarmq/mortarmq/flow"
)

// heartbeat serves a HEARTBEAT (G8). ACTIVE is answered here, LEAVE by the control plane.
func (s *session) heartbeat(payload []byte) {
	m, err := codec.DecodeHeartbeat(payload)
	if err != nil {
		s.malformed(codec.OpHeartbeat, payload)
		return
	}
	if code, text := s.r.refusal(codec.OpHeartbeat); code != 0 {
		s.refuse(codec.OpHeartbeat, code, text)
		return
	}
	sub := s.sub(m.SubscriptionID)
	switch {
	case sub == nil || sub.Member != m.MemberID:
		s.refuse(codec.OpHeartbeat, codec.CodeUnknownMember, "")
	case !sub.Membership.Contains(m.MembershipEpoch) || !sub.Assignment.Contains(m.AssignmentEpoch):
		s.refuse(codec.OpHeartbeat, codec.CodeStaleGeneration, "")
	case s.overLimit(codec.OpHeartbeat):
	case m.State == codec.HeartbeatLeave:
		s.control(&flow.Control{Op: codec.OpHeartbeat, Leave: sub})
	default:
		s.ok(codec.OpHeartbeat, nil)
	}
}

// credit serves a CREDIT (V5, V6). The loop is the window's only writer after SUB.
func (s *session) credit(payload []byte) {
	m, err := codec.DecodeCredit(payload)
	if err != nil {
		s.malformed(codec.OpCredit, payload)
		return
	}
	if code, text := s.r.refusal(codec.OpCredit); code != 0 {
		s.refuse(codec.OpCredit, code, text)
		return
	}
	sub := s.sub(m.SubscriptionID)
	if sub == nil || !sub.Membership.Contains(m.MembershipEpoch) ||
		(m.OwnershipEpoch != 0 && !owns(sub, m.OwnershipEpoch)) {
		s.refuse(codec.OpCredit, codec.CodeStaleGeneration, "")
		return
	}
	if s.overLimit(codec.OpCredit) {
		return
	}
	c := &sub.Credit
	count, bytes := int64(m.CreditCount), int64(m.CreditBytes)
	if m.Mode == codec.CreditAdd {
		haveCount, haveBytes := c.Window()
		count = min(haveCount+count, math.MaxUint16)
		bytes = min(haveBytes+bytes, math.MaxUint32)
	}
	if c.Blocked.Load() > bytes {
		s.refuse(codec.OpCredit, codec.CodeMessageExceedsCredit, "")
		return
	}
	c.SetWindow(uint16(count), uint32(bytes))
	outCount, outBytes := c.Outstanding()
	s.ok(codec.OpCredit, codec.AppendCreditResult(nil, &codec.CreditResult{
		GrantedCount: uint16(count), GrantedBytes: uint32(bytes),
		OutstandingCount: uint16(min(max(outCount, 0), math.MaxUint16)),
		OutstandingBytes: uint32(min(max(outBytes, 0), math.MaxUint32)),
		CreditEpoch:      c.NextEpoch(),
	}))
}

// owns reports whether epoch is that of a partition the member owns.
func owns(sub *flow.Subscription, epoch codec.OwnershipEpoch) bool {
	for _, o := range ownedBy(sub) {
		if o.Epoch == epoch {
			return true
		}
	}
	return false
}
