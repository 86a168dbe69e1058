package codec

import "encoding/binary"

const (
	deliveryFixed = 2 + 2 + 2 + 8 + 8 + 8 // what ACK and NACK begin with
	ackFixed      = deliveryFixed + 2
	nackFixed     = deliveryFixed + 1 + 2
)

// DecodeAck decodes an ACK payload.
func DecodeAck(p []byte) (Ack, error) {
	if len(p) < ackFixed {
		return Ack{}, ErrMalformed
	}
	m := Ack{
		SubscriptionID: SubscriptionID(binary.BigEndian.Uint16(p)),
		TopicID:        TopicID(binary.BigEndian.Uint16(p[2:])),
		Partition:      Partition(binary.BigEndian.Uint16(p[4:])),
		Seq:            Sequence(binary.BigEndian.Uint64(p[6:])),
		DeliveryID:     DeliveryID(binary.BigEndian.Uint64(p[14:])),
		OwnershipEpoch: OwnershipEpoch(binary.BigEndian.Uint64(p[22:])),
		Flags:          binary.BigEndian.Uint16(p[30:]),
	}
	if len(p) > ackFixed && m.Flags&^AckProgress == 0 {
		return Ack{}, ErrMalformed
	}
	return m, nil
}

// AppendAck appends a whole ACK frame.
func AppendAck(dst []byte, m *Ack) []byte {
	dst, b := frame(dst, OpAck, ackFixed)
	_ = b[ackFixed-1]
	binary.BigEndian.PutUint16(b, uint16(m.SubscriptionID))
	binary.BigEndian.PutUint16(b[2:], uint16(m.TopicID))
	binary.BigEndian.PutUint16(b[4:], uint16(m.Partition))
	binary.BigEndian.PutUint64(b[6:], uint64(m.Seq))
	binary.BigEndian.PutUint64(b[14:], uint64(m.DeliveryID))
	binary.BigEndian.PutUint64(b[22:], uint64(m.OwnershipEpoch))
	binary.BigEndian.PutUint16(b[30:], m.Flags)
	return dst
}

// DecodeNack decodes a NACK payload. Every reason is accepted: those that are
// not known count as NackRetry (V9). No bit of flags is known in v0.
func DecodeNack(p []byte) (Nack, error) {
	if len(p) < nackFixed {
		return Nack{}, ErrMalformed
	}
	m := Nack{
		SubscriptionID: SubscriptionID(binary.BigEndian.Uint16(p)),
		TopicID:        TopicID(binary.BigEndian.Uint16(p[2:])),
		Partition:      Partition(binary.BigEndian.Uint16(p[4:])),
		Seq:            Sequence(binary.BigEndian.Uint64(p[6:])),
		DeliveryID:     DeliveryID(binary.BigEndian.Uint64(p[14:])),
		OwnershipEpoch: OwnershipEpoch(binary.BigEndian.Uint64(p[22:])),
		Reason:         p[30],
		Flags:          binary.BigEndian.Uint16(p[31:]),
	}
	if len(p) > nackFixed && m.Flags == 0 {
		return Nack{}, ErrMalformed
	}
	return m, nil
}

// AppendNack appends a whole NACK frame.
func AppendNack(dst []byte, m *Nack) []byte {
	dst, b := frame(dst, OpNack, nackFixed)
	_ = b[nackFixed-1]
	binary.BigEndian.PutUint16(b, uint16(m.SubscriptionID))
	binary.BigEndian.PutUint16(b[2:], uint16(m.TopicID))
	binary.BigEndian.PutUint16(b[4:], uint16(m.Partition))
	binary.BigEndian.PutUint64(b[6:], uint64(m.Seq))
	binary.BigEndian.PutUint64(b[14:], uint64(m.DeliveryID))
	binary.BigEndian.PutUint64(b[22:], uint64(m.OwnershipEpoch))
	b[30] = m.Reason
	binary.BigEndian.PutUint16(b[31:], m.Flags)
	return dst
}
