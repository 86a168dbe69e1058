package codec

import (
	"errors"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestCheckTopicName(t *testing.T) {
	for _, name := range []string{
		"a", "orders", "orders.eu", "a.b.c.d", "Orders", "ORDERS.eu", "日本語.東京", "é", "😀",
		"a-b_c", "a:b", "a@b", "a,b", "a=b", `a\b`, `a"b`, "a'b", "%41", "{x}", "~", "!", "?", "|", "<",
		// "/" is allowed: no rule forbids it, and names never become file names.
		"/", "a/b", "../../etc/passwd"[6:], "/etc/passwd",
		"a.$b", "a$", "a$b", // only the start of the name is reserved
		"dlq", "a.dlq.b", "a.DLQ", "adlq", "a.dlqx", "dlq.a", // the suffix .dlq alone is reserved
		"con", "-", "-rf", "_", "0", "null",
		"\u200b", "\ufeff", "\ufffd", "e\u0301", // neither white space nor control characters
		strings.Repeat("a", MaxTopicLen), strings.Repeat("é", 127) + "a",
	} {
		if err := CheckTopicName([]byte(name)); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, c := range []struct{ name, rule string }{
		{"", "empty"},
		{"*", "wildcard *"}, {"a*b", "wildcard *"}, {"orders.*", "wildcard *"},
		{">", "wildcard >"}, {"orders.>", "wildcard >"},
		{"#", "wildcard #"}, {"a#", "wildcard #"},
		{"+", "wildcard +"}, {"a.+.b", "wildcard +"},
		{".", "empty token"}, {"..", "empty token"}, {".a", "empty token"}, {"a.", "empty token"}, {"a..b", "empty token"},
		{"../a", "empty token"}, {"a/..", "empty token"},
		{".dlq", "empty token"},
		{"$", "starts with $"}, {"$sys", "starts with $"}, {"$a.b", "starts with $"},
		{"a.dlq", ".dlq"}, {"a.b.dlq", ".dlq"}, {"a.dlq.dlq", ".dlq"},
		{" ", "white space"}, {"a b", "white space"}, {" a", "white space"}, {"a ", "white space"},
		{"a\tb", "white space"}, {"a\n", "white space"}, {"a\r", "white space"}, {"\v", "white space"}, {"\f", "white space"},
		{"a\u0085b", "white space"}, {"a\u00a0b", "white space"}, {"a\u1680b", "white space"}, {"a\u2003b", "white space"},
		{"a\u2028b", "white space"}, {"a\u2029b", "white space"}, {"a\u202fb", "white space"}, {"a\u205fb", "white space"}, {"a\u3000b", "white space"},
		{"\x00", "control"}, {"a\x00b", "control"}, {"a\x01", "control"}, {"a\x1b[0m", "control"}, {"a\x7f", "control"},
		{"a\u0080", "control"}, {"a\u009f", "control"},
		{"\xff", "not UTF-8"}, {"a\xc3", "not UTF-8"}, {"a\xc0\x80", "not UTF-8"}, {"\xed\xa0\x80", "not UTF-8"},
		{"\xf5\x80\x80\x80", "not UTF-8"}, {"\x80", "not UTF-8"},
		{strings.Repeat("a", MaxTopicLen+1), "at most 255"},
	} {
		err := CheckTopicName([]byte(c.name))
		var e *Error
		if !errors.As(err, &e) || e.Code != CodeInvalidTopic || !strings.Contains(e.Message, c.rule) {
			t.Errorf("%q: %v, want INVALID_TOPIC that says %q", c.name, err, c.rule)
		}
		if e != nil && (len(e.Message) > MaxErrMessage || strings.ContainsFunc(e.Message, unicode.IsControl) || !utf8.ValidString(e.Message)) {
			t.Errorf("%q: the text cannot be sent: %q", c.name, e.Message)
		}
	}
}

func TestCheckGroupName(t *testing.T) {
	for _, name := range []string{
		"g", "billing", "日本語", "*", ">", "#", "+", ".", "..", ".a", "a.", "$sys", "a.dlq", "a/b", // topic rules do not apply (G1)
		strings.Repeat("g", MaxGroupLen),
	} {
		if err := CheckGroupName([]byte(name)); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, c := range []struct{ name, rule string }{
		{"", "empty"}, {"a b", "white space"}, {"\t", "white space"}, {"a\u00a0", "white space"}, {"a\u3000", "white space"},
		{"\x00", "control"}, {"a\x7f", "control"}, {"a\u009f", "control"},
		{"\xff", "not UTF-8"}, {"a\xc3", "not UTF-8"},
		{strings.Repeat("g", MaxGroupLen+1), "at most 255"},
	} {
		err := CheckGroupName([]byte(c.name))
		var e *Error
		if !errors.As(err, &e) || e.Code != CodeMalformedPayload || !strings.Contains(e.Message, c.rule) {
			t.Errorf("%q: %v, want MALFORMED_PAYLOAD that says %q", c.name, err, c.rule)
		}
	}
}

func TestPartitionFor(t *testing.T) {
	// The published test values of FNV-1a 32.
	for key, hash := range map[string]uint32{
		"": 0x811C9DC5, "a": 0xE40C292C, "b": 0xE70C2DE5, "foobar": 0xBF9CF968, "hello": 0x4F9F2CAB,
		"\xff\x00\x00\x01": 0xC48FB86D,
	} {
		for _, count := range []uint16{1, 2, 3, 4, 1024, 65535} {
			if got, want := PartitionFor([]byte(key), count), Partition(hash%uint32(count)); got != want {
				t.Errorf("key %q, %d partitions: %d, want %d", key, count, got, want)
			}
		}
	}
}

func TestIDs(t *testing.T) {
	for source := TopicID(1); source <= 9; source += 2 {
		twin := source + 1
		if source.IsTwin() || !twin.IsTwin() || source.Twin() != twin || twin.Source() != source || source.Source() != source {
			t.Errorf("pair %d, %d is mixed up", source, twin)
		}
	}
	if TopicID(0).IsTwin() {
		t.Error("0 is a twin")
	}
	if OpControlAck.String() != "CONTROL_ACK" || Op(0).String() != "op 0x00" || Op(0x10).String() != "op 0x10" {
		t.Errorf("%v %v %v", OpControlAck, Op(0), Op(0x10))
	}
	var e Epochs
	for i := range 3 {
		e = AppendEpoch(e, OwnershipEpoch(i)<<32|7)
	}
	if e.Len() != 3 || e.At(0) != 7 || e.At(2) != 2<<32|7 {
		t.Errorf("%d epochs, %x", e.Len(), []byte(e))
	}
}
