package log

import (
	"encoding/binary"
	"hash/crc32"
)

// Record header, big-endian; see FORMAT.md.
const (
	recordLen = 32 // bytes of a record's header

	recLength  = 0
	recCRC     = 4
	recKind    = 8
	recType    = 9
	recCheck   = 10
	recDurable = 12
	recTerm    = 16
	recIndex   = 24
)

// recordKind says what a record is.
type recordKind uint8

const (
	kindEntry     recordKind = 1 // one Entry
	kindHardState recordKind = 2 // term, commit as index, vote as payload
	// kindMark stands behind the last record while the writer is idle and says
	// that everything before it is durable. The next record overwrites it.
	kindMark recordKind = 3
)

// hardStateLen is the payload of a hard state record: the vote.
const hardStateLen = 8

// record is a record's header without its checksums.
type record struct {
	length  uint32 // payload bytes
	kind    recordKind
	typ     uint8 // Entry.Type, 0 for the other kinds
	durable uint32
	term    Term
	index   Index
}

// paddedLen is how many bytes a record with n payload bytes takes.
func paddedLen(n int) int64 { return (recordLen + int64(n) + 7) &^ 7 }

// padding are the zeros behind a payload.
var padding [8]byte

// appendRecord appends the header of r for payload, checksums included. Whoever
// calls it writes payload and the padding right behind.
func appendRecord(dst []byte, seed uint32, r *record, payload []byte) []byte {
	at := len(dst)
	dst = binary.BigEndian.AppendUint32(dst, r.length)
	dst = append(dst, 0, 0, 0, 0, byte(r.kind), r.typ, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, r.durable)
	dst = binary.BigEndian.AppendUint64(dst, uint64(r.term))
	dst = binary.BigEndian.AppendUint64(dst, uint64(r.index))
	h := dst[at:]
	state := headerState(seed, h)
	binary.BigEndian.PutUint16(h[recCheck:], uint16(state))
	crc := crc32.Update(state, castagnoli, h[recCheck:recCheck+2])
	crc = crc32.Update(crc, castagnoli, payload)
	crc = crc32.Update(crc, castagnoli, padding[:paddedLen(len(payload))-recordLen-int64(len(payload))])
	binary.BigEndian.PutUint32(h[recCRC:], crc)
	return dst
}

// headerState is the checksum over all of a record's header but the two
// checksums themselves.
func headerState(seed uint32, h []byte) uint32 {
	c := crc32.Update(seed, castagnoli, h[recLength:recLength+4])
	c = crc32.Update(c, castagnoli, h[recKind:recKind+2])
	return crc32.Update(c, castagnoli, h[recDurable:recordLen])
}

// parseRecord reads a record's header from the first 32 bytes of b. It returns
// false when its own 16-bit checksum does not match or a field is impossible for
// a record at offset off; the payload is not looked at.
func parseRecord(b []byte, seed uint32, off int64) (r record, state uint32, ok bool) {
	h := b[:recordLen]
	kind := recordKind(h[recKind])
	if kind < kindEntry || kind > kindMark {
		return record{}, 0, false
	}
	state = headerState(seed, h)
	if binary.BigEndian.Uint16(h[recCheck:]) != uint16(state) {
		return record{}, 0, false
	}
	r = record{
		length:  binary.BigEndian.Uint32(h[recLength:]),
		kind:    kind,
		typ:     h[recType],
		durable: binary.BigEndian.Uint32(h[recDurable:]),
		term:    Term(binary.BigEndian.Uint64(h[recTerm:])),
		index:   Index(binary.BigEndian.Uint64(h[recIndex:])),
	}
	return r, state, r.plausible(off)
}

func (r *record) plausible(off int64) bool {
	if r.durable < headerLen || int64(r.durable) > off {
		return false
	}
	switch r.kind {
	case kindEntry:
		return r.length <= MaxEntryBytes && r.index > 0
	case kindHardState:
		return r.length == hardStateLen && r.typ == 0
	default:
		return r.length == 0 && r.typ == 0 && int64(r.durable) == off
	}
}

// payloadMatches completes the checksum of a record: b is the whole record with
// its padding, state what parseRecord returned.
func payloadMatches(b []byte, state uint32) bool {
	crc := crc32.Update(state, castagnoli, b[recCheck:recCheck+2])
	crc = crc32.Update(crc, castagnoli, b[recordLen:])
	return crc == binary.BigEndian.Uint32(b[recCRC:])
}
