package codec

import (
	"encoding/binary"
	"fmt"
)

// The largest payloads fit into a frame. The last line says that a PUB of any
// allowed size can also be dead-lettered: its MSG has an Origin more.
const (
	_ = uint(MaxFrameLen - (1 + okFixed + MaxOKResult))
	_ = uint(MaxFrameLen - (1 + pullFixed + 0xFFFF*epochSize))
	_ = uint(MaxFrameLen - (1 + msgFixed + MaxKeyLen + MaxValueLen + originFixed + MaxGroupLen))
)

// Cut looks at the first frame of buf.
//
//	whole frame   op, payload (a view into buf), n = its bytes with the prefix
//	unfinished    n = 0, need = missing bytes as far as is known: 4-len(buf)
//	              while the prefix is short, else 4+length-len(buf);
//	              op is set once its byte is there
//	wrong         ErrBadLength, as soon as there are 4 bytes
//	              ErrUnknownOp, as soon as there are 5; op holds the byte
//
// The payload's length is at most MaxFrameLen-1; nothing in it was looked at.
func Cut(buf []byte) (op Op, payload []byte, n, need int, err error) {
	if len(buf) < PrefixLen {
		return 0, nil, 0, PrefixLen - len(buf), nil
	}
	length := binary.BigEndian.Uint32(buf)
	if length == 0 || length > MaxFrameLen {
		return 0, nil, 0, 0, ErrBadLength
	}
	end := PrefixLen + int(length)
	if len(buf) < HeaderLen {
		return 0, nil, 0, end - len(buf), nil
	}
	op = Op(buf[PrefixLen])
	if !op.Known() {
		return op, nil, 0, 0, ErrUnknownOp
	}
	if len(buf) < end {
		return op, nil, 0, end - len(buf), nil
	}
	return op, buf[HeaderLen:end:end], end, 0, nil
}

// frame appends the prefix and the op byte of a frame with size payload bytes
// and room for these. It returns the whole slice and the room.
func frame(dst []byte, op Op, size int) (whole, payload []byte) {
	if size > MaxFrameLen-1 {
		panic("codec: a frame of " + op.String() + " exceeds MaxFrameLen")
	}
	whole, room := extend(dst, HeaderLen+size)
	binary.BigEndian.PutUint32(room, uint32(1+size))
	room[PrefixLen] = byte(op)
	return whole, room[HeaderLen:]
}

// extend makes dst n bytes longer. It returns the whole slice and the new
// part, whose bytes the caller must all set.
func extend(dst []byte, n int) (whole, part []byte) {
	old := len(dst)
	if cap(dst)-old >= n {
		whole = dst[:old+n]
	} else {
		whole = append(dst, make([]byte, n)...)
	}
	return whole, whole[old:]
}

// mustFit panics when an encoder is given a field over its cap: the caller
// has to check what it was given before.
func mustFit(field string, size, most int) {
	if size > most {
		panicCap(field, size, most)
	}
}

func panicCap(field string, size, most int) {
	panic(fmt.Sprintf("codec: %s of %d bytes is over its cap of %d: check it before encoding", field, size, most))
}
