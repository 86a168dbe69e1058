package loop_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/mortarmq/mortarmq/codec"
	"github.com/mortarmq/mortarmq/loop"
)

// beginnings are starts of frames that already decide their fate (S1): exactly
// these bytes are sent and the ERR must come.
type beginning struct {
	name string
	send []byte
	op   codec.Op
	code codec.Code
}

const huge = codec.MaxFrameLen - 1

func TestRefusesOnTheDecisiveByte(t *testing.T) {
	s, _ := automatic(t, loop.Config{})
	before := []beginning{
		{"length 0", []byte{0, 0, 0, 0}, 0, codec.CodeBadLength},
		{"length above the cap", []byte{1, 0, 0, 1}, 0, codec.CodeBadLength},
		{"HTTP", []byte("GET "), 0, codec.CodeBadLength},
		{"op 0", raw(0, huge), 0, codec.CodeUnknownOp},
		{"op 0x10", raw(0x10, huge), 0x10, codec.CodeUnknownOp},
		{"op 0xFF", raw(0xFF, huge), 0xFF, codec.CodeUnknownOp},
		{"MSG", raw(0x0A, huge), codec.OpMsg, codec.CodeUnknownOp},
		{"NOTICE", raw(0x0D, huge), codec.OpNotice, codec.CodeUnknownOp},
		{"CONNECT over S2", raw(1, codec.MaxConnectFrame), codec.OpConnect, codec.CodeMalformedPayload},
		{"CONNECT of version 2", raw(1, 9, 2), codec.OpConnect, codec.CodeUnsupportedVersion},
		{"CONNECT reserved", raw(1, 9, 1, 0, 0, 0, 0, 1), codec.OpConnect, codec.CodeMalformedPayload},
		{"PING with payload", raw(7, 1), codec.OpPing, codec.CodeMalformedPayload},
		{"ERR too long", raw(8, 5+513), codec.OpErr, codec.CodeMalformedPayload},
	}
	for op := codec.OpDeclare; op <= codec.OpCredit; op++ {
		switch op {
		case codec.OpPing, codec.OpErr, codec.OpMsg, codec.OpNotice:
		default:
			before = append(before, beginning{op.String() + " unauthenticated", raw(byte(op), huge), op, codec.CodeNotAuthenticated})
		}
	}
	after := []beginning{
		{"length 0", []byte{0, 0, 0, 0}, 0, codec.CodeBadLength},
		{"second CONNECT", raw(1, 9), codec.OpConnect, codec.CodeMalformedPayload},
		{"MSG", raw(0x0A, huge), codec.OpMsg, codec.CodeUnknownOp},
		{"op 0x80", raw(0x80, 0), 0x80, codec.CodeUnknownOp},
		{"PUB too short", raw(3, 27), codec.OpPub, codec.CodeMalformedPayload},
		{"PUB key 256", raw(3, huge, append(make([]byte, 22), 1, 0)...), codec.OpPub, codec.CodeMalformedPayload},
		{"DECLARE topic 256", raw(2, 300, 1, 0), codec.OpDeclare, codec.CodeMalformedPayload},
		{"SUB empty group", raw(4, 30, 0, 0), codec.OpSub, codec.CodeMalformedPayload},
		{"HEARTBEAT too long", raw(0x0C, 20), codec.OpHeartbeat, codec.CodeMalformedPayload},
		{"OK names no op", raw(9, 5, 0x10), codec.OpOK, codec.CodeMalformedPayload},
	}
	for connected, list := range [][]beginning{before, after} {
		for _, c := range list {
			t.Run(fmt.Sprintf("%d %s", connected, c.name), func(t *testing.T) {
				t.Parallel()
				for _, drip := range []bool{false, true} {
					p := dial(t, s)
					if connected == 1 {
						p = session(t, s)
					}
					if drip {
						for i := range c.send {
							p.send(c.send[i : i+1])
						}
					} else {
						p.send(c.send)
					}
					if text := p.refused(c.op, c.code); len(text) < 20 {
						t.Errorf("the text does not help: %q", text)
					}
				}
			})
		}
	}
}

// whole frames of every op that a client may send, all answered by the automatic backend.
func everyOp() [][]byte {
	return [][]byte{
		declare("a"), pub(1, 1, "value"), subTo(1, "group"),
		codec.AppendAck(nil, &codec.Ack{SubscriptionID: 70, TopicID: 1}),
		codec.AppendNack(nil, &codec.Nack{SubscriptionID: 70, TopicID: 1}),
		ping(),
		codec.AppendErr(nil, &codec.Err{Code: 1, Message: []byte("note")}),
		codec.AppendOK(nil, &codec.OK{RequestOp: codec.OpPub, Result: []byte("r")}),
		codec.AppendPull(nil, &codec.Pull{SubscriptionID: 70, OwnershipEpochs: codec.AppendEpoch(nil, 1)}),
		codec.AppendHeartbeat(nil, &codec.Heartbeat{SubscriptionID: 70}),
		codec.AppendControlAck(nil, &codec.ControlAck{GroupID: 9}),
		codec.AppendCredit(nil, &codec.Credit{SubscriptionID: 70}),
	}
}

// expectEveryOp reads the answers to everyOp, none of which names a known subscription.
func (p *peer) expectEveryOp() {
	p.t.Helper()
	p.ok(codec.OpDeclare)
	p.ok(codec.OpPub)
	p.ok(codec.OpSub)
	p.err(codec.OpAck, codec.CodeStaleGeneration)
	p.err(codec.OpNack, codec.CodeStaleGeneration)
	p.ok(codec.OpPing)
	p.err(codec.OpPull, codec.CodeStaleGeneration)
	p.err(codec.OpHeartbeat, codec.CodeUnknownMember)
	p.ok(codec.OpControlAck)
	p.err(codec.OpCredit, codec.CodeStaleGeneration)
}

func TestServesByteByByte(t *testing.T) {
	s, _ := automatic(t, loop.Config{})
	p := dial(t, s)
	for _, b := range bytes.Join(append([][]byte{ping(), connect("x")}, everyOp()...), nil) {
		p.send([]byte{b})
	}
	p.ok(codec.OpPing)
	p.ok(codec.OpConnect)
	p.expectEveryOp()
}

func TestServesCutAtEveryByte(t *testing.T) {
	s, _ := automatic(t, loop.Config{})
	all := bytes.Join(append([][]byte{connect("x")}, everyOp()...), nil)
	for cut := 1; cut < len(all); cut += 3 {
		p := dial(t, s)
		p.send(all[:cut])
		p.send(all[cut:])
		p.ok(codec.OpConnect)
		p.expectEveryOp()
		p.c.Close()
	}
}

func TestRefusesEveryPrefixOfEveryPayload(t *testing.T) {
	s, _ := automatic(t, loop.Config{})
	for _, f := range everyOp() {
		op, payload, _, _, err := codec.Cut(f)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(op.String(), func(t *testing.T) {
			t.Parallel()
			for n := range payload {
				p := session(t, s)
				p.send(ping(), raw(byte(op), n, payload[:n]...), ping())
				p.ok(codec.OpPing)
				p.refused(op, codec.CodeMalformedPayload)
				p.c.Close()
			}
		})
	}
}

func TestLargestConnect(t *testing.T) {
	s, _ := automatic(t, loop.Config{})
	p := dial(t, s)
	p.send(connect(strings.Repeat("t", 65535)))
	p.ok(codec.OpConnect)
	p.alive()
}

func TestConnectTwice(t *testing.T) {
	s, _ := automatic(t, loop.Config{})
	p := session(t, s)
	p.send(connect(""), ping())
	p.refused(codec.OpConnect, codec.CodeMalformedPayload)
}

func TestErrAndOKOfAClientAreNotAnswered(t *testing.T) {
	s, _ := automatic(t, loop.Config{})
	p := dial(t, s)
	note := codec.AppendErr(nil, &codec.Err{Code: 0xEEEE, RequestOp: 0xEE, Message: []byte("\xff")})
	fine := codec.AppendOK(nil, &codec.OK{RequestOp: codec.OpMsg, Result: make([]byte, 1<<20)})
	p.send(note, connect(""), note, fine, ping())
	p.ok(codec.OpConnect)
	p.ok(codec.OpPing)
	p = dial(t, s)
	p.send(fine[:5])
	p.refused(codec.OpOK, codec.CodeNotAuthenticated)
}

func TestBadGroupNameEndsTheSession(t *testing.T) {
	s, b := manual(t, loop.Config{})
	p := session(t, s)
	p.send(subTo(1, "two words"), ping())
	p.refused(codec.OpSub, codec.CodeMalformedPayload)
	if j := b.next(); j.closed == nil {
		t.Fatalf("want only Closed to reach the backend, got %v", j)
	}
}

// The answers of what came before are written before the ERR that closes, however
// late they come; what came behind is not served.
func TestTheErrThatClosesComesInItsTurn(t *testing.T) {
	s, b := manual(t, loop.Config{})
	for _, bad := range [][]byte{{0, 0, 0, 0}, raw(0x33, 0), raw(7, 1, 1), raw(3, 27), connect("")} {
		p := session(t, s)
		p.send(pub(1, 0, "x"), pub(1, 1, "y"), bad, pub(1, 2, "not served"))
		x, y := b.next(), b.next()
		b.complete(b.answer(y))
		p.alwaysOpen(b, x)
		p.ok(codec.OpPub)
		p.ok(codec.OpPub)
		op, payload := p.next()
		if m, err := codec.DecodeErr(payload); op != codec.OpErr || err != nil || !m.Code.Closes() {
			t.Fatalf("want the ERR that closes, got %s", describe(op, payload))
		}
		p.eof()
		if j := b.next(); j.closed == nil {
			t.Fatalf("want Closed, got %v", j)
		}
	}
}

// alwaysOpen checks that the connection is not reported closed while an answer is missing, then gives it.
func (p *peer) alwaysOpen(b *backend, missing job) {
	p.t.Helper()
	if missing.req.Conn.Gone.Load() {
		p.t.Fatal("the connection was given up while an answer was missing")
	}
	b.complete(b.answer(missing))
}

func TestEveryCodeThatClosesCloses(t *testing.T) {
	s, b := manual(t, loop.Config{})
	for _, row := range codec.Codes() {
		p := session(t, s)
		p.send(pub(1, 0, "x"), ping())
		j := b.next()
		c := b.answer(j)
		c.Code = row.Code
		b.complete(c)
		if !row.Closes {
			p.err(codec.OpPub, row.Code)
			p.ok(codec.OpPing)
			p.c.Close()
			b.nextClosed()
			continue
		}
		p.refused(codec.OpPub, row.Code)
		b.nextClosed()
	}
}

// A peer that sends on and on still reads the ERR: its input is dropped, not reset.
func TestTheErrIsReadableWhileTheClientSends(t *testing.T) {
	s, _ := automatic(t, loop.Config{})
	p := session(t, s)
	flood := bytes.Repeat(pub(1, 0, strings.Repeat("x", 1000)), 500)
	p.send(raw(0x77, 0), flood)
	p.refused(0x77, codec.CodeUnknownOp)
}

func TestRefusesEveryPrefixOfConnect(t *testing.T) {
	s, _ := automatic(t, loop.Config{})
	payload := connect("token")[codec.HeaderLen:]
	for n := range payload {
		p := dial(t, s)
		p.send(raw(1, n, payload[:n]...))
		p.refused(codec.OpConnect, codec.CodeMalformedPayload)
		p.c.Close()
	}
}
