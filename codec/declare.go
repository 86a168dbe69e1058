package codec

import "encoding/binary"

const (
	declareFixed      = 2 + 2 + 2
	declareResultSize = 2 + 2 + 1
)

// DecodeDeclare decodes a DECLARE payload. The topic name's own rules are
// CheckTopicName's business.
func DecodeDeclare(p []byte) (Declare, error) {
	if len(p) < declareFixed {
		return Declare{}, ErrMalformed
	}
	n := int(binary.BigEndian.Uint16(p))
	if n > MaxTopicLen || len(p) < declareFixed+n {
		return Declare{}, ErrMalformed
	}
	m := Declare{
		Topic:          p[2 : 2+n : 2+n],
		PartitionCount: binary.BigEndian.Uint16(p[2+n:]),
		Flags:          binary.BigEndian.Uint16(p[4+n:]),
	}
	if len(p) > declareFixed+n && m.Flags&^DeclareDelete == 0 {
		return Declare{}, ErrMalformed
	}
	return m, nil
}

// AppendDeclare appends a whole DECLARE frame. The name may be MaxTopicLen bytes long.
func AppendDeclare(dst []byte, m *Declare) []byte {
	n := len(m.Topic)
	mustFit("DECLARE.topic", n, MaxTopicLen)
	dst, b := frame(dst, OpDeclare, declareFixed+n)
	binary.BigEndian.PutUint16(b, uint16(n))
	copy(b[2:], m.Topic)
	binary.BigEndian.PutUint16(b[2+n:], m.PartitionCount)
	binary.BigEndian.PutUint16(b[4+n:], m.Flags)
	return dst
}

// DecodeDeclareResult decodes the OK result of a DECLARE.
func DecodeDeclareResult(p []byte) (DeclareResult, error) {
	if len(p) != declareResultSize {
		return DeclareResult{}, ErrMalformed
	}
	return DeclareResult{
		TopicID:        TopicID(binary.BigEndian.Uint16(p)),
		PartitionCount: binary.BigEndian.Uint16(p[2:]),
		Created:        p[4],
	}, nil
}

// AppendDeclareResult appends the OK result of a DECLARE, without a frame.
func AppendDeclareResult(dst []byte, r *DeclareResult) []byte {
	dst, b := extend(dst, declareResultSize)
	binary.BigEndian.PutUint16(b, uint16(r.TopicID))
	binary.BigEndian.PutUint16(b[2:], r.PartitionCount)
	b[4] = r.Created
	return dst
}
