package conformance

import (
	"bytes"
	"fmt"
	"testing"
	"time"
)

// refusal is a beginning of a frame that already decides its fate (S1): exactly
// these bytes are sent, and the answer must come before anything else is.
type refusal struct {
	name string
	send []byte
	op   byte // request_op of the ERR
	code uint16
}

func (c refusal) run(t *testing.T, connected bool) {
	t.Run(c.name, func(t *testing.T) {
		t.Parallel()
		addr := ordinary.addr(t)
		p := dial(t, addr)
		if connected {
			p = session(t, addr)
		}
		p.send(c.send)
		p.refused("S1: refused on its earliest decisive byte", c.op, c.code)
	})
}

// huge announces the largest frame for op and sends the first payload bytes.
func huge(op byte, payload w) []byte { return header(maxFrame, op, payload) }

func TestS1_EarliestDecisiveByte_BeforeConnect(t *testing.T) {
	t.Parallel()
	cases := []refusal{
		{"length 0", []byte{0, 0, 0, 0}, opNone, codeBadLength},
		{"length above the cap", []byte{1, 0, 0, 1}, opNone, codeBadLength},
		{"length all ones", []byte{0xff, 0xff, 0xff, 0xff}, opNone, codeBadLength},
		{"an HTTP request", []byte("GET "), opNone, codeBadLength},
		{"length before op", []byte{0, 0, 0, 0, 0x55}, opNone, codeBadLength},
		{"CONNECT longer than any (S2)", header(maxPreConnect+1, opConnect, nil), opConnect, codeMalformed},
		{"a longer CONNECT of another version is too long first (S2)", header(maxPreConnect+1, opConnect, w{2}), opConnect, codeMalformed},
		{"CONNECT without payload", header(1, opConnect, nil), opConnect, codeMalformed},
		{"CONNECT too short for its fields", header(4, opConnect, w{1}), opConnect, codeMalformed},
		{"version 2 before a short length", header(3, opConnect, w{2}), opConnect, codeVersion},
		{"version 0 with the rest withheld", header(10, opConnect, w{0}), opConnect, codeVersion},
		{"version 2 with the rest withheld", header(maxPreConnect, opConnect, w{2}), opConnect, codeVersion},
		{"version 255 with the rest withheld", header(10, opConnect, w{255}), opConnect, codeVersion},
		{"token_len beyond the end", header(10, opConnect, w{1}.u16(0).u16(1)), opConnect, codeMalformed},
		{"token_len leaves an undeclared tail", header(20, opConnect, w{1}.u16(0).u16(3)), opConnect, codeMalformed},
		{"reserved not zero, tail withheld", header(20, opConnect, w{1}.u16(unknownFlag).u16(0).u32(1)), opConnect, codeMalformed},
		{"PING with a payload", header(2, opPing, nil), opPing, codeMalformed},
		{"PING of 16 MiB", huge(opPing, nil), opPing, codeMalformed},
		{"ERR too short for its fields", header(5, opErr, nil), opErr, codeMalformed},
		{"ERR longer than any", header(1+5+maxErrMessage+1, opErr, nil), opErr, codeMalformed},
		{"ERR message_len beyond the cap", header(518, opErr, w{}.u16(10).u8(3).u16(513)), opErr, codeMalformed},
	}
	for _, c := range cases {
		c.run(t, false)
	}
	for _, op := range []byte{0x00, 0x10, 0x42, 0x7f, 0x80, 0xfe, 0xff, opMsg, opNotice} {
		refusal{fmt.Sprintf("op 0x%02x before its body and before the session state", op), huge(op, nil), op, codeUnknownOp}.run(t, false)
		refusal{fmt.Sprintf("op 0x%02x without payload", op), header(1, op, nil), op, codeUnknownOp}.run(t, false)
	}
	for _, op := range []byte{opDeclare, opPub, opSub, opAck, opNack, opOK, opPull, opHeartbeat, opControlAck, opCredit} {
		refusal{fmt.Sprintf("%s before CONNECT, on byte 5", opName(op)), huge(op, nil), op, codeNotAuth}.run(t, false)
		refusal{fmt.Sprintf("%s before CONNECT is refused before its payload is judged", opName(op)), header(1, op, nil), op, codeNotAuth}.run(t, false)
	}
}

func TestS1_EarliestDecisiveByte_InSession(t *testing.T) {
	t.Parallel()
	pubHead := w{}.u16(1).u16(0).u64(0).u64(0).u16(0) // up to key_len
	subHead := w{}.u16(1).raw([]byte("g")).u16(1)     // up to partition
	pullHead := w{}.u16(1).u64(1).u32(1).u32(1)       // up to ownership_epochs_len
	creditHead := w{}.u16(1).u32(1).u64(1)            // up to mode
	controlHead := w{}.u64(1)                         // up to notice_kind
	cases := []refusal{
		{"length 0", []byte{0, 0, 0, 0}, opNone, codeBadLength},
		{"length above the cap", []byte{1, 0, 0, 1}, opNone, codeBadLength},
		{"op 0x00", huge(0, nil), 0, codeUnknownOp},
		{"op 0x10", huge(0x10, nil), 0x10, codeUnknownOp},
		{"MSG is for the server only", huge(opMsg, nil), opMsg, codeUnknownOp},
		{"NOTICE is for the server only", huge(opNotice, nil), opNotice, codeUnknownOp},
		{"second CONNECT, on byte 5", header(10, opConnect, nil), opConnect, codeMalformed},
		{"second CONNECT of another version", header(10, opConnect, w{2}), opConnect, codeMalformed},
		{"PING with a payload", header(2, opPing, nil), opPing, codeMalformed},
		{"DECLARE too short", header(6, opDeclare, nil), opDeclare, codeMalformed},
		{"DECLARE topic_len 256", huge(opDeclare, w{}.u16(256)), opDeclare, codeMalformed},
		{"DECLARE topic_len beyond the end", header(12, opDeclare, w{}.u16(6)), opDeclare, codeMalformed},
		{"DECLARE undeclared tail, on the flags", header(9, opDeclare, w{}.u16(1).raw([]byte("a")).u16(1).u16(0)), opDeclare, codeMalformed},
		{"PUB too short", header(28, opPub, nil), opPub, codeMalformed},
		{"PUB key_len 256", huge(opPub, pubHead.u16(256)), opPub, codeMalformed},
		{"PUB key_len beyond the end", header(34, opPub, pubHead.u16(6)), opPub, codeMalformed},
		{"PUB value_len above the cap", huge(opPub, pubHead.u16(0).u32(maxValue+1)), opPub, codeMalformed},
		{"PUB value_len 0x80000000", huge(opPub, pubHead.u16(0).u32(0x80000000)), opPub, codeMalformed},
		{"PUB value_len beyond the end", header(100, opPub, pubHead.u16(0).u32(72)), opPub, codeMalformed},
		{"PUB value_len leaves an undeclared tail", header(100, opPub, pubHead.u16(0).u32(70)), opPub, codeMalformed},
		{"SUB too short", header(15, opSub, nil), opSub, codeMalformed},
		{"SUB group_len 0 (G1)", header(30, opSub, w{}.u16(0)), opSub, codeMalformed},
		{"SUB group_len 256 (G1)", header(1000, opSub, w{}.u16(256)), opSub, codeMalformed},
		{"SUB group_len beyond the end", header(17, opSub, w{}.u16(2)), opSub, codeMalformed},
		{"SUB partition 0", header(17, opSub, subHead.u16(0)), opSub, codeMalformed},
		{"SUB partition 0xFFFE", header(17, opSub, subHead.u16(0xFFFE)), opSub, codeMalformed},
		{"SUB start_policy 2", header(17, opSub, subHead.u16(allPartitions).u8(2)), opSub, codeMalformed},
		{"ACK too short", header(32, opAck, nil), opAck, codeMalformed},
		{"NACK too short", header(33, opNack, nil), opNack, codeMalformed},
		{"PULL too short", header(32, opPull, nil), opPull, codeMalformed},
		{"PULL ownership_epochs_len beyond the end", header(33, opPull, pullHead.u16(1)), opPull, codeMalformed},
		{"PULL ownership_epochs_len counts epochs, a tail remains", header(41, opPull, pullHead.u16(0)), opPull, codeMalformed},
		{"HEARTBEAT too short", header(19, opHeartbeat, nil), opHeartbeat, codeMalformed},
		{"HEARTBEAT too long", header(21, opHeartbeat, nil), opHeartbeat, codeMalformed},
		{"HEARTBEAT state 2", header(20, opHeartbeat, w{}.u16(1).u64(1).u32(1).u32(1).u8(2)), opHeartbeat, codeMalformed},
		{"CONTROL_ACK too short", header(28, opControlAck, nil), opControlAck, codeMalformed},
		{"CONTROL_ACK too long", header(30, opControlAck, nil), opControlAck, codeMalformed},
		{"CONTROL_ACK notice_kind 2", header(29, opControlAck, controlHead.u8(2)), opControlAck, codeMalformed},
		{"CONTROL_ACK result 3", header(29, opControlAck, controlHead.u8(0).u16(1).u32(1).u32(1).u64(1).u8(3)), opControlAck, codeMalformed},
		{"CREDIT too short", header(25, opCredit, nil), opCredit, codeMalformed},
		{"CREDIT too long", header(27, opCredit, nil), opCredit, codeMalformed},
		{"CREDIT mode 2", header(26, opCredit, creditHead.u8(2)), opCredit, codeMalformed},
		{"CREDIT reserved not zero", header(26, opCredit, creditHead.u8(0).u16(1).u32(1).u32(1)), opCredit, codeMalformed},
		{"ERR message_len above the cap", header(518+1, opErr, w{}.u16(1).u8(1)), opErr, codeMalformed},
		{"ERR message_len 513 in a frame that could hold less", header(518, opErr, w{}.u16(1).u8(1).u16(513)), opErr, codeMalformed},
		{"OK too short", header(5, opOK, nil), opOK, codeMalformed},
		{"OK names an op outside the 15 (C1)", header(6, opOK, w{0x10}), opOK, codeMalformed},
		{"OK names op 0 (C1)", header(6, opOK, w{0x00}), opOK, codeMalformed},
		{"OK result_len beyond the end", header(7, opOK, w{2}.u32(2)), opOK, codeMalformed},
		{"OK result_len leaves a tail", header(20, opOK, w{2}.u32(2)), opOK, codeMalformed},
		{"OK result_len above the cap", huge(opOK, w{2}.u32(maxFrame-5)), opOK, codeMalformed},
	}
	for _, c := range cases {
		c.run(t, true)
	}
}

func TestS1_ByteByByte(t *testing.T) {
	t.Parallel()
	p := dial(t, ordinary.addr(t))
	drip := func(frames ...[]byte) {
		for _, b := range bytes.Join(frames, nil) {
			if _, err := p.nc.Write([]byte{b}); err != nil {
				p.failf("S1: a request may arrive byte by byte", "write: %v", err)
			}
		}
	}
	name := unique("drip")
	drip(ping(), connect{version: wireVersion, token: []byte("token")}.frame(), declare{topic: name, count: 2}.frame())
	p.empty("PING is answered before CONNECT", opPing)
	p.empty("CONNECT byte by byte", opConnect)
	topic := p.declared("DECLARE byte by byte").topic

	drip(pub{topic: topic, partition: 1, producer: 9, seq: 1, key: []byte("key"), value: []byte("value")}.frame())
	if got := p.published("PUB byte by byte"); got.seq != 1 {
		p.failf("P2: sequence starts at 1", "got %+v", got)
	}
	drip(subTo(topic, "g").frame())
	res, err := decodeSubResult(p.ok("SUB byte by byte", opSub))
	if err != nil {
		p.failf("SUB byte by byte", "%v", err)
	}
	m := &member{peer: p, topic: topic, sub: res.sub, id: res.member, own: map[uint16]uint64{}}
	for range 2 {
		n := m.notice("SUB byte by byte", patience)
		drip(reply(n, resultOK).frame())
		p.empty("CONTROL_ACK byte by byte", opControlAck)
		m.own[n.partition] = n.epoch
	}
	drip(m.pullOf(pull{maxMsgs: 1, waitMS: 3000}).frame())
	msgs := m.pulled("PULL byte by byte")
	if len(msgs) != 1 || string(msgs[0].value) != "value" || string(msgs[0].key) != "key" {
		p.failf("PULL byte by byte", "got %s", show(msgs))
	}
	x := m.settleOf(msgs[0])
	drip(credit{sub: m.sub, mem: m.mem, count: 7, bytes: 7777}.frame(), m.beat(m.mem, m.asg, stateActive), x.ack(), x.nack(), errFrame(1, 1, "x"), okFrame(opPub, nil), ping())
	p.ok("CREDIT byte by byte", opCredit)
	p.empty("HEARTBEAT byte by byte", opHeartbeat)
	p.empty("ACK byte by byte", opAck)
	p.err("NACK byte by byte, of a settled message", opNack, codeUnknownDelivery)
	p.empty("PING byte by byte", opPing)
}

// TestS1_CutAtEveryByte sends one session's requests in two writes, cut at every place.
func TestS1_CutAtEveryByte(t *testing.T) {
	t.Parallel()
	addr := ordinary.addr(t)
	topic := session(t, addr).topic(1)
	all := bytes.Join([][]byte{
		connect{version: wireVersion, token: []byte("abc")}.frame(), ping(),
		pub{topic: topic, key: []byte("k"), value: []byte("v")}.frame(), errFrame(1, 0, "note"), ping(),
	}, nil)
	for cut := 1; cut < len(all); cut++ {
		p := dial(t, addr)
		p.send(all[:cut])
		p.send(all[cut:])
		rule := fmt.Sprintf("S1: requests cut at byte %d of %d", cut, len(all))
		p.empty(rule, opConnect)
		p.empty(rule, opPing)
		p.published(rule)
		p.empty(rule, opPing)
		p.nc.Close()
	}
}

// samples are one valid frame of every op a client may send in a session.
func samples() map[byte][]byte {
	return map[byte][]byte{
		opDeclare:    declare{topic: "sample", count: 1}.frame(),
		opPub:        pub{topic: 1, producer: 1, seq: 1, key: []byte("key"), value: []byte("value")}.frame(),
		opSub:        subTo(1, "group").frame(),
		opAck:        settle{sub: 1, topic: 1, seq: 1, delivery: 1, epoch: 1}.ack(),
		opNack:       settle{sub: 1, topic: 1, seq: 1, delivery: 1, epoch: 1}.nack(),
		opErr:        errFrame(10, 3, "text"),
		opOK:         okFrame(opPub, []byte("result")),
		opPull:       pull{sub: 1, member: 1, mem: 1, asg: 1, epochs: []uint64{1, 2}, maxMsgs: 1}.frame(),
		opHeartbeat:  heartbeat{sub: 1, member: 1, mem: 1, asg: 1}.frame(),
		opControlAck: controlAck{id: 1, group: 1, mem: 1, asg: 1, epoch: 1}.frame(),
		opCredit:     credit{sub: 1, mem: 1, count: 1, bytes: 1}.frame(),
	}
}

// TestS1_EveryPrefixOfEveryPayload sends each payload cut short in a frame whose
// length agrees with it: 0x0003, after the answer to what came before.
func TestS1_EveryPrefixOfEveryPayload(t *testing.T) {
	t.Parallel()
	addr := ordinary.addr(t)
	for op, whole := range samples() {
		t.Run(opName(op), func(t *testing.T) {
			t.Parallel()
			payload := whole[5:]
			for n := range payload {
				p := session(t, addr)
				p.send(ping(), build(op, payload[:n]))
				rule := fmt.Sprintf("0x0003: %s payload cut after %d of %d bytes", opName(op), n, len(payload))
				p.empty(rule, opPing)
				p.refused(rule, op, codeMalformed)
			}
		})
	}
	t.Run("CONNECT", func(t *testing.T) {
		t.Parallel()
		payload := connect{version: wireVersion, token: []byte("abc")}.payload()
		for n := range payload {
			p := dial(t, addr)
			p.send(build(opConnect, payload[:n]))
			p.refused(fmt.Sprintf("0x0003: CONNECT payload cut after %d of %d bytes", n, len(payload)), opConnect, codeMalformed)
		}
	})
}

func TestS2_SizesBeforeConnect(t *testing.T) {
	t.Parallel()
	t.Run("the largest CONNECT is accepted", func(t *testing.T) {
		t.Parallel()
		p := dial(t, ordinary.addr(t))
		f := connect{version: wireVersion, token: bytes.Repeat([]byte("t"), 65535)}.frame()
		if len(f) != 4+maxPreConnect {
			t.Fatalf("the largest CONNECT has length %d, the test built %d", maxPreConnect, len(f)-4)
		}
		p.send(f)
		p.empty("S2: a token of 65,535 bytes", opConnect)
		p.alive("S2")
	})
	t.Run("a declared tail up to the limit is accepted", func(t *testing.T) {
		t.Parallel()
		p := dial(t, ordinary.addr(t))
		p.send(connect{version: wireVersion, flags: unknownFlag, tail: make([]byte, 65535)}.frame())
		p.empty("S2, S3: a CONNECT of 65,545 bytes, most of it a declared tail", opConnect)
	})
	t.Run("a declared tail beyond the limit is not", func(t *testing.T) {
		t.Parallel()
		p := dial(t, ordinary.addr(t))
		p.send(header(maxPreConnect+1, opConnect, w{1}.u16(unknownFlag)))
		p.refused("S2: a longer CONNECT is 0x0003", opConnect, codeMalformed)
	})
	t.Run("PING and ERR may come before CONNECT", func(t *testing.T) {
		t.Parallel()
		p := dial(t, ordinary.addr(t))
		p.send(ping(), errFrame(7, 0, "hello"), ping(), connect{version: wireVersion}.frame(), ping())
		p.empty("PING before CONNECT", opPing)
		p.empty("PING before CONNECT", opPing)
		p.empty("CONNECT after PING and ERR", opConnect)
		p.empty("PING after CONNECT", opPing)
	})
	t.Run("an ERR of the largest size may come before CONNECT", func(t *testing.T) {
		t.Parallel()
		p := dial(t, ordinary.addr(t))
		p.send(errFrame(7, 0, string(bytes.Repeat([]byte("e"), maxErrMessage))), connect{version: wireVersion}.frame())
		p.empty("S4: ERR is not answered", opConnect)
	})
}

// tailCase sends one op with a tail; without the unknown flag bit it must end
// in 0x0003, with it in the same answer as without a tail.
type tailCase struct {
	op    byte
	frame func(flags uint16, tail []byte) []byte
	check func(p *peer, rule string) // the ordinary answer
	known uint16                     // a bit that this version knows: does not declare a tail
}

func tailCases(topic uint16, name string) []tailCase {
	s := func(flags uint16, tail []byte) settle {
		return settle{sub: 777, topic: topic, flags: flags, tail: tail}
	}
	return []tailCase{
		{opDeclare, func(f uint16, tail []byte) []byte {
			return declare{topic: name, count: 1, flags: f, tail: tail}.frame()
		}, func(p *peer, rule string) { p.declared(rule) }, declareDelete},
		{opPub, func(f uint16, tail []byte) []byte {
			return pub{topic: topic, value: []byte("v"), flags: f, tail: tail}.frame()
		}, func(p *peer, rule string) { p.published(rule) }, 0},
		{opSub, func(f uint16, tail []byte) []byte {
			x := subTo(topic, unique("g"))
			x.flags, x.tail = f, tail
			return x.frame()
		}, func(p *peer, rule string) { p.ok(rule, opSub) }, subNoCreate},
		{opAck, func(f uint16, tail []byte) []byte { return s(f, tail).ack() },
			func(p *peer, rule string) { p.err(rule, opAck, codeStaleGeneration) }, ackProgress},
		{opNack, func(f uint16, tail []byte) []byte { return s(f, tail).nack() },
			func(p *peer, rule string) { p.err(rule, opNack, codeStaleGeneration) }, 0},
	}
}

func TestS3_Tails(t *testing.T) {
	t.Parallel()
	addr := ordinary.addr(t)
	name := unique("t")
	topic := session(t, addr).declare("DECLARE", declare{topic: name, count: 1}).topic
	long := bytes.Repeat([]byte{0xEE}, 100_000)
	for _, c := range tailCases(topic, name) {
		t.Run(opName(c.op), func(t *testing.T) {
			t.Parallel()
			for _, tail := range [][]byte{{1}, []byte("tail"), long} {
				p := session(t, addr)
				p.send(c.frame(unknownFlag, tail), ping())
				c.check(p, fmt.Sprintf("S3: a tail of %d bytes is ignored with an unknown flag bit", len(tail)))
				p.empty("S3: the next request follows the tail", opPing)
				for _, flags := range []uint16{0, c.known} {
					p := session(t, addr)
					p.send(c.frame(flags, tail))
					p.refused(fmt.Sprintf("S3: a tail of %d bytes with flags %#x is 0x0003", len(tail), flags), c.op, codeMalformed)
				}
			}
			p := session(t, addr)
			p.send(c.frame(unknownFlag, nil))
			c.check(p, "S3: an unknown flag bit alone is ignored")
			p.send(c.frame(0x4100, nil))
			c.check(p, "S3: unknown flag bits alone are ignored")
		})
	}
	t.Run("CONNECT", func(t *testing.T) {
		t.Parallel()
		p := dial(t, addr)
		p.send(connect{version: wireVersion, flags: 1, tail: []byte("tail")}.frame(), ping())
		p.empty("S3: a tail is ignored with an unknown flag bit", opConnect)
		p.empty("S3: the next request follows the tail", opPing)
		p = dial(t, addr)
		p.send(connect{version: wireVersion, flags: 0xFFFF}.frame())
		p.empty("S3: unknown flag bits alone are ignored", opConnect)
		p = dial(t, addr)
		p.send(connect{version: wireVersion, tail: []byte{0}}.frame())
		p.refused("S3: an undeclared tail is 0x0003", opConnect, codeMalformed)
	})
	for _, op := range []byte{opErr, opOK, opPull, opHeartbeat, opControlAck, opCredit} {
		t.Run(opName(op)+" has no flags", func(t *testing.T) {
			t.Parallel()
			p := session(t, addr)
			p.send(build(op, append(samples()[op][5:], 0)))
			p.refused("S3: a tail of an op without flags is 0x0003", op, codeMalformed)
		})
	}
}

// TestP8_UnknownFlagsAndTailAreNotStored: MSG.flags are the broker's own.
func TestP8_UnknownFlagsAndTailAreNotStored(t *testing.T) {
	t.Parallel()
	p := session(t, ordinary.addr(t))
	topic := p.topic(1)
	p.pub("P8", pub{topic: topic, flags: 0x0001, key: []byte("k"), value: []byte("bit0"), producer: 5, seq: 50})
	p.pub("P8", pub{topic: topic, flags: 0xFFFF, value: []byte("all"), tail: []byte("tail")})
	m := p.join(subTo(topic, "g"), 1)
	msgs := m.take("P8", 2)
	for _, x := range msgs {
		if x.flags != 0 {
			p.failf("P8: the stored record's flags are 0", "got %#x", x.flags)
		}
	}
	if x := msgs[0]; string(x.key) != "k" || string(x.value) != "bit0" || x.producer != 5 || x.producerSeq != 50 {
		p.failf("P8: the rest of the record is the PUB's bytes", "got %s", show(msgs))
	}
	if x := msgs[1]; string(x.value) != "all" || len(x.key) != 0 {
		p.failf("P8: a tail is not part of the record", "got %s", show(msgs))
	}
}

func TestS4_ErrAndOKFromTheClient(t *testing.T) {
	t.Parallel()
	t.Run("are ignored", func(t *testing.T) {
		t.Parallel()
		p := session(t, ordinary.addr(t))
		p.send(errFrame(0x0003, opPub, "bad"), okFrame(opMsg, []byte("r")), okFrame(opPing, nil), errFrame(0, 0, ""), ping())
		p.empty("S4: ERR and OK are never answered", opPing)
		p.quiet("S4: nothing else comes", 50*time.Millisecond)
	})
	t.Run("ERR with unknown code and request_op (C1)", func(t *testing.T) {
		t.Parallel()
		p := session(t, ordinary.addr(t))
		p.send(errFrame(0xEEEE, 0xEE, "\xff not UTF-8"), ping())
		p.empty("C1: codes and request_ops this build does not know are kept as numbers", opPing)
	})
	t.Run("OK of every op", func(t *testing.T) {
		t.Parallel()
		p := session(t, ordinary.addr(t))
		for op := opConnect; op <= opCredit; op++ {
			p.send(okFrame(op, []byte("xyz")))
		}
		p.alive("S4: a client's OK is ignored after CONNECT")
	})
	t.Run("a large OK", func(t *testing.T) {
		t.Parallel()
		p := session(t, ordinary.addr(t))
		p.send(okFrame(opPub, make([]byte, 1<<20)))
		p.alive("S4: a client's OK is ignored after CONNECT")
	})
}
