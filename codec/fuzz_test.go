package codec

import (
	"bytes"
	"encoding/binary"
	"reflect"
	"testing"
)

// FuzzFrame cuts a stream as it is, and again as it arrives byte by byte.
func FuzzFrame(f *testing.F) {
	var all []byte
	for _, g := range goldens() {
		all = append(all, unhex(f, g.hex)...)
		f.Add(unhex(f, g.hex))
	}
	f.Add(all)
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Add([]byte{0, 0, 0, 0})
	f.Add([]byte{1, 0, 0, 1, 7})
	f.Fuzz(func(t *testing.T, stream []byte) {
		for rest := stream; ; {
			op, payload, n, need, err := Cut(rest)
			checkCut(t, rest, op, payload, n, need, err)
			if n == 0 {
				return
			}
			for k := range min(n, 64) {
				if _, _, n, need, err := Cut(rest[:k]); n != 0 || need <= 0 || err != nil {
					t.Fatalf("the first %d bytes of %x: n %d, need %d, %v", k, clip(rest), n, need, err)
				}
			}
			checkPayload(t, op, payload)
			rest = rest[n:]
		}
	})
}

// checkCut holds one answer of Cut against the frame format.
func checkCut(t *testing.T, buf []byte, op Op, payload []byte, n, need int, err error) {
	t.Helper()
	switch {
	case len(buf) < PrefixLen:
		if n != 0 || need != PrefixLen-len(buf) || err != nil {
			t.Fatalf("%x: n %d, need %d, %v", buf, n, need, err)
		}
		return
	case binary.BigEndian.Uint32(buf) == 0 || binary.BigEndian.Uint32(buf) > MaxFrameLen:
		if n != 0 || need != 0 || err != ErrBadLength {
			t.Fatalf("%x: n %d, need %d, %v", clip(buf), n, need, err)
		}
		return
	case len(buf) > PrefixLen && (buf[4] == 0 || buf[4] > 15):
		if n != 0 || need != 0 || err != ErrUnknownOp || op != Op(buf[4]) {
			t.Fatalf("%x: op %v, n %d, need %d, %v", clip(buf), op, n, need, err)
		}
		return
	}
	length := int(binary.BigEndian.Uint32(buf))
	whole := len(buf) >= PrefixLen+length
	switch {
	case err != nil:
		t.Fatalf("%x: %v", clip(buf), err)
	case whole && (n != PrefixLen+length || need != 0 || !bytes.Equal(payload, buf[HeaderLen:n])):
		t.Fatalf("%x: n %d, need %d, payload of %d bytes", clip(buf), n, need, len(payload))
	case !whole && (n != 0 || need != PrefixLen+length-len(buf) || payload != nil):
		t.Fatalf("%x: n %d, need %d, payload of %d bytes", clip(buf), n, need, len(payload))
	}
}

// checkPayload holds for whatever bytes an op is given: the decoder and
// CheckPrefix agree, slices are views, and an accepted payload encodes to the
// same bytes, less a tail that its flags declare.
func checkPayload(t *testing.T, op Op, p []byte) {
	t.Helper()
	before := bytes.Clone(p)
	m, err := mustAgree(t, op, p)
	if !bytes.Equal(p, before) {
		t.Fatalf("%v: decoding has changed its input", op)
	}
	if err != nil {
		return
	}
	mustBeViews(t, m, p)
	frame := appendAny(nil, m)
	again := frame[HeaderLen:]
	if !bytes.HasPrefix(p, again) || (len(again) < len(p) && !declaresTail(m)) {
		t.Fatalf("%v %x encodes to %x", op, clip(p), clip(again))
	}
	back, err := decodeAny(op, again)
	if err != nil || !reflect.DeepEqual(back, m) {
		t.Fatalf("%v: %+v comes back as %+v, %v", op, m, back, err)
	}
}

func declaresTail(m any) bool {
	switch m := m.(type) {
	case Connect:
		return m.ClientFlags != 0
	case Declare:
		return m.Flags&^1 != 0
	case Pub:
		return m.Flags != 0
	case Sub:
		return m.Flags&^1 != 0
	case Ack:
		return m.Flags&^1 != 0
	case Nack:
		return m.Flags != 0
	case Msg:
		return m.Flags&^1 != 0
	}
	return false
}

// source deals out fuzz data as field values.
type source struct{ data []byte }

func (s *source) number(size int) uint64 {
	var b [8]byte
	n := copy(b[8-size:], s.data)
	s.data = s.data[n:]
	return binary.BigEndian.Uint64(b[:])
}

// bytes deals out at most most bytes, often none.
func (s *source) bytes(most int) []byte {
	n := min(int(s.number(2)), most, len(s.data))
	b := append([]byte{}, s.data[:n]...)
	s.data = s.data[n:]
	return b
}

// fill gives every field of the struct m a value from s. Slices stay within
// the smallest cap of all ops.
func (s *source) fill(m reflect.Value) {
	for i := range m.NumField() {
		v := m.Field(i)
		switch {
		case v.Kind() == reflect.Struct:
			s.fill(v)
		case v.Type() == reflect.TypeFor[Epochs]():
			b := s.bytes(MaxKeyLen)
			v.Set(reflect.ValueOf(Epochs(b[:len(b)/epochSize*epochSize])))
		case v.Kind() == reflect.Slice:
			v.SetBytes(s.bytes(MaxKeyLen))
		default:
			v.SetUint(s.number(int(v.Type().Size())))
		}
	}
}

// valid brings a filled struct into the ranges of the protocol.
func valid(m any) any {
	switch m := m.(type) {
	case *Connect:
		m.ProtocolVersion, m.Reserved = WireVersion, 0
		return *m
	case *Pub:
		m.Tail = nil
		return *m
	case *Sub:
		m.Partition, m.StartPolicy = AnyPartition, m.StartPolicy%2
		return *m
	case *OK:
		m.RequestOp = m.RequestOp%15 + 1
		return *m
	case *Msg:
		if m.Flags&MsgDeadLetter == 0 {
			m.Origin = Origin{}
		}
		return *m
	case *Heartbeat:
		m.State %= 2
		return *m
	case *Notice:
		m.Kind %= 2
		return *m
	case *ControlAck:
		m.NoticeKind, m.Result = m.NoticeKind%2, m.Result%3
		return *m
	case *Credit:
		m.Mode, m.Reserved = m.Mode%2, 0
		return *m
	}
	return reflect.ValueOf(m).Elem().Interface()
}

// fuzzOp runs the data through op as a payload, as the start of a payload of
// total bytes, and as a source of field values.
func fuzzOp[T any](f *testing.F, op Op) {
	for _, g := range goldens() {
		if g.op != op {
			continue
		}
		p := unhex(f, g.hex)[HeaderLen:]
		f.Add(p, uint32(len(p)))
		f.Add(p[:len(p)/2], uint32(len(p)))
		f.Add(append(bytes.Clone(p), 0, 1), uint32(MaxFrameLen-1))
	}
	f.Fuzz(func(t *testing.T, data []byte, total uint32) {
		checkPayload(t, op, data)
		if len(data) <= 128 {
			checkEveryPrefix(t, op, data, len(data))
			checkEveryPrefix(t, op, data, max(len(data), int(total%MaxFrameLen)))
		}
		m := new(T)
		(&source{data}).fill(reflect.ValueOf(m).Elem())
		x := valid(m)
		frame := appendAny(nil, x)
		gotOp, payload, n, _, err := Cut(frame)
		if gotOp != op || n != len(frame) || err != nil {
			t.Fatalf("%+v encodes to a frame of %v, %d of %d bytes, %v", x, gotOp, n, len(frame), err)
		}
		back, err := mustAgree(t, op, payload)
		if err != nil {
			t.Fatalf("%+v is refused: %v", x, err)
		}
		if pub, ok := back.(Pub); ok {
			if !bytes.Equal(pub.Tail, payload[4:]) {
				t.Fatalf("%+v: Tail is %x", x, pub.Tail)
			}
			pub.Tail = nil
			back = pub
		}
		if !reflect.DeepEqual(back, x) {
			t.Fatalf("%+v comes back as %+v", x, back)
		}
	})
}

func FuzzConnect(f *testing.F)    { fuzzOp[Connect](f, OpConnect) }
func FuzzDeclare(f *testing.F)    { fuzzOp[Declare](f, OpDeclare) }
func FuzzPub(f *testing.F)        { fuzzOp[Pub](f, OpPub) }
func FuzzSub(f *testing.F)        { fuzzOp[Sub](f, OpSub) }
func FuzzAck(f *testing.F)        { fuzzOp[Ack](f, OpAck) }
func FuzzNack(f *testing.F)       { fuzzOp[Nack](f, OpNack) }
func FuzzPing(f *testing.F)       { fuzzOp[struct{}](f, OpPing) }
func FuzzErr(f *testing.F)        { fuzzOp[Err](f, OpErr) }
func FuzzOK(f *testing.F)         { fuzzOp[OK](f, OpOK) }
func FuzzMsg(f *testing.F)        { fuzzOp[Msg](f, OpMsg) }
func FuzzPull(f *testing.F)       { fuzzOp[Pull](f, OpPull) }
func FuzzHeartbeat(f *testing.F)  { fuzzOp[Heartbeat](f, OpHeartbeat) }
func FuzzNotice(f *testing.F)     { fuzzOp[Notice](f, OpNotice) }
func FuzzControlAck(f *testing.F) { fuzzOp[ControlAck](f, OpControlAck) }
func FuzzCredit(f *testing.F)     { fuzzOp[Credit](f, OpCredit) }

// fuzzResult runs the data through a result of exactly size bytes, and as a
// source of field values.
func fuzzResult[T comparable](f *testing.F, size int, decode func([]byte) (T, error), appendTo func([]byte, *T) []byte) {
	f.Add(make([]byte, size))
	f.Add(bytes.Repeat([]byte{0xA5}, size))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := decode(data)
		switch {
		case len(data) != size && err != ErrMalformed:
			t.Fatalf("%d bytes: %v, want ErrMalformed", len(data), err)
		case len(data) == size && err != nil:
			t.Fatalf("%x: %v", data, err)
		case err == nil && !bytes.Equal(appendTo(nil, &r), data):
			t.Fatalf("%x encodes to %x", data, appendTo(nil, &r))
		}
		x := new(T)
		(&source{data}).fill(reflect.ValueOf(x).Elem())
		if back, err := decode(appendTo(nil, x)); err != nil || back != *x {
			t.Fatalf("%+v comes back as %+v, %v", *x, back, err)
		}
	})
}

func FuzzDeclareResult(f *testing.F) { fuzzResult(f, 5, DecodeDeclareResult, AppendDeclareResult) }
func FuzzPubResult(f *testing.F)     { fuzzResult(f, 26, DecodePubResult, AppendPubResult) }
func FuzzSubResult(f *testing.F)     { fuzzResult(f, 18, DecodeSubResult, AppendSubResult) }
func FuzzCreditResult(f *testing.F)  { fuzzResult(f, 20, DecodeCreditResult, AppendCreditResult) }

// FuzzRecord reads stored records: a Tail, with MsgDeadLetter an Origin.
func FuzzRecord(f *testing.F) {
	for _, g := range goldens() {
		if g.op == OpMsg {
			f.Add(unhex(f, g.hex)[MsgHeaderLen:])
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		tail, rest, err := DecodeTail(data)
		if err != nil {
			return
		}
		mustBeViews(t, struct{ Key, Value []byte }{tail.Key, tail.Value}, data)
		if tail.Len != tailFixed+len(tail.Key)+len(tail.Value) || len(rest) != len(data)-tail.Len {
			t.Fatalf("a tail of %d bytes leaves %d of %d", tail.Len, len(rest), len(data))
		}
		record := AppendPub(nil, &Pub{ProducerID: tail.ProducerID, ProducerSeq: tail.ProducerSeq,
			Flags: tail.Flags, Key: tail.Key, Value: tail.Value})[HeaderLen+4:]
		if !bytes.Equal(record, data[:tail.Len]) {
			t.Fatalf("%x encodes to %x", clip(data), clip(record))
		}
		origin, end, err := DecodeOrigin(rest)
		if err != nil {
			return
		}
		mustBeViews(t, struct{ Group []byte }{origin.Group}, data)
		if again := AppendOrigin(nil, &origin); !bytes.Equal(again, rest[:len(rest)-len(end)]) {
			t.Fatalf("origin %x encodes to %x", clip(rest), clip(again))
		}
	})
}

// FuzzNames checks the name rules on any bytes: no panic, and what is accepted
// keeps the promises that others build on.
func FuzzNames(f *testing.F) {
	for _, name := range []string{"orders.eu", "a/b", "$x", ".", "a..b", "a.dlq", "\x00", "\xff", "a b", "*"} {
		f.Add([]byte(name))
	}
	f.Fuzz(func(t *testing.T, name []byte) {
		if err := CheckTopicName(name); err == nil {
			if len(name) == 0 || len(name) > MaxTopicLen || bytes.ContainsAny(name, "*>#+ \t\r\n\x00") || bytes.HasSuffix(name, []byte(".dlq")) {
				t.Fatalf("topic name %q is accepted", name)
			}
			if CheckGroupName(name) != nil {
				t.Fatalf("%q is a topic name but no group name", name)
			}
		} else if code(t, err) != CodeInvalidTopic {
			t.Fatalf("topic name %q: %v", name, err)
		}
		if err := CheckGroupName(name); err != nil && code(t, err) != CodeMalformedPayload {
			t.Fatalf("group name %q: %v", name, err)
		}
	})
}
