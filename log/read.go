package log

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/mortarmq/mortarmq/env"
)

const (
	maxReaders = 8        // segments kept open for reading
	oneRead    = 1 << 20  // a record that may be larger than this is sized first
	runRead    = 16 << 20 // entries fetched with one pread by Entries, at most
)

// Entries returns the entries [lo,hi) as far as they fit into maxBytes of Data,
// at least one. The slice is valid until the next Append; the Data stays valid
// and must not be changed. lo below FirstIndex is ErrCompacted, hi above
// LastIndex+1 ErrUnavailable; a record that is not what was written is a
// *CorruptionError.
func (l *Log) Entries(lo, hi Index, maxBytes int) ([]Entry, error) {
	if err := l.checkRange(lo, hi); err != nil || lo >= hi {
		return nil, err
	}
	tailFirst := l.tail.first(l.last + 1)
	if lo >= tailFirst {
		return l.tail.slice(lo, hi, maxBytes, true), nil
	}
	var out []Entry
	left := maxBytes
	for lo < hi && (len(out) == 0 || left > 0) {
		var got []Entry
		var err error
		if lo >= tailFirst {
			got = l.tail.slice(lo, hi, left, false)
		} else {
			got, err = l.fetch(lo, min(hi, tailFirst), left, len(out) == 0)
		}
		if err != nil {
			return nil, err
		}
		if len(got) == 0 {
			break
		}
		for i := range got {
			left -= len(got[i].Data)
		}
		lo += Index(len(got))
		out = append(out, got...)
	}
	return out, nil
}

func (l *Log) checkRange(lo, hi Index) error {
	switch {
	case lo < l.first:
		return ErrCompacted
	case hi > l.last+1:
		return ErrUnavailable
	}
	return nil
}

// Read returns the Data of entry i. The view is valid until the next Append,
// Entries or Read. Errors are those of Entries.
func (l *Log) Read(i Index) ([]byte, error) {
	if err := l.checkRange(i, i+1); err != nil {
		return nil, err
	}
	if first := l.tail.first(l.last + 1); i >= first {
		return l.tail.entries()[i-first].Data, nil
	}
	if data, ok := l.cache.get(i); ok {
		l.cache.hits++
		return data, nil
	}
	l.cache.misses++
	s := l.segments.find(i)
	buf, r, err := l.readRecord(s, i, l.cache.buffer)
	if err != nil {
		return nil, err
	}
	data := buf[recordLen : recordLen+r.length]
	l.cache.put(i, buf, data)
	return data, nil
}

// fetch reads entries from lo on, of one segment, with one pread: as many as fit
// into maxBytes, or one if must is set.
func (l *Log) fetch(lo, hi Index, maxBytes int, must bool) ([]Entry, error) {
	s := l.segments.find(lo)
	hi = min(hi, s.base+Index(len(s.offsets)))
	start, end := s.offsetOf(lo)
	n := Index(1)
	for lo+n < hi {
		_, limit := s.offsetOf(lo + n)
		if limit-start > int64(min(maxBytes, runRead)) {
			break
		}
		end = limit
		n++
	}
	if n == 1 {
		buf, r, err := l.readRecord(s, lo, makeBuffer)
		if err != nil || (!must && int(r.length) > maxBytes) {
			return nil, err
		}
		return []Entry{r.entry(buf)}, nil
	}
	buf := make([]byte, end-start)
	if err := l.pread(s, buf, start); err != nil {
		return nil, err
	}
	out := make([]Entry, 0, n)
	for i := lo; i < lo+n; i++ {
		off, limit := s.offsetOf(i)
		b := buf[off-start : limit-start]
		r, err := l.verify(s, i, off, b)
		if err != nil {
			return nil, err
		}
		out = append(out, r.entry(b))
	}
	return out, nil
}

func makeBuffer(n int) []byte { return make([]byte, n) }

// entry returns the Entry of record r, whose bytes begin b.
func (r *record) entry(b []byte) Entry {
	end := recordLen + int(r.length)
	return Entry{Term: r.term, Index: r.index, Type: r.typ, Data: b[recordLen:end:end]}
}

// readRecord reads the record of entry i, live in s, and verifies it.
func (l *Log) readRecord(s *segment, i Index, buffer func(int) []byte) ([]byte, record, error) {
	off, limit := s.offsetOf(i)
	size := limit - off
	if size > oneRead {
		// Superseded records may lie between this entry and the next.
		var head [recordLen]byte
		if err := l.pread(s, head[:], off); err != nil {
			return nil, record{}, err
		}
		r, _, ok := parseRecord(head[:], s.seed, off)
		if !ok || paddedLen(int(r.length)) > size {
			return nil, record{}, l.corrupt(s, off, "the record's header is not what was written")
		}
		size = paddedLen(int(r.length))
	}
	buf := buffer(int(size))
	if err := l.pread(s, buf, off); err != nil {
		return nil, record{}, err
	}
	r, err := l.verify(s, i, off, buf)
	return buf, r, err
}

// verify checks that b begins with the record of entry i, read from offset off.
func (l *Log) verify(s *segment, i Index, off int64, b []byte) (record, error) {
	r, state, ok := parseRecord(b, s.seed, off)
	if !ok {
		return r, l.corrupt(s, off, "the record's header is not what was written")
	}
	size := paddedLen(int(r.length))
	if size > int64(len(b)) || !payloadMatches(b[:size], state) {
		return r, l.corrupt(s, off, "the record's checksum does not match")
	}
	if r.kind != kindEntry || r.index != i {
		return r, l.corrupt(s, off, fmt.Sprintf("the record there is not entry %d", i))
	}
	return r, nil
}

func (l *Log) corrupt(s *segment, off int64, reason string) error {
	return &CorruptionError{File: l.path(s.number), Offset: off, Reason: reason}
}

// pread fills buf from offset off of s.
func (l *Log) pread(s *segment, buf []byte, off int64) error {
	f, err := l.reader(s)
	if err != nil {
		return err
	}
	n, err := f.ReadAt(buf, off)
	switch {
	case n == len(buf):
		return nil
	case errors.Is(err, io.EOF):
		return l.corrupt(s, off, fmt.Sprintf("the file ends at %d, inside the record", off+int64(n)))
	}
	return err
}

// reader returns a file open for reading s, closing the one used longest ago
// when there are too many.
func (l *Log) reader(s *segment) (env.File, error) {
	l.readTick++
	s.readUsed = l.readTick
	if s.reader != nil {
		return s.reader, nil
	}
	f, err := l.o.FS.OpenFile(l.path(s.number), os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	if len(l.readers) == maxReaders {
		oldest := 0
		for k, r := range l.readers {
			if r.readUsed < l.readers[oldest].readUsed {
				oldest = k
			}
		}
		old := l.readers[oldest]
		old.reader.Close() // opened for reading only: nothing to lose
		old.reader = nil
		l.readers[oldest] = s
	} else {
		l.readers = append(l.readers, s)
	}
	s.reader = f
	return f, nil
}
