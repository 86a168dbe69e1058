package codec

import "encoding/binary"

const (
	pubFixed      = 2 + 2 + tailFixed
	pubResultSize = 8 + 1 + 8 + 8 + 1
)

// DecodePub decodes a PUB payload.
func DecodePub(p []byte) (Pub, error) {
	if len(p) < pubFixed {
		return Pub{}, ErrMalformed
	}
	keyLen := int(binary.BigEndian.Uint16(p[22:]))
	value := pubFixed + keyLen
	if keyLen > MaxKeyLen || len(p) < value {
		return Pub{}, ErrMalformed
	}
	valueLen := binary.BigEndian.Uint32(p[value-4:])
	flags := binary.BigEndian.Uint16(p[20:])
	if valueLen > MaxValueLen || len(p)-value < int(valueLen) || (len(p)-value > int(valueLen) && flags == 0) {
		return Pub{}, ErrMalformed
	}
	end := value + int(valueLen)
	return Pub{
		TopicID:     TopicID(binary.BigEndian.Uint16(p)),
		Partition:   Partition(binary.BigEndian.Uint16(p[2:])),
		ProducerID:  ProducerID(binary.BigEndian.Uint64(p[4:])),
		ProducerSeq: ProducerSeq(binary.BigEndian.Uint64(p[12:])),
		Flags:       flags,
		Key:         p[24 : 24+keyLen : 24+keyLen],
		Value:       p[value:end:end],
		Tail:        p[4:end:end],
	}, nil
}

// AppendPub appends a whole PUB frame from m's fields other than Tail.
func AppendPub(dst []byte, m *Pub) []byte {
	mustFit("PUB.key", len(m.Key), MaxKeyLen)
	mustFit("PUB.value", len(m.Value), MaxValueLen)
	dst, b := frame(dst, OpPub, pubFixed+len(m.Key)+len(m.Value))
	binary.BigEndian.PutUint16(b, uint16(m.TopicID))
	binary.BigEndian.PutUint16(b[2:], uint16(m.Partition))
	putTail(b[4:], m.ProducerID, m.ProducerSeq, m.Flags, m.Key, m.Value)
	return dst
}

// DecodePubResult decodes the OK result of a PUB.
func DecodePubResult(p []byte) (PubResult, error) {
	if len(p) != pubResultSize {
		return PubResult{}, ErrMalformed
	}
	return PubResult{
		Sequence:    Sequence(binary.BigEndian.Uint64(p)),
		Durability:  p[8],
		LeaderEpoch: binary.BigEndian.Uint64(p[9:]),
		CommitSeq:   Sequence(binary.BigEndian.Uint64(p[17:])),
		ResultFlags: p[25],
	}, nil
}

// AppendPubResult appends the OK result of a PUB, without a frame.
func AppendPubResult(dst []byte, r *PubResult) []byte {
	dst, b := extend(dst, pubResultSize)
	putPubResult(b, r)
	return dst
}

func putPubResult(b []byte, r *PubResult) {
	_ = b[pubResultSize-1]
	binary.BigEndian.PutUint64(b, uint64(r.Sequence))
	b[8] = r.Durability
	binary.BigEndian.PutUint64(b[9:], r.LeaderEpoch)
	binary.BigEndian.PutUint64(b[17:], uint64(r.CommitSeq))
	b[25] = r.ResultFlags
}

// AppendPubOK appends the whole OK frame that answers a PUB: 36 bytes.
func AppendPubOK(dst []byte, r *PubResult) []byte {
	dst, b := frame(dst, OpOK, okFixed+pubResultSize)
	b[0] = byte(OpPub)
	binary.BigEndian.PutUint32(b[1:], pubResultSize)
	putPubResult(b[okFixed:], r)
	return dst
}
