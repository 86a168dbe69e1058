package cli

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"
)

// lines reads everything; a line that is too long shows as "!" and its length.
func readLines(r io.Reader, max int) (out []string, err error) {
	l := newLineReader(r, max)
	for {
		text, length, err := l.next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		switch {
		case length > int64(max) && text == nil:
			out = append(out, "!")
		case int64(len(text)) != length:
			return out, errors.New("length is not the text's")
		default:
			out = append(out, string(text))
		}
		if l.number != uint64(len(out)) {
			return out, errors.New("the line number is wrong")
		}
	}
}

func TestLinesEndAtLineFeedsOnly(t *testing.T) {
	for in, want := range map[string][]string{
		"":             nil,
		"\n":           {""},
		"a":            {"a"},
		"a\n":          {"a"},
		"a\n\nb":       {"a", "", "b"},
		"a\r\nb\rc\n":  {"a\r", "b\rc"},
		"\x00\n\xff\n": {"\x00", "\xff"},
		"\u2028\n":     {"\u2028"},
	} {
		got, err := readLines(strings.NewReader(in), 10)
		if err != nil || !equal(got, want) {
			t.Errorf("%q: %q, %v", in, got, err)
		}
	}
}

// Any content, cut anywhere by the reader, around every limit: as strings.Split sees it.
func TestLinesAreThoseOfTheWholeText(t *testing.T) {
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 0))
	const max = 300 << 10 // above the reader's buffer
	for round := range 60 {
		var text bytes.Buffer
		var want []string
		for range rnd.IntN(8) {
			n := []int{0, 1, rnd.IntN(100), 256<<10 - 1, 256 << 10, 256<<10 + 1, max - 1, max, max + 1, max + rnd.IntN(1<<20)}[rnd.IntN(10)]
			line := strings.Repeat(string(rune('a'+rnd.IntN(26))), n)
			text.WriteString(line + "\n")
			if n > max {
				line = "!"
			}
			want = append(want, line)
		}
		if rnd.IntN(2) == 0 && len(want) > 0 && want[len(want)-1] != "" {
			text.Truncate(text.Len() - 1) // no line feed at the end
		}
		var r io.Reader = bytes.NewReader(text.Bytes())
		switch rnd.IntN(3) {
		case 0:
			r = iotest.HalfReader(r)
		case 1:
			r = iotest.DataErrReader(r)
		}
		got, err := readLines(r, max)
		if err != nil || !equal(got, want) {
			t.Fatalf("seed %d, round %d: %d lines, %v; want %d", seed, round, len(got), err, len(want))
		}
	}
}

func TestAFailedReadIsNotTheEnd(t *testing.T) {
	broken := errors.New("disk gone")
	got, err := readLines(io.MultiReader(strings.NewReader("a\nhalf"), iotest.ErrReader(broken)), 10)
	if !errors.Is(err, broken) || !equal(got, []string{"a"}) {
		t.Errorf("%q, %v", got, err)
	}
}

func TestALongLineTakesNoMemoryBeyondTheLimit(t *testing.T) {
	l := newLineReader(io.LimitReader(zeros{}, 40<<20), 1<<20)
	text, length, err := l.next()
	if text != nil || length != 40<<20 || err != nil {
		t.Errorf("%d bytes of text, length %d, %v", len(text), length, err)
	}
	if cap(l.buf) > 4<<20 {
		t.Errorf("holds %d bytes", cap(l.buf))
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func equal(a, b []string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
