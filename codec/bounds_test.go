package codec

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestFrameLengthBounds(t *testing.T) {
	for _, c := range []struct {
		length uint32
		err    error
		need   int // once the op byte is there
	}{
		{0, ErrBadLength, 0},
		{1, nil, 0},
		{2, nil, 1},
		{MaxFrameLen - 1, nil, MaxFrameLen - 2},
		{MaxFrameLen, nil, MaxFrameLen - 1},
		{MaxFrameLen + 1, ErrBadLength, 0},
		{0x7FFFFFFF, ErrBadLength, 0},
		{0x80000000, ErrBadLength, 0},
		{0xFFFFFFFF, ErrBadLength, 0},
		{0x47455420, ErrBadLength, 0}, // "GET ": an HTTP request
	} {
		buf := binary.BigEndian.AppendUint32(nil, c.length)
		for k := range PrefixLen {
			if _, _, n, need, err := Cut(buf[:k]); n != 0 || need != PrefixLen-k || err != nil {
				t.Errorf("length %d, %d bytes of it: n %d, need %d, %v", c.length, k, n, need, err)
			}
		}
		if _, _, n, _, err := Cut(buf); n != 0 || err != c.err {
			t.Errorf("length %d: n %d, %v; want %v", c.length, n, err, c.err)
		}
		_, _, _, need, err := Cut(append(buf, byte(OpPing)))
		if need != c.need || err != c.err {
			t.Errorf("length %d and an op: need %d, %v; want %d, %v", c.length, need, err, c.need, c.err)
		}
	}
}

func TestOpByteBounds(t *testing.T) {
	for b := range 256 {
		known := b >= 1 && b <= 15
		// The verdict falls on byte 5, whatever body is still to come.
		for _, length := range []uint32{1, 100, MaxFrameLen} {
			op, _, _, _, err := Cut(append(binary.BigEndian.AppendUint32(nil, length), byte(b)))
			if op != Op(b) || (err == nil) != known || (err != nil && err != ErrUnknownOp) {
				t.Errorf("op 0x%02X, length %d: op %v, %v", b, length, op, err)
			}
		}
	}
}

// capCase is a length field with a cap: with(n) is a payload with n bytes (or
// epochs) there, at is where the length field stands.
type capCase struct {
	name  string
	op    Op
	cap   int
	at    int
	size  int // of the length field
	frame func(n int) []byte
}

func capCases() []capCase {
	fill := func(n int) []byte { return bytes.Repeat([]byte("x"), n) }
	return []capCase{
		{"CONNECT.token", OpConnect, 0xFFFF, 3, 2, func(n int) []byte {
			return AppendConnect(nil, &Connect{ProtocolVersion: 1, Token: fill(n)})
		}},
		{"DECLARE.topic", OpDeclare, MaxTopicLen, 0, 2, func(n int) []byte {
			return AppendDeclare(nil, &Declare{Topic: fill(n)})
		}},
		{"PUB.key", OpPub, MaxKeyLen, 22, 2, func(n int) []byte {
			return AppendPub(nil, &Pub{Key: fill(n), Value: []byte("v")})
		}},
		{"PUB.value", OpPub, MaxValueLen, 25, 4, func(n int) []byte {
			return AppendPub(nil, &Pub{Key: []byte("k"), Value: fill(n)})
		}},
		{"PUB.value behind the largest key", OpPub, MaxValueLen, 24 + MaxKeyLen, 4, func(n int) []byte {
			return AppendPub(nil, &Pub{Key: fill(MaxKeyLen), Value: fill(n)})
		}},
		{"SUB.group", OpSub, MaxGroupLen, 0, 2, func(n int) []byte {
			return AppendSub(nil, &Sub{Group: fill(n), Partition: AnyPartition})
		}},
		{"ERR.message", OpErr, MaxErrMessage, 3, 2, func(n int) []byte {
			return AppendErr(nil, &Err{Message: fill(n)})
		}},
		{"OK.result", OpOK, MaxOKResult, 1, 4, func(n int) []byte {
			return AppendOK(nil, &OK{RequestOp: OpPub, Result: fill(n)})
		}},
		{"MSG.key", OpMsg, MaxKeyLen, 50, 2, func(n int) []byte {
			return AppendMsg(nil, &Msg{Key: fill(n), Value: []byte("v")})
		}},
		{"MSG.value", OpMsg, MaxValueLen, 52, 4, func(n int) []byte {
			return AppendMsg(nil, &Msg{Value: fill(n)})
		}},
		{"MSG.value of the largest twin's message", OpMsg, MaxValueLen, 52 + MaxKeyLen, 4, func(n int) []byte {
			return AppendMsg(nil, &Msg{Flags: MsgDeadLetter, Key: fill(MaxKeyLen), Value: fill(n),
				Origin: Origin{Group: fill(MaxGroupLen)}})
		}},
		{"MSG.group", OpMsg, MaxGroupLen, 56 + 3 + 15, 2, func(n int) []byte {
			return AppendMsg(nil, &Msg{Flags: MsgDeadLetter, Value: []byte("val"), Origin: Origin{Group: fill(n)}})
		}},
		{"PULL.ownership_epochs", OpPull, 0xFFFF, 18, 2, func(n int) []byte {
			return AppendPull(nil, &Pull{OwnershipEpochs: Epochs(fill(8 * n))})
		}},
	}
}

func TestCaps(t *testing.T) {
	for _, c := range capCases() {
		t.Run(c.name, func(t *testing.T) {
			for _, n := range []int{0, 1, c.cap - 1, c.cap} {
				frame := c.frame(n)
				op, p, size, _, err := Cut(frame)
				if op != c.op || size != len(frame) || err != nil {
					t.Fatalf("%d: op %v, %d of %d bytes, %v", n, op, size, len(frame), err)
				}
				if got := announced(p[c.at:], c.size); got != uint64(n) {
					t.Fatalf("%d: the length field at %d holds %d", n, c.at, got)
				}
				if _, err := mustAgree(t, op, p); err != nil {
					t.Errorf("%d: %v", n, err)
				}
			}
			c.overCap(t)
			c.oneOver(t)
			mustPanic(t, "over its cap", func() { c.frame(c.cap + 1) })
		})
	}
}

// overCap announces cap+1 and much more without sending the bytes, as a whole
// frame and as the start of a longer one that could hold them.
func (c *capCase) overCap(t *testing.T) {
	if c.cap == 1<<(8*c.size)-1 {
		return // the field cannot hold more
	}
	short := c.frame(0)[HeaderLen:]
	for _, n := range []uint64{uint64(c.cap) + 1, 1<<(8*c.size-1) - 1, 1 << (8*c.size - 1), 1<<(8*c.size) - 1} {
		if n <= uint64(c.cap) {
			continue
		}
		p := bytes.Clone(short)
		for i := range c.size {
			p[c.at+i] = byte(n >> (8 * (c.size - 1 - i)))
		}
		if _, err := mustAgree(t, c.op, p); err != ErrMalformed {
			t.Errorf("%d announced: %v, want ErrMalformed", n, err)
		}
		total := min(len(p)+int(n), MaxFrameLen-1)
		if err := CheckPrefix(c.op, p[:c.at+c.size], total); err != ErrMalformed {
			t.Errorf("%d announced in a frame of %d, not a byte of it there: %v, want ErrMalformed", n, total, err)
		}
	}
}

// oneOver announces cap+1 and has all of it there: the lengths agree, the cap
// alone is broken.
func (c *capCase) oneOver(t *testing.T) {
	full := c.frame(c.cap)[HeaderLen:]
	if c.cap == 1<<(8*c.size)-1 || len(full)+1 > MaxFrameLen-1 {
		return // neither the field nor a frame can hold more
	}
	p := slices.Insert(full, c.at+c.size, 'x')
	for i := range c.size {
		p[c.at+i] = byte((c.cap + 1) >> (8 * (c.size - 1 - i)))
	}
	if _, err := mustAgree(t, c.op, p); err != ErrMalformed {
		t.Errorf("%d bytes, all there: %v, want ErrMalformed", c.cap+1, err)
	}
}

func announced(p []byte, size int) uint64 {
	var n uint64
	for _, b := range p[:size] {
		n = n<<8 | uint64(b)
	}
	return n
}

func mustPanic(t *testing.T, text string, f func()) {
	t.Helper()
	defer func() {
		if got := fmt.Sprint(recover()); !strings.Contains(got, text) {
			t.Errorf("panics with %q, want it to contain %q", got, text)
		}
	}()
	f()
}

func TestEncodersRefuseWhatNoFieldCanHold(t *testing.T) {
	mustPanic(t, "whole epochs", func() { AppendPull(nil, &Pull{OwnershipEpochs: make(Epochs, 9)}) })
	mustPanic(t, "over its cap", func() { AppendMsgHeader(nil, &Msg{}, MaxFrameLen) })
	mustPanic(t, "over its cap", func() { AppendOrigin(nil, &Origin{Group: make([]byte, MaxGroupLen+1)}) })
}

// Inner lengths that point past the end, in each op that has one.
func TestInnerLengthsPastTheEnd(t *testing.T) {
	for _, c := range capCases() {
		p := c.frame(3)[HeaderLen:]
		p[c.at+c.size-1]++
		if _, err := mustAgree(t, c.op, p); err != ErrMalformed {
			t.Errorf("%s: one more than is there: %v, want ErrMalformed", c.name, err)
		}
		p[c.at+c.size-1] -= 2
		if _, err := mustAgree(t, c.op, p); err != ErrMalformed {
			t.Errorf("%s: one less than is there: %v, want ErrMalformed", c.name, err)
		}
	}
}

// For each number with a range: every value of its lowest byte, and every
// single bit of the others.
func TestEnumsAndReservedFields(t *testing.T) {
	for _, c := range []struct {
		name string
		op   Op
		m    any
		at   int
		size int
		good func(v uint64) bool
		err  error
	}{
		{"CONNECT.protocol_version", OpConnect, Connect{ProtocolVersion: 1}, 0, 1, func(v uint64) bool { return v == 1 }, ErrUnsupportedVersion},
		{"CONNECT.reserved", OpConnect, Connect{ProtocolVersion: 1}, 5, 4, func(v uint64) bool { return v == 0 }, ErrMalformed},
		{"SUB.partition", OpSub, Sub{Partition: AnyPartition}, 4, 2, func(v uint64) bool { return v == 0xFFFF }, ErrMalformed},
		{"SUB.start_policy", OpSub, Sub{Partition: AnyPartition}, 6, 1, func(v uint64) bool { return v <= 1 }, ErrMalformed},
		{"NACK.reason", OpNack, Nack{}, 30, 1, func(uint64) bool { return true }, nil},
		{"ERR.code", OpErr, Err{}, 0, 2, func(uint64) bool { return true }, nil},
		{"ERR.request_op", OpErr, Err{}, 2, 1, func(uint64) bool { return true }, nil},
		{"OK.request_op", OpOK, OK{}, 0, 1, func(v uint64) bool { return v >= 1 && v <= 15 }, ErrMalformed},
		{"MSG.reason", OpMsg, Msg{Flags: MsgDeadLetter}, 56 + 14, 1, func(uint64) bool { return true }, nil},
		{"HEARTBEAT.state", OpHeartbeat, Heartbeat{}, 18, 1, func(v uint64) bool { return v <= 1 }, ErrMalformed},
		{"NOTICE.kind", OpNotice, Notice{}, 8, 1, func(v uint64) bool { return v <= 1 }, ErrMalformed},
		{"CONTROL_ACK.notice_kind", OpControlAck, ControlAck{}, 8, 1, func(v uint64) bool { return v <= 1 }, ErrMalformed},
		{"CONTROL_ACK.result", OpControlAck, ControlAck{}, 27, 1, func(v uint64) bool { return v <= 2 }, ErrMalformed},
		{"CREDIT.mode", OpCredit, Credit{}, 14, 1, func(v uint64) bool { return v <= 1 }, ErrMalformed},
		{"CREDIT.reserved", OpCredit, Credit{}, 21, 4, func(v uint64) bool { return v == 0 }, ErrMalformed},
	} {
		p := appendAny(nil, c.m)[HeaderLen:]
		base := announced(p[c.at:], c.size)
		values := make([]uint64, 0, 256+32)
		for v := range uint64(256) {
			values = append(values, base&^0xFF|v)
		}
		for bit := 8; bit < 8*c.size; bit++ {
			values = append(values, base^1<<bit)
		}
		for _, v := range values {
			for i := range c.size {
				p[c.at+i] = byte(v >> (8 * (c.size - 1 - i)))
			}
			var want error
			if !c.good(v) {
				want = c.err
			}
			if _, err := mustAgree(t, c.op, p); err != want {
				t.Errorf("%s = %d: %v, want %v", c.name, v, err, want)
			}
			// The verdict falls with the field, not with the end of the frame.
			if err := CheckPrefix(c.op, p[:c.at+c.size], len(p)); err != want {
				t.Errorf("%s = %d, nothing behind it: %v, want %v", c.name, v, err, want)
			}
		}
	}
}

// S3: a tail is ignored only behind a set flag bit that this version does not know.
func TestTails(t *testing.T) {
	known := map[Op]uint16{OpConnect: 0, OpDeclare: 1, OpPub: 0, OpSub: 1, OpAck: 1, OpNack: 0, OpMsg: 1}
	withFlags := func(op Op, f uint16) any {
		switch op {
		case OpConnect:
			return Connect{ProtocolVersion: 1, ClientFlags: f, Token: []byte("t")}
		case OpDeclare:
			return Declare{Topic: []byte("t"), Flags: f}
		case OpPub:
			return Pub{Flags: f, Value: []byte("v")}
		case OpSub:
			return Sub{Group: []byte("g"), Partition: AnyPartition, Flags: f}
		case OpAck:
			return Ack{Flags: f}
		case OpNack:
			return Nack{Flags: f}
		case OpMsg:
			return Msg{Flags: f, Value: []byte("v"), Origin: Origin{Group: []byte("g")}}
		}
		return nil
	}
	for op, mask := range known {
		for bit := -1; bit < 16; bit++ {
			var f uint16
			if bit >= 0 {
				f = 1 << bit
			}
			for _, f := range []uint16{f, f | mask} {
				frame := appendAny(nil, withFlags(op, f))
				p := frame[HeaderLen:]
				if _, err := mustAgree(t, op, p); err != nil {
					t.Errorf("%v, flags 0x%04X, no tail: %v", op, f, err)
				}
				var want error
				if f&^mask == 0 {
					want = ErrMalformed
				}
				for _, tail := range []int{1, 2, 1000} {
					long := append(bytes.Clone(p), make([]byte, tail)...)
					m, err := mustAgree(t, op, long)
					if err != want {
						t.Errorf("%v, flags 0x%04X, tail of %d: %v, want %v", op, f, tail, err, want)
					}
					if err == nil && !bytes.Equal(appendAny(nil, m), frame) {
						t.Errorf("%v, flags 0x%04X: the tail of %d is not left out", op, f, tail)
					}
				}
			}
		}
	}
	for _, g := range goldens() {
		if _, ok := known[g.op]; ok {
			continue
		}
		p := append(unhex(t, g.hex)[HeaderLen:], 0)
		if _, err := mustAgree(t, g.op, p); err != ErrMalformed {
			t.Errorf("%s has no flags field, with a tail: %v, want ErrMalformed", g.name, err)
		}
	}
}

// S2: a CONNECT has its largest frame, also with a declared tail.
func TestLargestConnect(t *testing.T) {
	p := AppendConnect(nil, &Connect{ProtocolVersion: 1, ClientFlags: 4})[HeaderLen:]
	for size, want := range map[int]error{MaxConnectFrame - 1: nil, MaxConnectFrame: ErrMalformed} {
		long := append(bytes.Clone(p), make([]byte, size-len(p))...)
		if _, err := mustAgree(t, OpConnect, long); err != want {
			t.Errorf("a payload of %d bytes: %v, want %v", size, err, want)
		}
		if err := CheckPrefix(OpConnect, nil, size); err != want {
			t.Errorf("a payload of %d bytes announced: %v, want %v", size, err, want)
		}
	}
	if MaxConnectFrame != 65545 {
		t.Errorf("MaxConnectFrame is %d, want 65545", MaxConnectFrame)
	}
}

func TestErrTextIsCutBetweenCharacters(t *testing.T) {
	for _, c := range []struct {
		text string
		want int
	}{
		{strings.Repeat("a", 511), 511},
		{strings.Repeat("a", 512), 512},
		{strings.Repeat("a", 513), 512},
		{strings.Repeat("a", 511) + "é", 511},
		{strings.Repeat("a", 510) + "é", 512},
		{strings.Repeat("a", 510) + "€", 510},
		{strings.Repeat("a", 509) + "😀", 509},
		{strings.Repeat("a", 508) + "😀", 512},
		{strings.Repeat("\x80", 600), 512},
	} {
		m, err := DecodeErr(AppendErrCode(nil, CodeInternal, 3, c.text)[HeaderLen:])
		if err != nil || len(m.Message) != c.want || !strings.HasPrefix(c.text, string(m.Message)) {
			t.Errorf("%d bytes of text ending in %q: %d bytes sent, %v; want %d",
				len(c.text), c.text[len(c.text)-4:], len(m.Message), err, c.want)
		}
	}
	m, _ := DecodeErr(AppendErrCode(nil, CodeUnknownTopic, 3, "")[HeaderLen:])
	if string(m.Message) != CodeUnknownTopic.Hint() {
		t.Errorf("without a text: %q, want the hint", m.Message)
	}
}
