package conformance

import (
	"fmt"
	"testing"
	"time"
)

// TestP1_OrderOfChecks gives each PUB two faults or more; the earlier check must answer.
func TestP1_OrderOfChecks(t *testing.T) {
	t.Parallel()
	p := session(t, ordinary.addr(t))
	topic := p.topic(2)
	const nowhere = 0xFFFD
	p.pub("P4: any first producer_seq", pub{topic: topic, producer: 3, seq: 10})
	for _, c := range []struct {
		name string
		m    pub
		code uint16
	}{
		{"topic before partition", pub{topic: nowhere, partition: 9}, codeUnknownTopic},
		{"topic before producer", pub{topic: nowhere, seq: 1}, codeUnknownTopic},
		{"topic before everything", pub{topic: 0, partition: 9, seq: 1}, codeUnknownTopic},
		{"topic 0xFFFF", pub{topic: 0xFFFF, partition: 9, seq: 1}, codeUnknownTopic},
		{"topic before dedup", pub{topic: nowhere, producer: 3, seq: 12}, codeUnknownTopic},
		{"twin before partition", pub{topic: topic + 1, partition: 9}, codeInvalidTopic},
		{"twin before producer", pub{topic: topic + 1, seq: 1}, codeInvalidTopic},
		{"twin before everything", pub{topic: topic + 1, partition: 9, seq: 1}, codeInvalidTopic},
		{"partition before producer", pub{topic: topic, partition: 2, seq: 1}, codeUnknownPart},
		{"partition before dedup", pub{topic: topic, partition: 2, producer: 3, seq: 12}, codeUnknownPart},
		{"partition 0xFFFF", pub{topic: topic, partition: 0xFFFF}, codeUnknownPart},
		{"producer 0 with a seq", pub{topic: topic, seq: 1}, codeSeqInvalid},
		{"producer 0 with the largest seq", pub{topic: topic, seq: 1<<64 - 1}, codeSeqInvalid},
		{"dedup: a gap", pub{topic: topic, producer: 3, seq: 12}, codeSeqGap},
		{"dedup: expired", pub{topic: topic, producer: 3, seq: 9}, codeSeqExpired},
	} {
		p.send(c.m.frame())
		text := p.err("P1: "+c.name, opPub, c.code)
		if text == "" {
			p.failf("every ERR tells the reader what to do", "no text for 0x%04x", c.code)
		}
	}
	if got := p.pub("P2", pub{topic: topic}); got.seq != 2 {
		p.failf("P2: a refused PUB takes no sequence", "got %+v", got)
	}
	for name, m := range map[string]pub{
		"topic": {topic: nowhere, tail: []byte{1}}, "twin": {topic: topic + 1, tail: []byte{1}},
		"partition": {topic: topic, partition: 9, tail: []byte{1}}, "producer": {topic: topic, seq: 1, tail: []byte{1}},
	} {
		q := session(t, ordinary.addr(t))
		q.send(m.frame())
		q.refused("P1: payload before "+name, opPub, codeMalformed)
	}
}

func TestP1_Rate(t *testing.T) {
	t.Parallel()
	n := own(t, knobs{rate: 20})
	p := session(t, n.addr)
	topic := p.topic(1)
	p.pub("P4", pub{topic: topic, producer: 3, seq: 1})
	frames := make([][]byte, 100)
	for i := range frames {
		frames[i] = pub{topic: topic}.frame()
	}
	p.send(append(frames, // in one write, so that the rate is still exceeded
		pub{topic: topic, seq: 1}.frame(), pub{topic: topic, partition: 9}.frame(), pub{topic: 0xFFFD}.frame(), pub{topic: topic + 1}.frame(),
		pub{topic: topic, producer: 3, seq: 9}.frame(), pub{topic: topic, producer: 3, seq: 1}.frame(), ping())...)
	refused := 0
	for range frames {
		if f := p.answer("0x4003", patience); f.op == opErr {
			p.asErr("0x4003: the publish rate of this connection is exceeded", f, opPub, codeRate)
			refused++
		}
	}
	if refused < 40 {
		p.failf("0x4003: 20 messages per second", "only %d of 100 PUBs in one write were refused", refused)
	}
	p.err("P1: producer fields before rate", opPub, codeSeqInvalid)
	p.err("P1: partition before rate", opPub, codeUnknownPart)
	p.err("P1: topic before rate", opPub, codeUnknownTopic)
	p.err("P1: twin before rate", opPub, codeInvalidTopic)
	p.err("P1: rate before dedup (a gap)", opPub, codeRate)
	p.err("P1: rate before dedup (a repeat)", opPub, codeRate)
	p.empty("the rate is about PUBs only", opPing)

	q := session(t, n.addr)
	q.pub("0x4003: the rate is each connection's own", pub{topic: topic})
	deadline := time.Now().Add(patience)
	for { // the rate comes back by itself
		p.send(pub{topic: topic, producer: 3, seq: 2}.frame())
		f := p.answer("0x4003 passes", patience)
		if f.op == opOK {
			break
		}
		p.asErr("0x4003 passes", f, opPub, codeRate)
		if time.Now().After(deadline) {
			p.failf("0x4003 passes", "still refused after %v", patience)
		}
		p.quiet("a client waits after 0x4003", 50*time.Millisecond)
	}
}

// TestP6_RateInPipeline: order holds when the rate refuses the middle of a pipeline.
func TestP6_RateInPipeline(t *testing.T) {
	t.Parallel()
	rule := "P6: after a failed PUB in a pipeline its successors fail too"
	p := session(t, own(t, knobs{rate: 10}).addr)
	topic := p.topic(1)
	const n = 200
	frames := make([][]byte, n)
	for i := range frames {
		frames[i] = pub{topic: topic, producer: 8, seq: uint64(i) + 1}.frame()
	}
	p.send(frames...)
	stored := uint64(0)
	failed := false
	for i := range frames {
		f := p.answer(rule, patience)
		if f.op == opErr {
			m, err := decodeErr(f.payload)
			if err != nil || m.code != codeRate && (m.code != codeSeqGap || !failed) {
				p.failf(rule, "answer %d: want 0x4003, or 0x0010 behind one, got %v (%v)", i, f, err)
			}
			failed = true
			continue
		}
		if p.asOK(rule, f, opPub); failed {
			p.failf(rule, "answer %d is OK behind a failed one", i)
		}
		stored++
	}
	if stored == 0 || stored == n {
		p.failf("0x4003", "%d of %d stored with a rate of 10", stored, n)
	}
	p.quiet("a client waits after 0x4003", time.Second)
	if got := p.pub(rule, pub{topic: topic, producer: 8, seq: stored + 1}); got.flags != 0 || got.seq != stored+1 {
		p.failf("P6: the client resends from the first failure", "got %+v", got)
	}
}

func TestP2_Sequences(t *testing.T) {
	t.Parallel()
	addr := ordinary.addr(t)
	p, q := session(t, addr), session(t, addr)
	topic := p.topic(3)
	for i := uint64(1); i <= 5; i++ {
		for part := range uint16(3) {
			want := 2*i - 1
			if got := p.pub("P2", pub{topic: topic, partition: part}); got.seq != want {
				p.failf("P2: sequence starts at 1 per partition and grows by 1 per stored message", "partition %d: want %d, got %+v", part, want, got)
			}
			if got := q.pub("P2", pub{topic: topic, partition: part, producer: 6, seq: i}); got.seq != want+1 {
				q.failf("P2: whoever publishes", "partition %d: want %d, got %+v", part, want+1, got)
			}
		}
		for _, bad := range []pub{{topic: topic, seq: 1}, {topic: topic, producer: 6, seq: i + 2}} {
			p.send(bad.frame())
			if f := p.answer("P2", patience); f.op != opErr {
				p.failf("P2", "want an ERR, got %v", f)
			}
		}
		if got := q.pub("P2", pub{topic: topic, producer: 6, seq: i}); got.seq != 2*i || got.flags != pubDeduplicated {
			q.failf("P2: a repeat is not stored", "got %+v", got)
		}
	}
}

func TestP3_ResultFields(t *testing.T) {
	t.Parallel()
	check := func(t *testing.T, p *peer, want uint8) {
		topic := p.topic(1)
		epoch := uint64(0)
		for i := uint64(1); i <= 20; i++ {
			got := p.pub("P3", pub{topic: topic, producer: 2, seq: i})
			if got.durability != want {
				p.failf("P3: durability", "want %d, got %+v", want, got)
			}
			if got.leaderEpoch == 0 || epoch != 0 && got.leaderEpoch != epoch {
				p.failf("P3: leader_epoch is the term of the replication group", "was %d, got %+v", epoch, got)
			}
			if got.seq != i || got.commit < i {
				p.failf("P3: commit_seq is never below sequence", "got %+v", got)
			}
			epoch = got.leaderEpoch
		}
		repeat := p.pub("P3", pub{topic: topic, producer: 2, seq: 4})
		if repeat.seq != 4 || repeat.flags != pubDeduplicated || repeat.commit < 20 || repeat.durability != want {
			p.failf("P4: a repeat's result", "got %+v", repeat)
		}
	}
	t.Run("flush_policy always", func(t *testing.T) {
		t.Parallel()
		check(t, session(t, ordinary.addr(t)), 1)
	})
	t.Run("flush_policy interval", func(t *testing.T) {
		t.Parallel()
		check(t, session(t, own(t, knobs{flushInterval: 20 * time.Millisecond}).addr), 0)
	})
}

// TestP7_KnownAnswers are the published values of FNV-1a 32.
func TestP7_KnownAnswers(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]uint32{"": 0x811C9DC5, "a": 0xE40C292C, "b": 0xE70C2DE5, "foo": 0xA9F37ED7, "foobar": 0xBF9CF968, "hello": 0x4F9F2CAB} {
		if got := fnv1a32([]byte(key)); got != want {
			t.Errorf("P7: fnv1a32(%q) = %#x, want %#x", key, got, want)
		}
	}
	p := session(t, ordinary.addr(t))
	topic := p.topic(4)
	for i := range 64 { // the broker takes what partition the client picks, whatever the key
		key := fmt.Appendf(nil, "key-%d", i)
		p.pub("P7", pub{topic: topic, partition: uint16((fnv1a32(key) + 1) % 4), key: key})
	}
}
