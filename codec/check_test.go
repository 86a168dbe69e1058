package codec

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
)

// checkEveryPrefix proves CheckPrefix for one payload, or the start of one of
// total bytes: a verdict stays once it is there, a whole payload gets the
// decoder's, and open is open: there is a next byte that keeps it open, so by
// induction there is a rest that decodes.
func checkEveryPrefix(t testing.TB, op Op, p []byte, total int) {
	t.Helper()
	var verdict error
	for k := 0; k <= len(p); k++ {
		got := CheckPrefix(op, p[:k], total)
		if verdict != nil && got != verdict {
			t.Fatalf("%v, %d of %d bytes %x: verdict %v, but %v one byte before", op, k, total, clip(p), got, verdict)
		}
		verdict = got
		if (Explain(op, p[:k], total) == "") != (got == nil) {
			t.Fatalf("%v, %d of %d bytes %x: verdict %v, explanation %q", op, k, total, clip(p), got, Explain(op, p[:k], total))
		}
		// A CONNECT too short for its fields is lost, but with which code only its version says.
		undecided := op == OpConnect && k == 0 && total < connectFixed
		if got == nil && k < total && !undecided && !canGoOn(op, p[:k], total) {
			t.Fatalf("%v, %d of %d bytes %x: open, but every next byte is refused", op, k, total, clip(p[:k]))
		}
	}
	if len(p) == total {
		if _, err := mustAgree(t, op, p); err != verdict {
			t.Fatalf("%v %x: decoder %v, CheckPrefix %v", op, clip(p), err, verdict)
		}
	}
}

func canGoOn(op Op, p []byte, total int) bool {
	next := append(bytes.Clone(p), 0)
	for b := range 256 {
		next[len(p)] = byte(b)
		if CheckPrefix(op, next, total) == nil {
			return true
		}
	}
	return false
}

func TestCheckPrefixOfGoldensWithOtherLengths(t *testing.T) {
	for _, g := range goldens() {
		p := unhex(t, g.hex)[HeaderLen:]
		for total := range len(p) + 20 {
			checkEveryPrefix(t, g.op, p[:min(len(p), total)], total)
		}
		for _, total := range []int{1000, 65544, 65545, MaxFrameLen - 2, MaxFrameLen - 1} {
			checkEveryPrefix(t, g.op, p, total)
		}
	}
}

func TestCheckPrefixOfDamagedGoldens(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 1))
	defer func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	}()
	for _, g := range goldens() {
		whole := unhex(t, g.hex)[HeaderLen:]
		for range 60 {
			p := bytes.Clone(whole)
			for range rng.IntN(3) {
				if len(p) > 0 {
					p[rng.IntN(len(p))] = []byte{0, 1, 2, 0x7F, 0x80, 0xFF}[rng.IntN(6)]
				}
			}
			p = p[:rng.IntN(len(p)+1)]
			checkEveryPrefix(t, g.op, p, len(p)+rng.IntN(3)*rng.IntN(300))
		}
	}
}

// The verdict falls on the first byte that makes it certain.
func TestCheckPrefixDecidesAtOnce(t *testing.T) {
	for _, c := range []struct {
		name  string
		op    Op
		hex   string
		total int
		err   error
	}{
		{"PING with a payload", OpPing, "", 1, ErrMalformed},
		{"CONNECT, nothing there", OpConnect, "", 9, nil},
		{"CONNECT without a payload", OpConnect, "", 0, ErrMalformed},
		{"CONNECT, another version", OpConnect, "02", 100, ErrUnsupportedVersion},
		{"CONNECT, another version in a length that is none of ours", OpConnect, "00", 3, ErrUnsupportedVersion},
		{"CONNECT, too short for its fields", OpConnect, "01", 8, ErrMalformed},
		{"CONNECT, token past the end", OpConnect, "01 0000 0002", 10, ErrMalformed},
		{"CONNECT, token past the end by its first byte", OpConnect, "01 0000 01", 10, ErrMalformed},
		{"CONNECT, undeclared tail", OpConnect, "01 0000 0000", 10, ErrMalformed},
		{"CONNECT, declared tail", OpConnect, "01 0100 0000", 10, nil},
		{"CONNECT, first byte of reserved", OpConnect, "01 0000 0000 01", 9, ErrMalformed},
		{"DECLARE, too short for its fields", OpDeclare, "", 5, ErrMalformed},
		{"DECLARE, topic_len 256 by its first byte", OpDeclare, "01", 1000, ErrMalformed},
		{"DECLARE, topic_len past the end", OpDeclare, "0002", 7, ErrMalformed},
		{"DECLARE, a tail that flags may declare", OpDeclare, "0001 61 0000", 9, nil},
		{"DECLARE, a tail that flags do not declare", OpDeclare, "0001 61 0000 0001", 9, ErrMalformed},
		{"PUB, too short for its fields", OpPub, "", 27, ErrMalformed},
		{"PUB, larger than all its caps, flags may declare it", OpPub, "", MaxFrameLen - 1, nil},
		{"PUB, larger than all its caps, flags do not declare it", OpPub, "0001 0000 0000000000000001 0000000000000001 0000", MaxFrameLen - 1, ErrMalformed},
		{"PUB, key_len 256 by its first byte", OpPub, "0001 0000 0000000000000001 0000000000000001 0000 01", 1000, ErrMalformed},
		{"PUB, key past the end", OpPub, "0001 0000 0000000000000001 0000000000000001 0000 0002", 29, ErrMalformed},
		{"PUB, value_len over the cap by its first byte", OpPub, "0001 0000 0000000000000001 0000000000000001 0000 0000 01", MaxFrameLen - 1, ErrMalformed},
		{"PUB, value past the end", OpPub, "0001 0000 0000000000000001 0000000000000001 0000 0000 00000002", 29, ErrMalformed},
		{"PUB, value too short for the frame", OpPub, "0001 0000 0000000000000001 0000000000000001 0000 0000 00000001", 30, ErrMalformed},
		{"SUB, partition by its first byte", OpSub, "0001 67 0001 00", 16, ErrMalformed},
		{"SUB, group over the cap", OpSub, "0100", 1000, ErrMalformed},
		{"SUB, start_policy", OpSub, "0001 67 0001 ffff 02", 16, ErrMalformed},
		{"ERR, longer than its cap", OpErr, "", 5 + 513, ErrMalformed},
		{"ERR, as long as its cap", OpErr, "", 5 + 512, nil},
		{"OK, request_op", OpOK, "10", 5, ErrMalformed},
		{"OK, result_len past the end", OpOK, "03 00000001", 5, ErrMalformed},
		{"MSG, Origin does not fit", OpMsg, strings.Repeat("00", 48) + "0001", 56 + 16, ErrMalformed},
		{"MSG, Origin fits", OpMsg, strings.Repeat("00", 48) + "0001", 56 + 17, nil},
		{"MSG, group over the cap", OpMsg, strings.Repeat("00", 48) + "0001 0000 00000000" + strings.Repeat("00", 15) + "0100", 56 + 17 + 256, ErrMalformed},
		{"PULL, epochs that are no multiple of 8", OpPull, "", 33, ErrMalformed},
		{"PULL, fewer epochs than the frame has room for", OpPull, strings.Repeat("00", 18) + "0000", 40, ErrMalformed},
		{"PULL, more epochs than the frame has room for", OpPull, strings.Repeat("00", 18) + "01", 40, ErrMalformed},
		{"HEARTBEAT, too long", OpHeartbeat, "", 20, ErrMalformed},
		{"HEARTBEAT, too short", OpHeartbeat, "", 18, ErrMalformed},
		{"NOTICE, kind", OpNotice, "0000000000000001 02", 39, ErrMalformed},
		{"CREDIT, mode", OpCredit, strings.Repeat("00", 14) + "02", 25, ErrMalformed},
	} {
		p := unhex(t, c.hex)
		if err := CheckPrefix(c.op, p, c.total); err != c.err {
			t.Errorf("%s: %v, want %v", c.name, err, c.err)
		}
		checkEveryPrefix(t, c.op, p, c.total)
	}
}

func TestExplainNamesTheField(t *testing.T) {
	for _, c := range []struct {
		op    Op
		hex   string
		total int
		want  string
	}{
		{OpConnect, "07", 9, "CONNECT.protocol_version is 7; this broker speaks version 1."},
		{OpDeclare, "0100", 1000, "DECLARE.topic_len must be 0 to 255; fix the client."},
		{OpSub, "0001 67 0001 0000", 16, "SUB.partition must be 65535; fix the client."},
		{OpPub, "", 3, "The payload of PUB has 3 bytes, but its fields take at least 28; fix its lengths."},
		{OpPing, "", 1, "The payload of PING has at least 1 bytes behind its last field that no flag declares; leave them out."},
		{OpPing, "", 0, ""},
	} {
		if got := Explain(c.op, unhex(t, c.hex), c.total); got != c.want {
			t.Errorf("%v %s: %q, want %q", c.op, c.hex, got, c.want)
		}
	}
}
