package codec

import "encoding/binary"

const (
	subFixed      = 2 + 2 + 2 + 1 + 2 + 4 + 2
	subResultSize = 2 + 8 + 4 + 4
)

// DecodeSub decodes a SUB payload. The group name's own rules are
// CheckGroupName's business.
func DecodeSub(p []byte) (Sub, error) {
	if len(p) < subFixed {
		return Sub{}, ErrMalformed
	}
	n := int(binary.BigEndian.Uint16(p))
	if n > MaxGroupLen || len(p) < subFixed+n {
		return Sub{}, ErrMalformed
	}
	b := p[2+n:]
	m := Sub{
		Group:       p[2 : 2+n : 2+n],
		TopicID:     TopicID(binary.BigEndian.Uint16(b)),
		Partition:   Partition(binary.BigEndian.Uint16(b[2:])),
		StartPolicy: b[4],
		CreditCount: binary.BigEndian.Uint16(b[5:]),
		CreditBytes: binary.BigEndian.Uint32(b[7:]),
		Flags:       binary.BigEndian.Uint16(b[11:]),
	}
	if m.Partition != AnyPartition || m.StartPolicy > StartLatest ||
		(len(p) > subFixed+n && m.Flags&^SubNoCreate == 0) {
		return Sub{}, ErrMalformed
	}
	return m, nil
}

// AppendSub appends a whole SUB frame. The group name may be MaxGroupLen bytes long.
func AppendSub(dst []byte, m *Sub) []byte {
	n := len(m.Group)
	mustFit("SUB.group", n, MaxGroupLen)
	dst, b := frame(dst, OpSub, subFixed+n)
	binary.BigEndian.PutUint16(b, uint16(n))
	copy(b[2:], m.Group)
	b = b[2+n:]
	binary.BigEndian.PutUint16(b, uint16(m.TopicID))
	binary.BigEndian.PutUint16(b[2:], uint16(m.Partition))
	b[4] = m.StartPolicy
	binary.BigEndian.PutUint16(b[5:], m.CreditCount)
	binary.BigEndian.PutUint32(b[7:], m.CreditBytes)
	binary.BigEndian.PutUint16(b[11:], m.Flags)
	return dst
}

// DecodeSubResult decodes the OK result of a SUB.
func DecodeSubResult(p []byte) (SubResult, error) {
	if len(p) != subResultSize {
		return SubResult{}, ErrMalformed
	}
	return SubResult{
		SubscriptionID:  SubscriptionID(binary.BigEndian.Uint16(p)),
		MemberID:        MemberID(binary.BigEndian.Uint64(p[2:])),
		MembershipEpoch: binary.BigEndian.Uint32(p[10:]),
		AssignmentEpoch: binary.BigEndian.Uint32(p[14:]),
	}, nil
}

// AppendSubResult appends the OK result of a SUB, without a frame.
func AppendSubResult(dst []byte, r *SubResult) []byte {
	dst, b := extend(dst, subResultSize)
	binary.BigEndian.PutUint16(b, uint16(r.SubscriptionID))
	binary.BigEndian.PutUint64(b[2:], uint64(r.MemberID))
	binary.BigEndian.PutUint32(b[10:], r.MembershipEpoch)
	binary.BigEndian.PutUint32(b[14:], r.AssignmentEpoch)
	return dst
}
