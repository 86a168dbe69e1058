package log

import (
	"fmt"
	"path/filepath"
)

// Log is the log of one replication group. All methods belong to one goroutine,
// its owner; see the package comment.
type Log struct {
	o Options

	segments segmentList // never empty after the first write
	first    Index       // FirstIndex
	last     Index       // LastIndex; first-1 when there are no entries
	prevTerm Term        // term of entry first-1
	terms    termRuns
	tail     tail
	cache    cache

	hs        HardState // newest known
	storedHS  HardState // newest handed to the writer
	ticket    Ticket    // of the last Append
	unwritten ticketFIFO

	readers  []*segment // those with an open reader, at most maxReaders
	readTick uint64

	queue  *queue
	writer *writer
	prep   *preparer
	closed bool

	recovered recoveryStats
}

// HardState returns the newest hard state given to Append, or found by Open.
func (l *Log) HardState() HardState { return l.hs }

// FirstIndex returns the index of the oldest entry, 1 when nothing is compacted.
func (l *Log) FirstIndex() Index { return l.first }

// LastIndex returns the index of the newest entry, FirstIndex-1 when there is none.
func (l *Log) LastIndex() Index { return l.last }

// Term returns the term of entry i. FirstIndex-1 is answered too, with 0 for
// index 0. Below it is ErrCompacted, above LastIndex ErrUnavailable.
func (l *Log) Term(i Index) (Term, error) {
	switch {
	case i+1 == l.first:
		return l.prevTerm, nil
	case i < l.first:
		return 0, ErrCompacted
	case i > l.last:
		return 0, ErrUnavailable
	}
	return l.terms.at(i), nil
}

// Err returns the sticky error of the writer, or nil. After it nothing is
// written any more.
func (l *Log) Err() error { return l.writer.failed() }

// Append adds entries, whose indexes must be contiguous and begin at LastIndex+1
// at most; a lower one supersedes the entries from there on. Their Data belongs
// to the log from now on. hs, if not nil, becomes the hard state.
//
// With SyncAlways entries are durable when OnWritten reports the returned
// ticket. A hard state is written with sync, or with entries; it is then as
// durable as they are. Without both it is kept for the next write. With
// SyncInterval a sync that changes term or vote, or comes without entries, is
// durable when reported all the same.
//
// Every call gets a ticket and every ticket is reported, also when there was
// nothing to write. Append never blocks on the disk.
func (l *Log) Append(entries []Entry, hs *HardState, sync bool) Ticket {
	if l.closed {
		panic("log: Append after Close")
	}
	l.ticket++
	q := l.queue
	q.mu.Lock()
	for i := range entries {
		l.appendEntry(&entries[i])
	}
	force := false
	if hs != nil {
		l.checkHardState(hs)
		voted := hs.Term != l.storedHS.Term || hs.Vote != l.storedHS.Vote
		force = sync && (voted || len(entries) == 0)
		l.hs = *hs
	}
	if l.hs != l.storedHS && (len(entries) > 0 || (sync && hs != nil)) {
		l.appendHardState()
	}
	q.last = l.ticket
	q.force = q.force || force
	q.mu.Unlock()
	q.ring()

	l.unwritten.push(l.ticket, l.last)
	l.tail.evict(l.o.TailBytes, l.unwritten.advance(l.writer.writtenUpTo()))
	return l.ticket
}

// appendEntry decides where e goes and queues it. The queue is locked.
func (l *Log) appendEntry(e *Entry) {
	if e.Index > l.last+1 || e.Index < l.first || e.Index <= l.hs.Commit {
		panic(fmt.Sprintf("log: Append of index %d to a log of %d..%d, committed up to %d", e.Index, l.first, l.last, l.hs.Commit))
	}
	if len(e.Data) > MaxEntryBytes {
		panic(fmt.Sprintf("log: entry of %d bytes is above the limit of %d", len(e.Data), MaxEntryBytes))
	}
	if e.Index <= l.last {
		l.supersede(e.Index)
	}
	s, off := l.reserve(paddedLen(len(e.Data)))
	l.index(s, e.Index, e.Term, off)
	l.tail.add(*e)
	l.queue.add(item{
		head: s.segmentHead, off: off, data: e.Data,
		kind: kindEntry, typ: e.Type, term: e.Term, index: e.Index,
	})
}

// index notes that entry i, the next one, begins at off in s, the newest segment.
func (l *Log) index(s *segment, i Index, term Term, off int64) {
	if len(s.offsets) == 0 {
		s.base = i
	}
	s.offsets = append(s.offsets, uint32(off))
	l.terms.add(i, term)
	l.last = i
}

// supersede forgets the entries from i on. Their records stay where they are: a
// later record with a lower index is what makes them void.
func (l *Log) supersede(i Index) {
	l.segments.truncate(i)
	l.terms.truncate(i)
	l.tail.truncate(i)
	l.cache.truncate(i)
	l.unwritten.truncate(i)
	l.last = i - 1
}

func (l *Log) checkHardState(hs *HardState) {
	if hs.Commit > l.last || hs.Commit < l.hs.Commit || hs.Term < l.hs.Term {
		panic(fmt.Sprintf("log: hard state %+v after %+v with a last index of %d", *hs, l.hs, l.last))
	}
}

// appendHardState queues the current hard state. The queue is locked.
func (l *Log) appendHardState() {
	s := l.room(paddedLen(hardStateLen))
	if l.hs != l.storedHS { // a segment that room began starts with it
		l.queueHardState(s)
	}
}

func (l *Log) queueHardState(s *segment) {
	l.queue.add(item{
		head: s.segmentHead, off: s.end, vote: l.hs.Vote,
		kind: kindHardState, term: l.hs.Term, index: l.hs.Commit,
	})
	s.end += paddedLen(hardStateLen)
	l.storedHS = l.hs
}

// reserve returns the segment and the offset for a record of size bytes.
func (l *Log) reserve(size int64) (*segment, int64) {
	s := l.room(size)
	off := s.end
	s.end += size
	return s, off
}

// room returns the newest segment, or a new one when size bytes have no room in it.
func (l *Log) room(size int64) *segment {
	if len(l.segments) == 0 {
		return l.roll(nil)
	}
	s := l.segments[len(l.segments)-1]
	if l.mustRoll(s, size) {
		s = l.roll(s)
	}
	return s
}

// mustRoll also leaves a segment whose file was not ready when it was begun for
// one that is by now: overwriting written blocks is what makes a sync quick.
func (l *Log) mustRoll(s *segment, size int64) bool {
	if s.end <= headerLen+paddedLen(hardStateLen) {
		return false // no entry yet: one larger than a segment gets this one
	}
	return s.end+size > l.o.SegmentMaxBytes || (l.writer.onFresh(s.number) && l.prep.ready())
}

// roll begins a segment behind prev, which is nil for the very first.
func (l *Log) roll(prev *segment) *segment {
	h := &segmentHead{number: uint64(l.last + 1), first: l.last + 1, salt: l.o.Rand.Uint64()}
	if prev != nil {
		h.number = max(h.number, prev.number+1)
		h.prevNumber, h.prevEnd = prev.number, prev.end
	}
	h.prevTerm = l.prevTerm
	if l.last >= l.first {
		h.prevTerm = l.terms.at(l.last)
	}
	h.seed = seedOf(h.salt)
	s := newSegment(h, l.last)
	l.segments = append(l.segments, s)
	if l.hs != (HardState{}) {
		// So that a segment needs none of those before it to be understood.
		l.queueHardState(s)
	}
	return s
}

// Close writes and syncs everything queued, ends the goroutines and closes the
// files. It returns the sticky error, if any. OnWritten may still be called
// until Close returns, and never after.
func (l *Log) Close() error {
	if l.closed {
		return l.writer.failed()
	}
	l.closed = true
	l.queue.close()
	<-l.writer.done
	l.prep.close()
	for _, s := range l.readers {
		s.reader.Close() // opened for reading only: nothing to lose
		s.reader = nil
	}
	l.readers = nil
	return l.writer.failed()
}

// Stats returns counters and sizes.
func (l *Log) Stats() Stats {
	st := Stats{
		Segments:         len(l.segments),
		TailEntries:      l.tail.len(),
		TailBytes:        l.tail.bytes,
		CacheBytes:       l.cache.bytes,
		CacheHits:        l.cache.hits,
		CacheMisses:      l.cache.misses,
		RecoveredRecords: l.recovered.records,
		RecoveredBytes:   l.recovered.bytes,
		TornTails:        l.recovered.tornTails,
		TornBytes:        l.recovered.tornBytes,
	}
	for _, s := range l.segments {
		st.DiskBytes += s.end
	}
	l.writer.addStats(&st)
	return st
}

func (l *Log) path(number uint64) string {
	return filepath.Join(l.o.Dir, segmentName(number))
}
