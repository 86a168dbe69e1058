package codec

import "encoding/binary"

const (
	noticeFixed     = 8 + 1 + 2 + 4 + 4 + 8 + 2 + 2 + 8
	controlAckFixed = 8 + 1 + 2 + 4 + 4 + 8 + 1
)

// DecodeNotice decodes a NOTICE payload.
func DecodeNotice(p []byte) (Notice, error) {
	if len(p) != noticeFixed || p[8] > NoticeRevoke {
		return Notice{}, ErrMalformed
	}
	return Notice{
		NoticeID:        NoticeID(binary.BigEndian.Uint64(p)),
		Kind:            p[8],
		GroupID:         GroupID(binary.BigEndian.Uint16(p[9:])),
		MembershipEpoch: binary.BigEndian.Uint32(p[11:]),
		AssignmentEpoch: binary.BigEndian.Uint32(p[15:]),
		OwnershipEpoch:  OwnershipEpoch(binary.BigEndian.Uint64(p[19:])),
		TopicID:         TopicID(binary.BigEndian.Uint16(p[27:])),
		Partition:       Partition(binary.BigEndian.Uint16(p[29:])),
		MemberID:        MemberID(binary.BigEndian.Uint64(p[31:])),
	}, nil
}

// AppendNotice appends a whole NOTICE frame.
func AppendNotice(dst []byte, m *Notice) []byte {
	dst, b := frame(dst, OpNotice, noticeFixed)
	binary.BigEndian.PutUint64(b, uint64(m.NoticeID))
	b[8] = m.Kind
	binary.BigEndian.PutUint16(b[9:], uint16(m.GroupID))
	binary.BigEndian.PutUint32(b[11:], m.MembershipEpoch)
	binary.BigEndian.PutUint32(b[15:], m.AssignmentEpoch)
	binary.BigEndian.PutUint64(b[19:], uint64(m.OwnershipEpoch))
	binary.BigEndian.PutUint16(b[27:], uint16(m.TopicID))
	binary.BigEndian.PutUint16(b[29:], uint16(m.Partition))
	binary.BigEndian.PutUint64(b[31:], uint64(m.MemberID))
	return dst
}

// DecodeControlAck decodes a CONTROL_ACK payload.
func DecodeControlAck(p []byte) (ControlAck, error) {
	if len(p) != controlAckFixed || p[8] > NoticeRevoke || p[27] > ControlError {
		return ControlAck{}, ErrMalformed
	}
	return ControlAck{
		NoticeID:        NoticeID(binary.BigEndian.Uint64(p)),
		NoticeKind:      p[8],
		GroupID:         GroupID(binary.BigEndian.Uint16(p[9:])),
		MembershipEpoch: binary.BigEndian.Uint32(p[11:]),
		AssignmentEpoch: binary.BigEndian.Uint32(p[15:]),
		OwnershipEpoch:  OwnershipEpoch(binary.BigEndian.Uint64(p[19:])),
		Result:          p[27],
	}, nil
}

// AppendControlAck appends a whole CONTROL_ACK frame.
func AppendControlAck(dst []byte, m *ControlAck) []byte {
	dst, b := frame(dst, OpControlAck, controlAckFixed)
	binary.BigEndian.PutUint64(b, uint64(m.NoticeID))
	b[8] = m.NoticeKind
	binary.BigEndian.PutUint16(b[9:], uint16(m.GroupID))
	binary.BigEndian.PutUint32(b[11:], m.MembershipEpoch)
	binary.BigEndian.PutUint32(b[15:], m.AssignmentEpoch)
	binary.BigEndian.PutUint64(b[19:], uint64(m.OwnershipEpoch))
	b[27] = m.Result
	return dst
}
