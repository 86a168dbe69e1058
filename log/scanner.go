package log

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// scanBlock is how much a scan reads at a time, unless a record is larger.
const scanBlock = 1 << 20

// scanner reads the records of one segment in order, from a file it does not
// trust.
type scanner struct {
	r     io.ReaderAt
	seed  uint32
	limit int64 // where the records end at the latest
	off   int64 // of the record that next looks at

	buf   []byte
	start int64 // file offset of buf[0]
	read  int64 // bytes read
}

func newScanner(r io.ReaderAt, h *segmentHead, limit int64, buf []byte) *scanner {
	return &scanner{r: r, seed: h.seed, limit: limit, off: headerLen, buf: buf[:0]}
}

// scanEnd says why there is no further record at scanner.off.
type scanEnd int

const (
	scanGoesOn  scanEnd = iota
	scanLimit           // the limit is reached exactly
	scanMark            // a valid mark stands there
	scanInvalid         // what stands there is no valid record; scanner.reason tells
)

// next returns the next valid record and its payload, a view until the next
// call. Unless the end is scanGoesOn there is none. err is of the disk.
func (s *scanner) next() (r record, payload []byte, end scanEnd, reason string, err error) {
	left := s.limit - s.off
	if left == 0 {
		return r, nil, scanLimit, "", nil
	}
	if left < recordLen {
		return r, nil, scanInvalid, fmt.Sprintf("%d bytes are less than a record", left), nil
	}
	b, err := s.window(s.off, recordLen)
	if err != nil {
		return r, nil, scanInvalid, "", err
	}
	r, state, ok := parseRecord(b, s.seed, s.off)
	if !ok {
		reason = "no valid record header"
		if isZero(b) {
			reason = "zeros"
		}
		return record{}, nil, scanInvalid, reason, nil
	}
	size := paddedLen(int(r.length))
	if size > left {
		return record{}, nil, scanInvalid, fmt.Sprintf("a record of %d bytes where %d are left", size, left), nil
	}
	if b, err = s.window(s.off, size); err != nil {
		return record{}, nil, scanInvalid, "", err
	}
	if !payloadMatches(b, state) {
		return record{}, nil, scanInvalid, "the record's checksum does not match", nil
	}
	if r.kind == kindMark {
		return r, nil, scanMark, "", nil
	}
	s.off += size
	return r, b[recordLen : recordLen+r.length], scanGoesOn, "", nil
}

// window returns the n bytes at off, a view until the next call. All of them
// must be below limit.
func (s *scanner) window(off, n int64) ([]byte, error) {
	if off < s.start || off+n > s.start+int64(len(s.buf)) {
		want := min(max(n, scanBlock), s.limit-off)
		if int64(cap(s.buf)) < want {
			s.buf = make([]byte, 0, want)
		}
		got, err := s.r.ReadAt(s.buf[:want], off)
		s.buf, s.start, s.read = s.buf[:got], off, s.read+int64(got)
		if int64(got) < n {
			if err == nil || errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF // the file shrank while we read it
			}
			return nil, err
		}
	}
	return s.buf[off-s.start:][:n], nil
}

// remains is what lies behind the end of the valid records.
type remains struct {
	end int64 // offset behind the last byte that is not zero; where it began if all are
	// proof is the offset of a valid record that says bytes behind the valid
	// records had been made durable, or 0.
	proof int64
}

// survey looks at everything from offset from up to the limit, stopping at the
// first proof. A record's place is a multiple of 8, so that is where it looks.
// s.off is the end of the valid records.
func (s *scanner) survey(from int64) (remains, error) {
	res := remains{end: from}
	for off := from; off < s.limit; {
		n := min(scanBlock, s.limit-off)
		b, err := s.window(off, n)
		if err != nil {
			return res, err
		}
		for at := int64(0); at < n; at += 8 {
			word := b[at:min(at+8, n)]
			if isZero(word) {
				continue
			}
			res.end = off + at + int64(len(word))
			ok, moved, err := s.proves(off + at)
			if err != nil {
				return res, err
			}
			if ok {
				res.proof = off + at
				return res, nil
			}
			if moved {
				if b, err = s.window(off, n); err != nil {
					return res, err
				}
			}
		}
		off += n
	}
	return res, nil
}

// proves reports whether a valid record at off says that bytes behind the end of
// the valid records were durable when it was written. moved is set when the
// window was used for it.
func (s *scanner) proves(off int64) (ok, moved bool, err error) {
	if s.limit-off < recordLen {
		return false, false, nil
	}
	var head [recordLen]byte
	b := s.buf[off-s.start:]
	if len(b) < recordLen {
		moved = true
		if b, err = s.window(off, recordLen); err != nil {
			return false, true, err
		}
	}
	copy(head[:], b)
	if kind := recordKind(head[recKind]); kind < kindEntry || kind > kindMark {
		return false, moved, nil
	}
	if int64(binary.BigEndian.Uint32(head[recDurable:])) <= s.off {
		return false, moved, nil
	}
	r, state, valid := parseRecord(head[:], s.seed, off)
	size := paddedLen(int(r.length))
	if !valid || size > s.limit-off {
		return false, moved, nil
	}
	if b, err = s.window(off, size); err != nil {
		return false, true, err
	}
	return payloadMatches(b, state), true, nil
}
