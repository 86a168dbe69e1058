package shard

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/mortarmq/mortarmq/codec"
)

// The data of a log entry; FORMAT.md has every byte.
const (
	entryVersion    = 1
	entryHeaderLen  = 17 // version, wall clock, age clock
	blockHeaderLen  = 5  // kind, length
	messagesHeadLen = 16
	deadHeadLen     = 22
	ledgerHeadLen   = 22
	groupBodyLen    = 14
)

type blockKind uint8

const (
	blockMessages blockKind = 1 // messages of one partition
	blockLedger   blockKind = 2 // what changed in one ledger
	blockDead     blockKind = 3 // one message moves to the twin
	blockGroup    blockKind = 4 // a group starts on a partition
	blockForget   blockKind = 5 // producers that were idle too long
)

var errBadEntry = errors.New("shard: the entry does not parse")

// states of a ledger mark on disk
const (
	markInFlight    uint8 = 0 // delivered again
	markWaiting     uint8 = 1 // failed or handed back, to be delivered again
	markQuarantined uint8 = 2 // settled for good, never delivered again (V13)
)

type mark struct {
	seq      codec.Sequence
	state    uint8
	attempts uint16
	reason   uint8
}

// appendEntryHeader writes the format version, the wall clock (for people and for
// retention by age) and the age clock, which only advances while the shard runs and never steps
// (for producers that were idle, P5). Both in ms.
func appendEntryHeader(dst []byte, wallMs, ageMs int64) []byte {
	dst = append(dst, entryVersion)
	dst = binary.BigEndian.AppendUint64(dst, uint64(wallMs))
	return binary.BigEndian.AppendUint64(dst, uint64(ageMs))
}

func entryAge(data []byte) int64 { return int64(binary.BigEndian.Uint64(data[9:])) }

// beginBlock appends a block header; endBlock fills in its length.
func beginBlock(dst []byte, kind blockKind) ([]byte, int) {
	dst = append(dst, byte(kind), 0, 0, 0, 0)
	return dst, len(dst)
}

func endBlock(dst []byte, start int) []byte {
	binary.BigEndian.PutUint32(dst[start-4:], uint32(len(dst)-start))
	return dst
}

func appendPartition(dst []byte, topic codec.TopicID, part codec.Partition) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(topic))
	return binary.BigEndian.AppendUint16(dst, uint16(part))
}

// walkEntry calls fn for every block: its kind, its body and the body's offset
// in data. Unknown kinds are an error: they were written by a newer version.
func walkEntry(data []byte, fn func(kind blockKind, body []byte, off int) error) error {
	if len(data) < entryHeaderLen {
		return errBadEntry
	}
	if data[0] != entryVersion {
		return fmt.Errorf("shard: entry of format %d; this version reads %d: upgrade the broker", data[0], entryVersion)
	}
	off := entryHeaderLen
	for off < len(data) {
		if len(data)-off < blockHeaderLen {
			return errBadEntry
		}
		kind, n := blockKind(data[off]), int(binary.BigEndian.Uint32(data[off+1:]))
		off += blockHeaderLen
		if n > len(data)-off {
			return errBadEntry
		}
		if err := fn(kind, data[off:off+n], off); err != nil {
			return err
		}
		off += n
	}
	return nil
}

// recordLen returns the length of the stored record at the start of p, and its
// key and value lengths: a PUB's tail, and for a dead letter the origin (V12).
func recordLen(p []byte) (n, key, value int, err error) {
	const fixed = 8 + 8 + 2 + 2
	if len(p) < fixed {
		return 0, 0, 0, errBadEntry
	}
	key = int(binary.BigEndian.Uint16(p[18:]))
	if len(p) < fixed+key+4 {
		return 0, 0, 0, errBadEntry
	}
	value = int(binary.BigEndian.Uint32(p[fixed+key:]))
	n = fixed + key + 4 + value
	if p[17]&byte(codec.MsgDeadLetter) != 0 {
		const origin = 2 + 2 + 8 + 2 + 1 + 2
		if len(p) < n+origin {
			return 0, 0, 0, errBadEntry
		}
		n += origin + int(binary.BigEndian.Uint16(p[n+origin-2:]))
	}
	if value > codec.MaxValueLen || len(p) < n {
		return 0, 0, 0, errBadEntry
	}
	return n, key, value, nil
}

// recordProducer returns producer_id and producer_seq of a stored record.
func recordProducer(p []byte) (codec.ProducerID, codec.ProducerSeq) {
	return codec.ProducerID(binary.BigEndian.Uint64(p)), codec.ProducerSeq(binary.BigEndian.Uint64(p[8:]))
}

// appendRecord copies a PUB's tail and clears its flags: no bit of PUB.flags is
// known in v0, and MSG.flags are the broker's own (P8).
func appendRecord(dst, tail []byte) []byte {
	n := len(dst)
	dst = append(dst, tail...)
	codec.SetTailFlags(dst[n:], 0)
	return dst
}

type messagesHead struct {
	topic codec.TopicID
	part  codec.Partition
	first codec.Sequence
	count int
}

func appendMessagesHead(dst []byte, h messagesHead) []byte {
	dst = appendPartition(dst, h.topic, h.part)
	dst = binary.BigEndian.AppendUint64(dst, uint64(h.first))
	return binary.BigEndian.AppendUint32(dst, uint32(h.count))
}

func parseMessagesHead(b []byte) (h messagesHead, records []byte, err error) {
	if len(b) < messagesHeadLen {
		return h, nil, errBadEntry
	}
	h.topic = codec.TopicID(binary.BigEndian.Uint16(b))
	h.part = codec.Partition(binary.BigEndian.Uint16(b[2:]))
	h.first = codec.Sequence(binary.BigEndian.Uint64(b[4:]))
	h.count = int(binary.BigEndian.Uint32(b[12:]))
	return h, b[messagesHeadLen:], nil
}

type deadHead struct {
	topic codec.TopicID // the source's
	part  codec.Partition
	group codec.GroupID
	seq   codec.Sequence // the source's
	twin  codec.Sequence // in the twin's partition of the same number
}

func appendDeadHead(dst []byte, h deadHead) []byte {
	dst = appendPartition(dst, h.topic, h.part)
	dst = binary.BigEndian.AppendUint16(dst, uint16(h.group))
	dst = binary.BigEndian.AppendUint64(dst, uint64(h.seq))
	return binary.BigEndian.AppendUint64(dst, uint64(h.twin))
}

func parseDeadHead(b []byte) (h deadHead, record []byte, err error) {
	if len(b) < deadHeadLen {
		return h, nil, errBadEntry
	}
	h.topic = codec.TopicID(binary.BigEndian.Uint16(b))
	h.part = codec.Partition(binary.BigEndian.Uint16(b[2:]))
	h.group = codec.GroupID(binary.BigEndian.Uint16(b[4:]))
	h.seq = codec.Sequence(binary.BigEndian.Uint64(b[6:]))
	h.twin = codec.Sequence(binary.BigEndian.Uint64(b[14:]))
	return h, b[deadHeadLen:], nil
}

type groupStart struct {
	topic codec.TopicID
	part  codec.Partition
	group codec.GroupID
	floor codec.Sequence
}

func appendGroupStart(dst []byte, g groupStart) []byte {
	dst = appendPartition(dst, g.topic, g.part)
	dst = binary.BigEndian.AppendUint16(dst, uint16(g.group))
	return binary.BigEndian.AppendUint64(dst, uint64(g.floor))
}

func parseGroupStart(b []byte) (g groupStart, err error) {
	if len(b) != groupBodyLen {
		return g, errBadEntry
	}
	g.topic = codec.TopicID(binary.BigEndian.Uint16(b))
	g.part = codec.Partition(binary.BigEndian.Uint16(b[2:]))
	g.group = codec.GroupID(binary.BigEndian.Uint16(b[4:]))
	g.floor = codec.Sequence(binary.BigEndian.Uint64(b[6:]))
	return g, nil
}

// span is a range of settled sequences, both ends included.
type span struct{ from, to codec.Sequence }

// ledgerDelta is what changed in one ledger since the last record of it.
type ledgerDelta struct {
	topic   codec.TopicID
	part    codec.Partition
	group   codec.GroupID
	floor   codec.Sequence
	cursor  codec.Sequence
	skipped uint64 // that the group never settled: gone, the floor went over them
	settled []span // above floor, ascending
	marks   []mark // in the order they happened
}

func appendLedgerDelta(dst []byte, d *ledgerDelta) []byte {
	dst = appendPartition(dst, d.topic, d.part)
	dst = binary.BigEndian.AppendUint16(dst, uint16(d.group))
	dst = binary.BigEndian.AppendUint64(dst, uint64(d.floor))
	dst = binary.BigEndian.AppendUint64(dst, uint64(d.cursor))
	dst = binary.AppendUvarint(dst, d.skipped)
	dst = binary.AppendUvarint(dst, uint64(len(d.settled)))
	at := d.floor
	for _, s := range d.settled {
		dst = binary.AppendUvarint(dst, uint64(s.from-at))
		dst = binary.AppendUvarint(dst, uint64(s.to-s.from))
		at = s.to
	}
	dst = binary.AppendUvarint(dst, uint64(len(d.marks)))
	for _, m := range d.marks {
		dst = binary.AppendUvarint(dst, uint64(m.seq))
		dst = append(dst, m.state, m.reason)
		dst = binary.AppendUvarint(dst, uint64(m.attempts))
	}
	return dst
}

func parseLedgerDelta(b []byte) (d ledgerDelta, err error) {
	if len(b) < ledgerHeadLen {
		return d, errBadEntry
	}
	d.topic = codec.TopicID(binary.BigEndian.Uint16(b))
	d.part = codec.Partition(binary.BigEndian.Uint16(b[2:]))
	d.group = codec.GroupID(binary.BigEndian.Uint16(b[4:]))
	d.floor = codec.Sequence(binary.BigEndian.Uint64(b[6:]))
	d.cursor = codec.Sequence(binary.BigEndian.Uint64(b[14:]))
	r := varints{b: b[ledgerHeadLen:]}
	if d.cursor < d.floor || d.cursor-d.floor > maxUnsettled {
		return d, errBadEntry
	}
	if d.skipped = r.next(); d.skipped > uint64(d.cursor) {
		return d, errBadEntry
	}
	at := d.floor
	for n := r.next(); n > 0 && !r.bad; n-- {
		from := at + codec.Sequence(r.next())
		to := from + codec.Sequence(r.next())
		if from <= at || to < from || to > d.cursor {
			return d, errBadEntry
		}
		d.settled = append(d.settled, span{from, to})
		at = to
	}
	for n := r.next(); n > 0 && !r.bad; n-- {
		m := mark{seq: codec.Sequence(r.next()), state: r.byte(), reason: r.byte()}
		attempts := r.next()
		if attempts > 0xFFFF || m.state > markQuarantined {
			return d, errBadEntry
		}
		m.attempts = uint16(attempts)
		d.marks = append(d.marks, m)
	}
	if r.bad || len(r.b) != 0 {
		return d, errBadEntry
	}
	return d, nil
}

// varints reads a run of uvarints and bytes; bad once something was missing.
type varints struct {
	b   []byte
	bad bool
}

func (r *varints) next() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.bad = true
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *varints) byte() uint8 {
	if len(r.b) == 0 {
		r.bad = true
		return 0
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v
}
