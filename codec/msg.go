package codec

import "encoding/binary"

// MsgHeaderLen is what stands in front of the stored bytes in a MSG frame:
// prefix, op and the fields from subscription_id to ownership_epoch.
const MsgHeaderLen = HeaderLen + msgHead

const (
	msgHead  = 2 + 2 + 2 + 8 + 8 + 2 + 8
	msgFixed = msgHead + tailFixed
)

// DecodeMsg decodes a MSG payload. With MsgDeadLetter the Origin must be there.
func DecodeMsg(p []byte) (Msg, error) {
	if len(p) < msgFixed {
		return Msg{}, ErrMalformed
	}
	t, rest, err := DecodeTail(p[msgHead:])
	if err != nil {
		return Msg{}, ErrMalformed
	}
	m := Msg{
		SubscriptionID: SubscriptionID(binary.BigEndian.Uint16(p)),
		TopicID:        TopicID(binary.BigEndian.Uint16(p[2:])),
		Partition:      Partition(binary.BigEndian.Uint16(p[4:])),
		Sequence:       Sequence(binary.BigEndian.Uint64(p[6:])),
		DeliveryID:     DeliveryID(binary.BigEndian.Uint64(p[14:])),
		Attempt:        binary.BigEndian.Uint16(p[22:]),
		OwnershipEpoch: OwnershipEpoch(binary.BigEndian.Uint64(p[24:])),
		ProducerID:     t.ProducerID,
		ProducerSeq:    t.ProducerSeq,
		Flags:          t.Flags,
		Key:            t.Key,
		Value:          t.Value,
	}
	if m.Flags&MsgDeadLetter != 0 {
		if m.Origin, rest, err = DecodeOrigin(rest); err != nil {
			return Msg{}, ErrMalformed
		}
	}
	if len(rest) > 0 && m.Flags&^MsgDeadLetter == 0 {
		return Msg{}, ErrMalformed
	}
	return m, nil
}

// AppendMsg appends a whole MSG frame. The Origin is part of it if, and only
// if, m.Flags has MsgDeadLetter.
func AppendMsg(dst []byte, m *Msg) []byte {
	mustFit("MSG.key", len(m.Key), MaxKeyLen)
	mustFit("MSG.value", len(m.Value), MaxValueLen)
	mustFit("MSG.group", len(m.Origin.Group), MaxGroupLen)
	tail := tailFixed + len(m.Key) + len(m.Value)
	size := msgHead + tail
	if m.Flags&MsgDeadLetter != 0 {
		size += originFixed + len(m.Origin.Group)
	}
	dst, b := frame(dst, OpMsg, size)
	putMsgHead(b, m)
	putTail(b[msgHead:], m.ProducerID, m.ProducerSeq, m.Flags, m.Key, m.Value)
	if m.Flags&MsgDeadLetter != 0 {
		putOrigin(b[msgHead+tail:], &m.Origin)
	}
	return dst
}

// AppendMsgHeader appends the MsgHeaderLen bytes that go in front of a stored
// record of tailLen bytes (producer_id to value, and the Origin in a twin's).
// It uses m's fields up to OwnershipEpoch; the rest is in the record.
func AppendMsgHeader(dst []byte, m *Msg, tailLen int) []byte {
	mustFit("the stored record of MSG", tailLen, MaxFrameLen-1-msgHead)
	dst, b := extend(dst, MsgHeaderLen)
	_ = b[MsgHeaderLen-1]
	binary.BigEndian.PutUint32(b, uint32(1+msgHead+tailLen))
	b[PrefixLen] = byte(OpMsg)
	putMsgHead(b[HeaderLen:], m)
	return dst
}

func putMsgHead(b []byte, m *Msg) {
	_ = b[msgHead-1]
	binary.BigEndian.PutUint16(b, uint16(m.SubscriptionID))
	binary.BigEndian.PutUint16(b[2:], uint16(m.TopicID))
	binary.BigEndian.PutUint16(b[4:], uint16(m.Partition))
	binary.BigEndian.PutUint64(b[6:], uint64(m.Sequence))
	binary.BigEndian.PutUint64(b[14:], uint64(m.DeliveryID))
	binary.BigEndian.PutUint16(b[22:], m.Attempt)
	binary.BigEndian.PutUint64(b[24:], uint64(m.OwnershipEpoch))
}
