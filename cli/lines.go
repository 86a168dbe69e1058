package cli

import (
	"bufio"
	"errors"
	"io"
)

// lineReader cuts a stream into lines at \n, which belongs to no line. An empty line is one; the last one needs no \n. Nothing else is special: a \r
// before the \n, NUL, and bytes that are not UTF-8 are content.
//
// It holds at most max bytes of a line. Of a longer one the rest is read past.
type lineReader struct {
	r      *bufio.Reader
	max    int
	buf    []byte // the line when it does not fit into r's buffer
	number uint64 // of the line returned last; the first is 1
}

func newLineReader(r io.Reader, max int) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, 256<<10), max: max}
}

// next returns the next line, a view until the following call. length is the line's whole length in
// bytes; where it exceeds max, text is nil. io.EOF tells that no line is left.
func (l *lineReader) next() (text []byte, length int64, err error) {
	chunk, err := l.r.ReadSlice('\n')
	if err == nil && len(chunk)-1 <= l.max { // the usual case: no copy
		l.number++
		return chunk[:len(chunk)-1], int64(len(chunk) - 1), nil
	}
	l.buf = l.buf[:0]
	for {
		ended := err == nil
		if ended {
			chunk = chunk[:len(chunk)-1]
		}
		length += int64(len(chunk))
		if length <= int64(l.max) {
			l.buf = append(l.buf, chunk...)
		}
		switch {
		case ended, errors.Is(err, io.EOF) && length > 0:
			l.number++
			if length > int64(l.max) {
				return nil, length, nil
			}
			return l.buf, length, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, 0, err // io.EOF, or reading failed: an unfinished line is not a line then
		}
		chunk, err = l.r.ReadSlice('\n')
	}
}
