package codec

import "encoding/binary"

// Tail is the end that PUB, the stored record and MSG have in common:
//
//	producer_id:u64 producer_seq:u64 flags:u16 key_len:u16 key value_len:u32 value
//
// Stored once, the same bytes are logged and delivered (P8).
type Tail struct {
	ProducerID  ProducerID
	ProducerSeq ProducerSeq
	Flags       uint16
	Key         []byte
	Value       []byte
	Len         int // bytes from producer_id to the end of value
}

const (
	tailFixed       = 8 + 8 + 2 + 2 + 4
	tailFlagsOffset = 8 + 8
	originFixed     = 2 + 2 + 8 + 2 + 1 + 2
)

// DecodeTail decodes a Tail at the start of p. It needs no length from
// outside; rest is what follows it. Key and Value are views.
func DecodeTail(p []byte) (t Tail, rest []byte, err error) {
	if len(p) < tailFixed {
		return Tail{}, nil, ErrMalformed
	}
	keyLen := int(binary.BigEndian.Uint16(p[18:]))
	if keyLen > MaxKeyLen || len(p) < tailFixed+keyLen {
		return Tail{}, nil, ErrMalformed
	}
	value := tailFixed + keyLen
	valueLen := binary.BigEndian.Uint32(p[value-4:])
	if valueLen > MaxValueLen || len(p)-value < int(valueLen) {
		return Tail{}, nil, ErrMalformed
	}
	end := value + int(valueLen)
	return Tail{
		ProducerID:  ProducerID(binary.BigEndian.Uint64(p)),
		ProducerSeq: ProducerSeq(binary.BigEndian.Uint64(p[8:])),
		Flags:       binary.BigEndian.Uint16(p[tailFlagsOffset:]),
		Key:         p[20 : 20+keyLen : 20+keyLen],
		Value:       p[value:end:end],
		Len:         end,
	}, p[end:], nil
}

// SetTailFlags overwrites the flags of the Tail that tail begins with. A PUB's
// flags are set to 0 in the stored copy, a dead-lettered one's to
// MsgDeadLetter (P8, V12).
func SetTailFlags(tail []byte, flags uint16) {
	binary.BigEndian.PutUint16(tail[tailFlagsOffset:], flags)
}

// putTail writes a Tail into b, which is exactly as long as it.
func putTail(b []byte, id ProducerID, seq ProducerSeq, flags uint16, key, value []byte) {
	_ = b[tailFixed-1]
	binary.BigEndian.PutUint64(b, uint64(id))
	binary.BigEndian.PutUint64(b[8:], uint64(seq))
	binary.BigEndian.PutUint16(b[tailFlagsOffset:], flags)
	binary.BigEndian.PutUint16(b[18:], uint16(len(key)))
	copy(b[20:], key)
	b = b[20+len(key):]
	binary.BigEndian.PutUint32(b, uint32(len(value)))
	copy(b[4:], value)
}

// DecodeOrigin decodes an Origin at the start of p; rest is what follows it.
// Every reason is accepted.
func DecodeOrigin(p []byte) (o Origin, rest []byte, err error) {
	if len(p) < originFixed {
		return Origin{}, nil, ErrMalformed
	}
	n := int(binary.BigEndian.Uint16(p[15:]))
	end := originFixed + n
	if n > MaxGroupLen || len(p) < end {
		return Origin{}, nil, ErrMalformed
	}
	return Origin{
		TopicID:   TopicID(binary.BigEndian.Uint16(p)),
		Partition: Partition(binary.BigEndian.Uint16(p[2:])),
		Sequence:  Sequence(binary.BigEndian.Uint64(p[4:])),
		Attempts:  binary.BigEndian.Uint16(p[12:]),
		Reason:    p[14],
		Group:     p[originFixed:end:end],
	}, p[end:], nil
}

// AppendOrigin appends an Origin: the tail that a MSG with MsgDeadLetter ends in.
func AppendOrigin(dst []byte, o *Origin) []byte {
	mustFit("MSG.group", len(o.Group), MaxGroupLen)
	dst, b := extend(dst, originFixed+len(o.Group))
	putOrigin(b, o)
	return dst
}

func putOrigin(b []byte, o *Origin) {
	_ = b[originFixed-1]
	binary.BigEndian.PutUint16(b, uint16(o.TopicID))
	binary.BigEndian.PutUint16(b[2:], uint16(o.Partition))
	binary.BigEndian.PutUint64(b[4:], uint64(o.Sequence))
	binary.BigEndian.PutUint16(b[12:], o.Attempts)
	b[14] = o.Reason
	binary.BigEndian.PutUint16(b[15:], uint16(len(o.Group)))
	copy(b[originFixed:], o.Group)
}
