package codec

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// protocolDoc reads docs/protocol.md, which this package has to agree with.
func protocolDoc(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile("../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// rows returns the cells of the Markdown table lines in text, without head and rule.
func rows(text string) [][]string {
	var all [][]string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| at ") || strings.HasPrefix(line, "| code ") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		all = append(all, cells)
	}
	return all
}

// section returns what stands between a heading and the next one of any level.
func section(t *testing.T, doc, heading string) string {
	t.Helper()
	_, rest, ok := strings.Cut(doc, "\n"+heading+"\n")
	if !ok {
		t.Fatalf("docs/protocol.md has no heading %q", heading)
	}
	body, _, _ := strings.Cut(rest, "\n#")
	return body
}

func TestDocHasTheRegistry(t *testing.T) {
	doc := protocolDoc(t)
	_, chapter, _ := strings.Cut(doc, "\n## 12 Error codes\n")
	chapter, _, _ = strings.Cut(chapter, "\n## 13")
	table := rows(chapter)
	yesNo := map[bool]string{true: "yes", false: "no"}
	codes := Codes()
	if len(table) != len(codes) {
		t.Fatalf("the document has %d codes, the registry %d", len(table), len(codes))
	}
	for i, row := range codes {
		want := []string{fmt.Sprintf("0x%04X", uint16(row.Code)), row.Name, yesNo[row.Closes], yesNo[row.Retriable], row.Hint}
		got := slices.Concat(table[i][:4], table[i][5:])
		if !slices.Equal(got, want) {
			t.Errorf("the document says\n%v\nthe registry\n%v", got, want)
		}
		if table[i][4] == "" {
			t.Errorf("%v: no word on when it is sent", row.Code)
		}
	}
}

// docFields lists fields as the document's tables do: name and type, the bytes
// behind a length field as a row of their own.
func docFields(fields []field) []string {
	var want []string
	for i := range fields {
		f := &fields[i]
		want = append(want, fmt.Sprintf("%s u%d", f.name, 8*f.size))
		if f.role == sized {
			kind := "bytes"
			if f.unit == epochSize {
				kind = "u64[]"
			}
			want = append(want, strings.TrimSuffix(f.name, "_len")+" "+kind)
		}
	}
	return want
}

func TestDocHasThePayloads(t *testing.T) {
	doc := protocolDoc(t)
	for _, op := range allOps() {
		l := &layouts[op]
		tables := map[string][]field{fmt.Sprintf("### %v 0x%02X", op, uint8(op)): l.fields}
		if l.more != nil {
			tables["#### Origin of a dead letter"] = l.more
		}
		for heading, fields := range tables {
			var got []string
			for _, row := range rows(section(t, doc, heading)) {
				got = append(got, row[1]+" "+row[2])
			}
			if want := docFields(fields); !slices.Equal(got, want) {
				t.Errorf("%s:\n%v, the codec has\n%v", heading, got, want)
			}
		}
	}
}

func TestDocHasTheResults(t *testing.T) {
	doc := protocolDoc(t)
	sizes := map[string]int{"u8": 1, "u16": 2, "u32": 4, "u64": 8}
	for name, want := range map[string]int{"DECLARE": declareResultSize, "PUB": pubResultSize, "SUB": subResultSize, "CREDIT": creditResultSize} {
		sum := 0
		for _, row := range rows(section(t, doc, "#### Result of "+name)) {
			if row[0] != fmt.Sprint(sum) {
				t.Errorf("result of %s: %s is said to be at %s, want %d", name, row[1], row[0], sum)
			}
			sum += sizes[row[2]]
		}
		if sum != want {
			t.Errorf("result of %s: the fields take %d bytes, the codec's %d", name, sum, want)
		}
	}
}

// Rules are cited by number everywhere: all of them have a heading, in order.
func TestDocHasEveryRule(t *testing.T) {
	var want []string
	for _, chapter := range []struct {
		letter string
		n      int
	}{{"S", 9}, {"T", 4}, {"P", 8}, {"G", 10}, {"V", 15}, {"N", 2}, {"C", 2}} {
		for i := range chapter.n {
			want = append(want, fmt.Sprintf("%s%d", chapter.letter, i+1))
		}
	}
	var got []string
	for _, m := range regexp.MustCompile(`(?m)^#### ([STPGVNC]\d+) \S`).FindAllStringSubmatch(protocolDoc(t), -1) {
		got = append(got, m[1])
	}
	if !slices.Equal(got, want) {
		t.Errorf("rules %v, want %v", got, want)
	}
}

// The example session is made of whole frames of the ops their comments name,
// and every request has its answer.
func TestDocExampleSession(t *testing.T) {
	_, rest, ok := strings.Cut(protocolDoc(t), "\n```hex\n")
	if !ok {
		t.Fatal("docs/protocol.md has no block of hex")
	}
	block, _, _ := strings.Cut(rest, "\n```")
	var waiting []Op
	frames := 0
	for _, step := range strings.Split(block, "\n\n") {
		var comment, text, from string
		for line := range strings.Lines(step) {
			switch {
			case strings.HasPrefix(line, "# "):
				comment += line[2:]
			case strings.HasPrefix(line, "C→S ") || strings.HasPrefix(line, "S→C "):
				from, text = line[:1], line[len("C→S "):]
			default:
				text += line
			}
		}
		buf := unhex(t, text)
		op, payload, n, _, err := Cut(buf)
		if err != nil || n != len(buf) || !strings.HasPrefix(comment, op.String()) {
			t.Fatalf("%q: a frame of %v, %d of %d bytes, %v", comment, op, n, len(buf), err)
		}
		m, err := mustAgree(t, op, payload)
		if err != nil || !bytes.Equal(appendAny(nil, m), buf) {
			t.Fatalf("%q: %v", comment, err)
		}
		frames++
		switch m := m.(type) {
		case OK:
			if from != "S" || len(waiting) == 0 || waiting[0] != m.RequestOp {
				t.Fatalf("%q answers %v, waiting are %v", comment, m.RequestOp, waiting)
			}
			checkResult(t, m)
			waiting = waiting[1:]
		case Err:
			if from != "S" || len(waiting) == 0 || waiting[0] != Op(m.RequestOp) || !strings.Contains(strings.ReplaceAll(comment, "\n", " "), string(m.Message)) {
				t.Fatalf("%q: %v for op %d, %q", comment, m.Code, m.RequestOp, m.Message)
			}
			waiting = waiting[1:]
		case Msg, Notice:
			if from != "S" {
				t.Fatalf("%q comes from the client", comment)
			}
		default:
			if from != "C" {
				t.Fatalf("%q comes from the broker", comment)
			}
			waiting = append(waiting, op)
		}
	}
	if frames < 15 || len(waiting) != 0 {
		t.Errorf("%d frames, without an answer: %v", frames, waiting)
	}
}

func checkResult(t *testing.T, m OK) {
	t.Helper()
	var err error
	switch m.RequestOp {
	case OpDeclare:
		_, err = DecodeDeclareResult(m.Result)
	case OpPub:
		_, err = DecodePubResult(m.Result)
	case OpSub:
		_, err = DecodeSubResult(m.Result)
	case OpCredit:
		_, err = DecodeCreditResult(m.Result)
	default:
		if len(m.Result) != 0 {
			err = ErrMalformed
		}
	}
	if err != nil {
		t.Fatalf("the result of %v does not decode: %x", m.RequestOp, m.Result)
	}
}
