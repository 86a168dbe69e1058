package codec

import "encoding/binary"

const heartbeatFixed = 2 + 8 + 4 + 4 + 1

// DecodeHeartbeat decodes a HEARTBEAT payload.
func DecodeHeartbeat(p []byte) (Heartbeat, error) {
	if len(p) != heartbeatFixed || p[18] > HeartbeatLeave {
		return Heartbeat{}, ErrMalformed
	}
	return Heartbeat{
		SubscriptionID:  SubscriptionID(binary.BigEndian.Uint16(p)),
		MemberID:        MemberID(binary.BigEndian.Uint64(p[2:])),
		MembershipEpoch: binary.BigEndian.Uint32(p[10:]),
		AssignmentEpoch: binary.BigEndian.Uint32(p[14:]),
		State:           p[18],
	}, nil
}

// AppendHeartbeat appends a whole HEARTBEAT frame.
func AppendHeartbeat(dst []byte, m *Heartbeat) []byte {
	dst, b := frame(dst, OpHeartbeat, heartbeatFixed)
	binary.BigEndian.PutUint16(b, uint16(m.SubscriptionID))
	binary.BigEndian.PutUint64(b[2:], uint64(m.MemberID))
	binary.BigEndian.PutUint32(b[10:], m.MembershipEpoch)
	binary.BigEndian.PutUint32(b[14:], m.AssignmentEpoch)
	b[18] = m.State
	return dst
}
