package conformance

import (
	"bytes"
	"fmt"
	"testing"
	"time"
)

// expectation is one request of a pipeline with the answer it must get; op 0
// stands for a frame that is never answered.
type expectation struct {
	frame []byte
	op    byte
	code  uint16 // 0: OK
	check func(p *peer, rule string, result []byte)
}

// expect reads the answers of a pipeline in request order.
func (p *peer) expect(rule string, all []expectation) {
	p.t.Helper()
	for i, e := range all {
		if e.op == 0 {
			continue
		}
		rule := fmt.Sprintf("%s: answer %d of %d, to %s", rule, i+1, len(all), brief(e.frame))
		if e.code != 0 {
			p.err(rule, e.op, e.code)
			continue
		}
		result := p.ok(rule, e.op)
		if e.check != nil {
			e.check(p, rule, result)
		}
	}
}

func (p *peer) sendAll(all []expectation) {
	p.t.Helper()
	frames := make([][]byte, len(all))
	for i, e := range all {
		frames[i] = e.frame
	}
	p.send(frames...)
}

// mixed is a round of requests of every kind; seq is the next sequence of
// partition 0 and producerSeq the next of producer 77 there. The round stores three messages.
func mixed(name string, topic uint16, seq, producerSeq uint64) []expectation {
	stored := func(want uint64, flags uint8) func(*peer, string, []byte) {
		return func(p *peer, rule string, b []byte) {
			got, err := decodePubResult(b)
			if err != nil || got.seq != want || got.flags != flags {
				p.failf(rule, "want sequence %d with result_flags %d, got %+v (%v)", want, flags, got, err)
			}
		}
	}
	known := func(p *peer, rule string, b []byte) {
		if got, err := decodeDeclareResult(b); err != nil || got != (declareResult{topic, 2, 1}) {
			p.failf(rule, "want topic %d again, got %+v (%v)", topic, got, err)
		}
	}
	numbered := func(s uint64) []byte {
		return pub{topic: topic, producer: 77, seq: s, value: []byte("n")}.frame()
	}
	return []expectation{
		{frame: ping(), op: opPing},
		{frame: pub{topic: topic, value: []byte("v"), key: []byte("k")}.frame(), op: opPub, check: stored(seq, 0)},
		{frame: numbered(producerSeq), op: opPub, check: stored(seq+1, 0)},
		{frame: numbered(producerSeq), op: opPub, check: stored(seq+1, pubDeduplicated)},
		{frame: numbered(producerSeq + 2), op: opPub, code: codeSeqGap},
		{frame: numbered(producerSeq + 1), op: opPub, check: stored(seq+2, 0)},
		{frame: pub{topic: 0xFFFD}.frame(), op: opPub, code: codeUnknownTopic},
		{frame: pub{topic: topic, partition: 2}.frame(), op: opPub, code: codeUnknownPart},
		{frame: pub{topic: topic + 1}.frame(), op: opPub, code: codeInvalidTopic},
		{frame: pub{topic: topic, seq: 3}.frame(), op: opPub, code: codeSeqInvalid},
		{frame: errFrame(10, 3, "a client's ERR")},
		{frame: declare{topic: name, count: 2}.frame(), op: opDeclare, check: known},
		{frame: declare{topic: name, count: 3}.frame(), op: opDeclare, code: codeTopicMismatch},
		{frame: declare{topic: "a..b"}.frame(), op: opDeclare, code: codeInvalidTopic},
		{frame: settle{sub: 9, topic: topic}.ack(), op: opAck, code: codeStaleGeneration},
		{frame: settle{sub: 9, topic: topic}.nack(), op: opNack, code: codeStaleGeneration},
		{frame: pull{sub: 9, member: 1, waitMS: 5000}.frame(), op: opPull, code: codeStaleGeneration},
		{frame: heartbeat{sub: 9, member: 1}.frame(), op: opHeartbeat, code: codeUnknownMember},
		{frame: credit{sub: 9}.frame(), op: opCredit, code: codeStaleGeneration},
		{frame: controlAck{id: 1, group: 0xFFFE}.frame(), op: opControlAck, code: codeUnknownGroup},
		{frame: subTo(0xFFFD, "g").frame(), op: opSub, code: codeUnknownTopic},
		{frame: okFrame(opPub, nil)},
	}
}

func TestS6_ThousandRequestsInOneWrite(t *testing.T) {
	t.Parallel()
	p := session(t, ordinary.addr(t))
	name := unique("t")
	topic := p.declare("DECLARE", declare{topic: name, count: 2}).topic
	var all []expectation
	for round := uint64(0); len(all) < 1000; round++ {
		all = append(all, mixed(name, topic, 1+3*round, 500+2*round)...)
	}
	p.sendAll(all)
	p.expect("S6: responses come in request order, one for one", all)
	p.quiet("S6: one answer each, not more", 50*time.Millisecond)
	p.alive("the session goes on after refused requests")
}

func TestS6_ThousandRequestsByteSized(t *testing.T) {
	t.Parallel()
	p := session(t, ordinary.addr(t))
	name := unique("t")
	topic := p.declare("DECLARE", declare{topic: name, count: 2}).topic
	var all []expectation
	for round := uint64(0); round < 5; round++ {
		all = append(all, mixed(name, topic, 1+3*round, 500+2*round)...)
	}
	var stream []byte
	for _, e := range all {
		stream = append(stream, e.frame...)
	}
	for len(stream) > 0 { // odd pieces, so that every frame is cut somewhere else
		n := min(7, len(stream))
		if err := p.write(stream[:n]); err != nil {
			p.failf("S6", "write: %v", err)
		}
		stream = stream[n:]
	}
	p.expect("S6: responses come in request order, one for one", all)
}

func TestS6_ConnectAndRequestsInOneWrite(t *testing.T) {
	t.Parallel()
	p := dial(t, ordinary.addr(t))
	name := unique("t")
	p.send(connect{version: wireVersion}.frame(), declare{topic: name, count: 1}.frame(), ping())
	p.empty("S6: a client may send without waiting, even for CONNECT", opConnect)
	p.declared("S6")
	p.empty("S6", opPing)
}

func TestS6_AnswersBeforeARefusalStillCome(t *testing.T) {
	t.Parallel()
	addr := ordinary.addr(t)
	topic := session(t, addr).topic(1)
	for _, bad := range []struct {
		name string
		send []byte
		op   byte
		code uint16
	}{
		{"length 0", []byte{0, 0, 0, 0}, opNone, codeBadLength},
		{"unknown op", header(5, 0x33, nil), 0x33, codeUnknownOp},
		{"malformed", header(3, opPing, nil), opPing, codeMalformed},
		{"second CONNECT", connect{version: 1}.frame(), opConnect, codeMalformed},
	} {
		t.Run(bad.name, func(t *testing.T) {
			t.Parallel()
			p := session(t, addr)
			frames := [][]byte{}
			for range 50 {
				frames = append(frames, pub{topic: topic, value: []byte("durable first")}.frame())
			}
			p.send(append(frames, bad.send, ping(), pub{topic: topic}.frame())...)
			rule := "S6: responses come in request order, also the one that closes"
			for range 50 {
				p.published(rule)
			}
			p.refused(rule+"; what follows it is not served", bad.op, bad.code)
		})
	}
}

func TestS6_MsgStandsBeforeThePullsOK(t *testing.T) {
	t.Parallel()
	p := session(t, ordinary.addr(t))
	topic := p.topic(1)
	p.fill(topic, 0, "a", "b", "c", "d")
	m := p.join(subTo(topic, "g"), 1)
	one := m.pullOf(pull{maxMsgs: 1, waitMS: 2000}).frame()
	three := m.pullOf(pull{maxMsgs: 3, waitMS: 2000}).frame()
	p.send(ping(), one, ping(), three, pub{topic: topic, value: []byte("e")}.frame(), ping())
	rule := "S6: MSG frames of a PULL stand between the previous response and that PULL's OK"
	want := []string{"OK PING", "MSG a", "OK PULL", "OK PING", "MSG b", "MSG c", "MSG d", "OK PULL", "OK PUB", "OK PING"}
	for i, wanted := range want {
		f := p.answer(rule, patience)
		got := "?"
		switch f.op {
		case opMsg:
			x, err := decodeMsg(f.payload)
			if err != nil {
				p.failf(rule, "%v", err)
			}
			got = "MSG " + string(x.value)
		case opOK:
			x, err := decodeOK(f.payload)
			if err != nil {
				p.failf(rule, "%v", err)
			}
			got = "OK " + opName(x.request)
		}
		if got != wanted {
			p.failf(rule, "frame %d: want %s, got %v", i, wanted, f)
		}
	}
}

// TestS6_NoticeStandsBetweenFrames makes notices appear while answers are under way.
func TestS6_NoticeStandsBetweenFrames(t *testing.T) {
	t.Parallel()
	addr := ordinary.addr(t)
	p := session(t, addr)
	topic := p.topic(4)
	var all []expectation
	for range 200 {
		all = append(all, expectation{frame: pub{topic: topic, value: []byte("x")}.frame(), op: opPub}, expectation{frame: ping(), op: opPing})
	}
	p.send(subTo(topic, "g").frame())
	p.sendAll(all)
	res, err := decodeSubResult(p.ok("SUB", opSub))
	if err != nil {
		p.failf("SUB", "%v", err)
	}
	p.expect("S6: NOTICE may stand between any two frames and takes no answer's place", all)
	m := &member{peer: p, topic: topic, sub: res.sub, id: res.member, own: map[uint16]uint64{}}
	m.assigned("S6: the notices of SUB come too", 4)
}

func TestS7_TooMuchUnanswered(t *testing.T) {
	t.Parallel()
	t.Run("many small PUBs", func(t *testing.T) {
		t.Parallel()
		overrun(t, ordinary.addr(t), 40_000, make([]byte, 16), 4096)
	})
	t.Run("many bytes of PUBs", func(t *testing.T) {
		t.Parallel()
		overrun(t, own(t, knobs{}).addr, 8, make([]byte, 12<<20), 2)
	})
	t.Run("PINGs only", func(t *testing.T) {
		t.Parallel()
		p := session(t, ordinary.addr(t))
		sent := make(chan error, 1)
		go func() { sent <- p.write(bytes.Repeat(ping(), 20_000)) }()
		for i := range 20_000 {
			p.empty(fmt.Sprintf("S7: PINGs are answered at once, number %d", i), opPing)
		}
		if err := <-sent; err != nil {
			p.failf("S7", "write: %v", err)
		}
	})
}

// overrun sends n PUBs as fast as it can while reading the answers: each is OK
// or 0x4001 in its turn, the stored ones have consecutive sequences, and the first
// ones, which are within the limit, are stored.
func overrun(t *testing.T, addr string, n int, value []byte, within int) {
	rule := "S7: what exceeds 4,096 requests or 32 MiB unanswered is answered 0x4001 in its turn"
	p := session(t, addr)
	topic := p.topic(1)
	f := pub{topic: topic, value: value}.frame()
	perWrite := max(1, (1<<20)/len(f))
	sent := make(chan error, 1)
	go func() {
		for left := n; left > 0; left -= perWrite {
			if err := p.write(bytes.Repeat(f, min(left, perWrite))); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	stored, refused := uint64(0), 0
	for i := range n {
		f := p.answer(rule, 3*patience)
		if f.op == opErr && i >= within {
			p.asErr(rule, f, opPub, codeBackpressure)
			refused++
			continue
		}
		res, err := decodePubResult(p.asOK(rule, f, opPub))
		if err != nil {
			p.failf(rule, "%v", err)
		}
		if stored++; res.seq != stored {
			p.failf(rule, "P2: want sequence %d, got %+v", stored, res)
		}
	}
	if err := <-sent; err != nil {
		p.failf(rule, "reading never stops: write: %v", err)
	}
	if stored == 0 {
		p.failf(rule, "all %d were refused", n)
	}
	t.Logf("%d stored, %d refused with 0x4001", stored, refused)
	p.alive("S7: the session goes on")
}

// TestS7_P6_OrderHoldsUnderBackpressure overruns the limit with numbered PUBs: those
// behind a refused one are not stored either.
func TestS7_P6_OrderHoldsUnderBackpressure(t *testing.T) {
	t.Parallel()
	rule := "P6: after a failed PUB in a pipeline its successors fail with 0x0010"
	p := session(t, ordinary.addr(t))
	topic := p.topic(1)
	const n = 30_000
	var stream []byte
	for i := uint64(1); i <= n; i++ {
		stream = append(stream, pub{topic: topic, producer: 4, seq: i, value: []byte("0123456789")}.frame()...)
	}
	sent := make(chan error, 1)
	go func() { sent <- p.write(stream) }()
	stored, failed := uint64(0), 0
	for i := range n {
		f := p.answer(rule, 3*patience)
		if f.op == opErr {
			m, err := decodeErr(f.payload)
			if err != nil || m.request != opPub || m.code != codeBackpressure && m.code != codeSeqGap {
				p.failf(rule, "answer %d: want 0x4001 or 0x0010, got %v (%v)", i, f, err)
			}
			if failed == 0 && m.code == codeSeqGap {
				p.failf(rule, "answer %d is a gap, but nothing failed before", i)
			}
			if failed++; i < 4096 {
				p.failf(rule, "S7: answer %d is within the limit, got %v", i, f)
			}
			continue
		}
		res, err := decodePubResult(p.asOK(rule, f, opPub))
		if err != nil || failed > 0 || res.seq != uint64(i)+1 {
			p.failf(rule, "answer %d after %d failed: got %+v (%v)", i, failed, res, err)
		}
		stored++
	}
	if err := <-sent; err != nil {
		p.failf(rule, "write: %v", err)
	}
	t.Logf("%d stored, %d failed", stored, failed)
	if failed == 0 {
		return
	}
	got := p.pub("P6: the client resends from the first failure", pub{topic: topic, producer: 4, seq: stored + 1})
	if got.seq != stored+1 || got.flags != 0 {
		p.failf("P6: the client resends from the first failure", "got %+v", got)
	}
}
