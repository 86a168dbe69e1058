package codec

import (
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unsafe"
)

// unhex turns hex with blanks and | between the fields into bytes.
func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.NewReplacer(" ", "", "|", "", "\n", "", "\t", "").Replace(s))
	if err != nil {
		t.Fatalf("bad hex in the test: %v", err)
	}
	return b
}

// decodeAny decodes a payload of op into the op's struct. PING's is an empty one.
func decodeAny(op Op, p []byte) (any, error) {
	switch op {
	case OpConnect:
		return DecodeConnect(p)
	case OpDeclare:
		return DecodeDeclare(p)
	case OpPub:
		return DecodePub(p)
	case OpSub:
		return DecodeSub(p)
	case OpAck:
		return DecodeAck(p)
	case OpNack:
		return DecodeNack(p)
	case OpPing:
		return struct{}{}, DecodePing(p)
	case OpErr:
		return DecodeErr(p)
	case OpOK:
		return DecodeOK(p)
	case OpMsg:
		return DecodeMsg(p)
	case OpPull:
		return DecodePull(p)
	case OpHeartbeat:
		return DecodeHeartbeat(p)
	case OpNotice:
		return DecodeNotice(p)
	case OpControlAck:
		return DecodeControlAck(p)
	case OpCredit:
		return DecodeCredit(p)
	}
	panic(fmt.Sprintf("no decoder for %v", op))
}

// appendAny appends the whole frame of a struct that decodeAny returns.
func appendAny(dst []byte, m any) []byte {
	switch m := m.(type) {
	case Connect:
		return AppendConnect(dst, &m)
	case Declare:
		return AppendDeclare(dst, &m)
	case Pub:
		return AppendPub(dst, &m)
	case Sub:
		return AppendSub(dst, &m)
	case Ack:
		return AppendAck(dst, &m)
	case Nack:
		return AppendNack(dst, &m)
	case struct{}:
		return AppendPing(dst)
	case Err:
		return AppendErr(dst, &m)
	case OK:
		return AppendOK(dst, &m)
	case Msg:
		return AppendMsg(dst, &m)
	case Pull:
		return AppendPull(dst, &m)
	case Heartbeat:
		return AppendHeartbeat(dst, &m)
	case Notice:
		return AppendNotice(dst, &m)
	case ControlAck:
		return AppendControlAck(dst, &m)
	case Credit:
		return AppendCredit(dst, &m)
	}
	panic(fmt.Sprintf("no encoder for %T", m))
}

// allOps lists the 15 ops.
func allOps() []Op {
	var ops []Op
	for op := OpConnect; op <= OpCredit; op++ {
		ops = append(ops, op)
	}
	return ops
}

// code returns the wire code of err, 0 for nil.
func code(t testing.TB, err error) Code {
	t.Helper()
	if err == nil {
		return 0
	}
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("%v is no *Error", err)
	}
	return e.Code
}

// mustAgree checks that the decoder and CheckPrefix judge a whole payload alike
// and returns the struct and the verdict.
func mustAgree(t testing.TB, op Op, p []byte) (any, error) {
	t.Helper()
	m, err := decodeAny(op, p)
	if got := CheckPrefix(op, p, len(p)); got != err {
		t.Fatalf("%v %x: the decoder says %v, CheckPrefix says %v", op, clip(p), err, got)
	}
	why := Explain(op, p, len(p))
	if (why == "") != (err == nil) || len(why) > MaxErrMessage {
		t.Fatalf("%v %x: verdict %v, explanation %q", op, clip(p), err, why)
	}
	return m, err
}

func clip(p []byte) []byte { return p[:min(len(p), 80)] }

// eachBytes calls f with every []byte in the struct m, also inside of structs in it.
func eachBytes(m reflect.Value, f func(name string, b []byte)) {
	for i := range m.NumField() {
		v, name := m.Field(i), m.Type().Field(i).Name
		switch {
		case v.Kind() == reflect.Struct:
			eachBytes(v, f)
		case v.Kind() == reflect.Slice:
			f(name, v.Bytes())
		}
	}
}

// mustBeViews checks that every slice in m lies within p and cannot be
// appended to in place, that is, that decoding has copied nothing.
func mustBeViews(t testing.TB, m any, p []byte) {
	t.Helper()
	eachBytes(reflect.ValueOf(m), func(name string, b []byte) {
		if len(b) == 0 {
			return
		}
		start := uintptr(unsafe.Pointer(unsafe.SliceData(p)))
		at := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
		if at < start || at+uintptr(len(b)) > start+uintptr(len(p)) {
			t.Fatalf("%T.%s is not a view of the input", m, name)
		}
		if cap(b) != len(b) {
			t.Fatalf("%T.%s has capacity behind its end: an append would overwrite the input", m, name)
		}
	})
}
