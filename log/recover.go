package log

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/mortarmq/mortarmq/env"
)

// recoveryStats is what Open found.
type recoveryStats struct {
	records   int
	bytes     int64
	tornTails int
	tornBytes int64
}

// recovery is the work of Open. It first only reads; what it changes, it changes
// in finish, when everything was found to be in order.
type recovery struct {
	l       *Log
	numbers []uint64 // of the segment files, ascending
	temps   []string // paths of segments that were being created
	buf     []byte   // for the scanners

	// newborn is the newest segment if it has no valid header, 0 otherwise:
	// nothing in it was ever promised.
	newborn      uint64
	newbornEmpty bool // it has no byte that is not zero

	tail lastSegment
}

// lastSegment is what the scan of the newest segment found behind its records.
type lastSegment struct {
	size     int64 // of the file
	end      int64 // of the records
	cutFrom  int64 // bytes from here ...
	cutTo    int64 // ... to here are torn; nothing is when they are equal
	marked   bool
	whyBroke string
}

// Open reads the log in o.Dir, or makes an empty one, and starts its writer. A
// torn tail, that is, a write that a crash cut short before it was reported, is
// cut, logged and counted. Damage to anything that had been durable is a
// *CorruptionError, a later format a *VersionError; then nothing was changed.
func Open(o Options) (*Log, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o.setDefaults()
	l := &Log{o: o, first: 1, queue: newQueue()}
	l.cache.init(o.CacheBytes)
	r := &recovery{l: l}
	if err := r.list(); err != nil {
		return nil, err
	}
	if err := r.scanAll(); err != nil {
		return nil, err
	}
	w, err := r.finish()
	if err != nil {
		return nil, err
	}
	l.writer, l.prep = w, w.prep
	l.unwritten.written = l.last
	go l.prep.run()
	go w.run()
	return l, nil
}

// list reads the directory, making it when it is missing.
func (r *recovery) list() error {
	o := &r.l.o
	names, err := o.FS.ReadDir(o.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		if err := o.FS.MkdirAll(o.Dir, 0o750); err != nil {
			return err
		}
		return o.FS.SyncDir(filepath.Dir(o.Dir))
	}
	if err != nil {
		return err
	}
	for _, name := range names { // sorted, and so are the numbers: they have 20 digits
		if n, ok := parseName(name, segmentSuffix); ok {
			r.numbers = append(r.numbers, n)
		} else if _, ok := parseName(name, tempSuffix); ok {
			r.temps = append(r.temps, filepath.Join(o.Dir, name))
		} else if name != preparedName {
			o.Logger.Warn("log: unknown file left alone", "file", filepath.Join(o.Dir, name))
		}
	}
	return nil
}

// scanAll reads all headers, then all records.
func (r *recovery) scanAll() error {
	heads := make([]*segmentHead, 0, len(r.numbers))
	for k, n := range r.numbers {
		h, err := r.head(n, k == len(r.numbers)-1)
		if err != nil {
			return err
		}
		if h == nil { // newborn
			break
		}
		var prev *segmentHead
		if k > 0 {
			prev = heads[k-1]
		}
		if err := r.checkChain(h, prev); err != nil {
			return err
		}
		heads = append(heads, h)
	}
	for k, h := range heads {
		var next *segmentHead
		if k+1 < len(heads) {
			next = heads[k+1]
		}
		if err := r.scanSegment(h, next); err != nil {
			return err
		}
	}
	return r.adoptHardState()
}

// head reads the header of segment n. It returns nil for the newest segment when
// its header is torn.
func (r *recovery) head(n uint64, newest bool) (*segmentHead, error) {
	path := r.l.path(n)
	f, err := r.l.o.FS.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var b [headerLen + recordLen]byte
	got, err := f.ReadAt(b[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	h, fault, err := parseHeader(path, b[:min(got, headerLen)])
	if err != nil {
		return nil, err
	}
	if fault == "" && h.number != n {
		return nil, &CorruptionError{File: path, Reason: fmt.Sprintf("the header belongs to segment %d", h.number)}
	}
	if fault == "" {
		return &h, nil
	}
	if !newest || looksUsed(b[:got]) {
		return nil, &CorruptionError{File: path, Reason: string(fault)}
	}
	r.newborn = n
	if r.newbornEmpty, err = fileIsZero(f); err != nil {
		return nil, err
	}
	r.l.o.Logger.Warn("log: newest segment has no valid header and no records: ignored", "file", path, "reason", string(fault))
	return nil, nil
}

// looksUsed reports whether a first record seems to follow a bad header. Its
// checksum cannot be verified without the salt, but a header is durable before
// the first record is written: then it was damaged, not torn.
func looksUsed(b []byte) bool {
	if len(b) < headerLen+recordLen {
		return false
	}
	kind := recordKind(b[headerLen+recKind])
	durable := b[headerLen+recDurable:][:4]
	return (kind == kindEntry || kind == kindHardState) &&
		durable[0] == 0 && durable[1] == 0 && durable[2] == 0 && durable[3] == headerLen
}

func fileIsZero(f env.File) (bool, error) {
	buf := make([]byte, scanBlock)
	for off := int64(0); ; {
		n, err := f.ReadAt(buf, off)
		if !isZero(buf[:n]) {
			return false, nil
		}
		if errors.Is(err, io.EOF) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		off += int64(n)
	}
}

// checkChain verifies that h follows prev, or is the first segment of the log.
func (r *recovery) checkChain(h, prev *segmentHead) error {
	path := r.l.path(h.number)
	switch {
	case prev == nil && h.prevNumber != 0:
		return &CorruptionError{File: path, Reason: fmt.Sprintf(
			"it follows %s, which is missing", segmentName(h.prevNumber))}
	case prev == nil && h.first != 1:
		return &CorruptionError{File: path, Reason: fmt.Sprintf("the log begins at entry %d", h.first)}
	case prev != nil && h.prevNumber != prev.number:
		return &CorruptionError{File: path, Reason: fmt.Sprintf(
			"it follows %s, but the segment before it is %s", segmentName(h.prevNumber), segmentName(prev.number))}
	}
	return nil
}

// scanSegment reads the records of h. next is the header of the segment behind
// it; when there is one, h was complete and durable before next was made.
func (r *recovery) scanSegment(h, next *segmentHead) error {
	l := r.l
	path := l.path(h.number)
	f, err := l.o.FS.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return err
	}
	if err := r.checkFirst(h); err != nil {
		return err
	}
	limit := size
	if next != nil {
		limit = next.prevEnd
		if limit > size {
			return &CorruptionError{File: path, Offset: size, Reason: fmt.Sprintf(
				"the file ends here, its records ended at %d", limit)}
		}
	}
	s := newSegment(h, l.last)
	l.segments = append(l.segments, s)
	sc := newScanner(f, h, limit, r.buf)
	end, reason, err := r.replay(s, sc)
	r.buf = sc.buf
	l.recovered.bytes += sc.read
	if err != nil {
		return err
	}
	s.end = sc.off
	if next == nil {
		return r.judgeTail(sc, path, size, end, reason)
	}
	if end != scanLimit {
		if end == scanMark {
			reason = "a mark stands among the records"
		}
		return &CorruptionError{File: path, Offset: sc.off, Reason: reason}
	}
	return nil
}

// checkFirst verifies that h goes on where the entries before it end.
func (r *recovery) checkFirst(h *segmentHead) error {
	l := r.l
	if h.first > l.last+1 {
		return &CorruptionError{File: l.path(h.number), Reason: fmt.Sprintf(
			"it begins at entry %d, but the entries before it end at %d", h.first, l.last)}
	}
	if have, err := l.Term(h.first - 1); err != nil || have != h.prevTerm {
		return &CorruptionError{File: l.path(h.number), Reason: fmt.Sprintf(
			"it follows entry %d of term %d, which the segments before it do not hold", h.first-1, h.prevTerm)}
	}
	return nil
}

// replay takes over the valid records of s.
func (r *recovery) replay(s *segment, sc *scanner) (scanEnd, string, error) {
	l := r.l
	for {
		off := sc.off
		rec, payload, end, reason, err := sc.next()
		if err != nil {
			return end, "", fmt.Errorf("reading %s: %w", l.path(s.number), err)
		}
		if end != scanGoesOn {
			return end, reason, nil
		}
		l.recovered.records++
		switch rec.kind {
		case kindEntry:
			if rec.index > l.last+1 || rec.index < l.first {
				return end, "", &CorruptionError{File: l.path(s.number), Offset: off, Reason: fmt.Sprintf(
					"entry %d follows entry %d", rec.index, l.last)}
			}
			if rec.index <= l.last {
				l.supersede(rec.index)
			}
			l.index(s, rec.index, rec.term, off)
		case kindHardState:
			l.hs = HardState{Term: rec.term, Vote: binary.BigEndian.Uint64(payload), Commit: rec.index}
		}
	}
}

// judgeTail tells a torn tail from damage behind the records of the newest
// segment. Every record carries how far the file was durable when it was
// written: bytes that any valid record behind them calls durable are damaged;
// otherwise they belong to a write that was never reported.
func (r *recovery) judgeTail(sc *scanner, path string, size int64, end scanEnd, reason string) error {
	t := lastSegment{size: size, end: sc.off, cutFrom: sc.off, cutTo: sc.off, whyBroke: reason}
	if end != scanLimit {
		if end == scanMark {
			t.marked = true
			t.cutFrom += recordLen
			t.whyBroke = "bytes behind the mark"
		}
		rest, err := sc.survey(t.cutFrom)
		if err != nil {
			return fmt.Errorf("reading %s: %w", path, err)
		}
		if rest.proof != 0 {
			return &CorruptionError{File: path, Offset: sc.off, Reason: fmt.Sprintf(
				"%s; the record at %d proves that it had been durable", t.whyBroke, rest.proof)}
		}
		t.cutTo = rest.end
	}
	r.tail = t
	return nil
}

// adoptHardState makes the hard state agree with the entries: a term that only
// an entry brought counts, and a commit beyond the log is clamped.
func (r *recovery) adoptHardState() error {
	l := r.l
	l.storedHS = l.hs
	if t, _ := l.Term(l.last); t > l.hs.Term {
		l.hs = HardState{Term: t, Commit: l.hs.Commit}
	}
	if l.hs.Commit > l.last {
		l.o.Logger.Warn("log: commit index is beyond the last entry: clamped",
			"dir", l.o.Dir, "commit", l.hs.Commit, "last", l.last)
		l.hs.Commit = l.last
	}
	return nil
}

// finish makes the directory and the newest segment fit to go on with, and
// returns the writer for it.
func (r *recovery) finish() (*writer, error) {
	l := r.l
	for _, path := range r.temps {
		if err := l.o.FS.Remove(path); err != nil {
			return nil, err
		}
	}
	if err := r.dropNewborn(); err != nil {
		return nil, err
	}
	w := &writer{o: &l.o, queue: l.queue, done: make(chan struct{})}
	w.prep = newPreparer(&l.o, &w.rounds)
	if len(l.segments) > 0 {
		s := l.segments[len(l.segments)-1]
		f, err := r.openLast(s)
		if err != nil {
			return nil, err
		}
		w.file, w.head, w.size = f, s.segmentHead, r.tail.size
		w.pos, w.durable = s.end, s.end
		if r.tail.marked {
			w.marked = s.end
		}
	}
	return w, nil
}

// dropNewborn takes a segment without a header out of the way: its number may be
// used again. Bytes that are not zero are kept under another name.
func (r *recovery) dropNewborn() error {
	if r.newborn == 0 {
		return nil
	}
	o := &r.l.o
	path := r.l.path(r.newborn)
	r.l.recovered.tornTails++
	var err error
	if r.newbornEmpty {
		err = o.FS.Remove(path)
	} else {
		err = o.FS.Rename(path, strings.TrimSuffix(path, segmentSuffix)+tornSuffix)
	}
	if err != nil {
		return err
	}
	return o.FS.SyncDir(o.Dir)
}

// openLast opens the newest segment for writing and cuts its torn tail by
// overwriting it with zeros: a record of it must not become part of the log
// later, when new records end just before it. What was read back may come from
// the page cache of a process that died before its sync, so it is synced now,
// before anybody is told of it.
func (r *recovery) openLast(s *segment) (env.File, error) {
	l, t := r.l, &r.tail
	path := l.path(s.number)
	f, err := l.o.FS.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	if n := t.cutTo - t.cutFrom; n > 0 {
		l.recovered.tornTails++
		l.recovered.tornBytes += n
		l.o.Logger.Warn("log: torn tail cut", "file", path, "offset", t.cutFrom, "bytes", n, "reason", t.whyBroke)
		if err := zero(f, t.cutFrom, t.cutTo); err != nil {
			f.Close()
			return nil, err
		}
	}
	if t.size < l.o.SegmentMaxBytes {
		if err := f.Allocate(l.o.SegmentMaxBytes); err != nil {
			f.Close()
			return nil, err
		}
		t.size = l.o.SegmentMaxBytes
	}
	if err := f.Sync(); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func zero(f env.File, from, to int64) error {
	zeros := make([]byte, min(to-from, scanBlock))
	for off := from; off < to; {
		n, err := f.WriteAt(zeros[:min(to-off, int64(len(zeros)))], off)
		if err != nil {
			return err
		}
		off += int64(n)
	}
	return nil
}
