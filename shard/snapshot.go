package shard

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/mortarmq/mortarmq/codec"
	mlog "github.com/mortarmq/mortarmq/log"
)

// snapshotVersion is the format of a snapshot's content; FORMAT.md has its bytes.
const snapshotVersion = 1

var errBadSnapshot = errors.New("shard: the snapshot does not parse")

// Snapshot returns the state as of the last applied entry: what replaying the log
// up to there gives. Deliveries that are in flight now are in flight in it. Memory runs
// ahead of the log while something is staged or sealed: it may be called only when idle.
func (c *Core) Snapshot() []byte {
	if !c.idle() {
		panic("shard: a snapshot of a state that the log does not have yet")
	}
	dst := []byte{snapshotVersion}
	dst = binary.AppendUvarint(dst, uint64(c.age()))
	var parts []*partition
	for _, list := range c.topics {
		for _, p := range list {
			if p != nil {
				parts = append(parts, p)
			}
		}
	}
	dst = binary.AppendUvarint(dst, uint64(len(parts)))
	for _, p := range parts {
		dst = appendPartitionState(dst, p)
	}
	return dst
}

func appendPartitionState(dst []byte, p *partition) []byte {
	dst = appendPartition(dst, p.topic, p.id)
	dst = binary.AppendUvarint(dst, uint64(p.committed))
	dst = binary.AppendUvarint(dst, uint64(p.earliest))
	dst = appendDamage(dst, p)
	dst = binary.AppendUvarint(dst, uint64(len(p.index.chunks)))
	for i := range p.index.chunks {
		dst = appendChunk(dst, &p.index.chunks[i])
	}
	dst = binary.AppendUvarint(dst, uint64(len(p.windows)))
	for _, id := range slices.Sorted(maps.Keys(p.windows)) { // the same state is the same bytes
		dst = appendWindow(dst, id, p.windows[id])
	}
	dst = binary.AppendUvarint(dst, uint64(len(p.ledgers)))
	for _, l := range p.ledgers {
		dst = appendLedgerState(dst, l)
	}
	return dst
}

// appendDamage writes what is lost and why the partition is read-only, so that it
// stays so when the damaged file is gone.
func appendDamage(dst []byte, p *partition) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(p.lost)))
	for _, s := range p.lost {
		dst = binary.AppendUvarint(dst, uint64(s.from))
		dst = binary.AppendUvarint(dst, uint64(s.to-s.from))
	}
	if p.readOnly == nil {
		return append(dst, 0)
	}
	dst = append(dst, 1)
	dst = appendText(dst, p.readOnly.File)
	dst = binary.AppendUvarint(dst, uint64(p.readOnly.Offset))
	return appendText(dst, p.readOnly.Reason)
}

func appendText(dst []byte, s string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}

func appendChunk(dst []byte, x *runChunk) []byte {
	dst = binary.AppendUvarint(dst, uint64(x.n))
	for _, r := range []run{x.first, x.last} {
		dst = binary.AppendUvarint(dst, uint64(r.first))
		dst = binary.AppendUvarint(dst, uint64(r.index))
		dst = binary.AppendUvarint(dst, uint64(r.off))
	}
	dst = binary.AppendUvarint(dst, uint64(len(x.more)))
	return append(dst, x.more...)
}

// appendWindow writes the numbers a producer may still repeat, oldest first, as
// differences of their sequences.
func appendWindow(dst []byte, id codec.ProducerID, w *window) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(id))
	dst = binary.AppendUvarint(dst, uint64(w.first))
	dst = binary.AppendUvarint(dst, uint64(w.last))
	dst = binary.AppendUvarint(dst, uint64(w.used))
	at := codec.Sequence(0)
	for n := w.oldest(); ; n++ {
		seq := w.seqs[int(n)&(len(w.seqs)-1)]
		dst = binary.AppendUvarint(dst, uint64(seq-at))
		at = seq
		if n == w.last {
			return dst
		}
	}
}

func appendLedgerState(dst []byte, l *ledger) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(l.group))
	for _, n := range []uint64{uint64(l.floor), uint64(l.cursor), l.acked, l.dead, l.quarantined, l.skipped} {
		dst = binary.AppendUvarint(dst, n)
	}
	for seq := l.floor + 1; seq <= l.cursor; seq++ {
		s := *l.slot(seq)
		if s.state == slotSettled {
			s = slot{state: slotSettled} // how it came to be settled is over
		}
		dst = append(dst, byte(s.state), s.reason)
		dst = binary.AppendUvarint(dst, uint64(s.attempts))
	}
	return dst
}

// restore fills an empty Core from a snapshot's content.
func (c *Core) restore(data []byte) error {
	if len(data) == 0 {
		return errBadSnapshot
	}
	if data[0] != snapshotVersion {
		return fmt.Errorf("shard: snapshot of format %d; this version reads %d: upgrade the broker", data[0], snapshotVersion)
	}
	r := varints{b: data[1:]}
	c.replayedAge = int64(r.next())
	for n := r.next(); n > 0 && !r.bad; n-- {
		topic, part := codec.TopicID(r.fixed(2)), codec.Partition(r.fixed(2))
		if r.bad || c.taken(topic, part) {
			return errBadSnapshot
		}
		readPartition(&r, c.ensure(topic, part))
	}
	if r.bad || len(r.b) != 0 {
		return errBadSnapshot
	}
	return nil
}

// taken reports whether a partition has content already.
func (c *Core) taken(topic codec.TopicID, part codec.Partition) bool {
	p := c.partition(topic, part)
	return p != nil && (p.last > 0 || len(p.ledgers) > 0)
}

func readPartition(r *varints, p *partition) {
	p.committed = codec.Sequence(r.next())
	p.last = p.committed
	p.earliest = codec.Sequence(r.next())
	readDamage(r, p)
	for n := r.next(); n > 0 && !r.bad; n-- {
		p.index.chunks = append(p.index.chunks, readChunk(r))
	}
	for n := r.next(); n > 0 && !r.bad; n-- {
		readWindow(r, p)
	}
	for n := r.next(); n > 0 && !r.bad; n-- {
		readLedger(r, p)
	}
}

func readDamage(r *varints, p *partition) {
	for n := r.next(); n > 0 && !r.bad; n-- {
		s := span{from: codec.Sequence(r.next())}
		s.to = s.from + codec.Sequence(r.next())
		p.lost = append(p.lost, s)
	}
	switch r.byte() {
	case 0:
	case 1:
		p.readOnly = &mlog.CorruptionError{File: r.text(), Offset: int64(r.next()), Reason: r.text()}
	default:
		r.bad = true
	}
}

func (r *varints) text() string { return string(r.take(int(r.next()))) }

func readChunk(r *varints) runChunk {
	x := runChunk{n: int(r.next())}
	for _, at := range []*run{&x.first, &x.last} {
		*at = run{codec.Sequence(r.next()), mlog.Index(r.next()), int(r.next())}
	}
	x.more = append([]byte(nil), r.take(int(r.next()))...)
	if r.bad || x.n < 1 || x.n > runsPerChunk || !x.each(func(run) bool { return true }) {
		r.bad = true
	}
	return x
}

func readWindow(r *varints, p *partition) {
	id := codec.ProducerID(r.fixed(8))
	w := &window{first: codec.ProducerSeq(r.next())}
	last := codec.ProducerSeq(r.next())
	w.used = int64(r.next())
	if id == 0 || last < w.first || p.windows[id] != nil {
		r.bad = true
		return
	}
	first := w.first
	from := first
	if last-first >= windowSize {
		from = last - windowSize + 1
	}
	seq := codec.Sequence(0)
	for n := from; !r.bad; n++ {
		seq += codec.Sequence(r.next())
		w.add(n, seq)
		if n == last {
			break
		}
	}
	w.first = first // add took the oldest that is known for the first of all
	if p.windows == nil {
		p.windows = make(map[codec.ProducerID]*window)
	}
	p.windows[id] = w
}

func readLedger(r *varints, p *partition) {
	l := newLedger(p, codec.GroupID(r.fixed(2)), codec.Sequence(r.next()))
	cursor := codec.Sequence(r.next())
	l.acked, l.dead, l.quarantined, l.skipped = r.next(), r.next(), r.next(), r.next()
	if r.bad || cursor < l.floor || cursor > p.last || cursor-l.floor > maxUnsettled || p.ledger(l.group) != nil {
		r.bad = true
		return
	}
	for l.cursor < cursor && !r.bad {
		s := l.advance()
		s.state, s.reason, s.attempts = slotState(r.byte()), r.byte(), uint16(r.next())
		if s.state > slotSettled || s.state == slotMoving {
			r.bad = true
		}
	}
	p.ledgers = append(p.ledgers, l)
}

// fixed reads a big-endian number of n bytes.
func (r *varints) fixed(n int) uint64 {
	v := uint64(0)
	for _, b := range r.take(n) {
		v = v<<8 | uint64(b)
	}
	return v
}

// take returns a view of the next n bytes.
func (r *varints) take(n int) []byte {
	if n < 0 || n > len(r.b) {
		r.bad = true
		return nil
	}
	v := r.b[:n]
	r.b = r.b[n:]
	return v
}
