package conformance

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestT1_PartitionCount(t *testing.T) {
	t.Parallel()
	addr := ordinary.addr(t)
	t.Run("0 is the default for a new topic and whatever it has for an old one", func(t *testing.T) {
		t.Parallel()
		p := session(t, addr)
		name := unique("t")
		made := p.declare("T1", declare{topic: name})
		if made.count != 4 || made.created != 0 {
			p.failf("T1: partition_count 0 means the default 4; created 0 = CREATED", "got %+v", made)
		}
		for _, count := range []uint16{0, 4} {
			if got := p.declare("T1", declare{topic: name, count: count}); got != (declareResult{made.topic, 4, 1}) {
				p.failf("T1: the same id and count again, created 1 = IDEMPOTENT_OK", "DECLARE %d: got %+v", count, got)
			}
		}
		other := p.declare("T1", declare{topic: unique("t"), count: 7})
		if other.count != 7 || other.created != 0 {
			p.failf("T1", "want 7 partitions, got %+v", other)
		}
	})
	t.Run("another count is 0x2001", func(t *testing.T) {
		t.Parallel()
		p := session(t, addr)
		name := unique("t")
		made := p.declare("T1", declare{topic: name, count: 3})
		for _, count := range []uint16{1, 2, 4, 1024} {
			p.send(declare{topic: name, count: count}.frame())
			p.err("0x2001: DECLARE of an existing name with another partition count", opDeclare, codeTopicMismatch)
		}
		if got := p.declare("T1: nothing changed", declare{topic: name}); got != (declareResult{made.topic, 3, 1}) {
			p.failf("T1: nothing changed", "got %+v", got)
		}
	})
	t.Run("at most 1024", func(t *testing.T) {
		t.Parallel()
		p := session(t, addr)
		name := unique("t")
		for _, count := range []uint16{1025, 65535} {
			p.send(declare{topic: name, count: count}.frame())
			p.err("0x4002: partitions per topic", opDeclare, codeQuota)
		}
		if got := p.declare("T1", declare{topic: name, count: 1024}); got.count != 1024 || got.created != 0 {
			p.failf("T1: 1024 is allowed, and the refused ones made nothing", "got %+v", got)
		}
	})
	t.Run("partition_max_count is the setting", func(t *testing.T) {
		t.Parallel()
		p := session(t, own(t, knobs{partitionMax: 8}).addr)
		p.send(declare{topic: "nine", count: 9}.frame())
		p.err("0x4002: partitions per topic", opDeclare, codeQuota)
		p.declare("T1", declare{topic: "eight", count: 8})
	})
}

func TestT_PairedIDs(t *testing.T) {
	t.Parallel()
	p := session(t, own(t, knobs{}).addr)
	for i := range uint16(5) {
		got := p.declare("section 2.1 note 8", declare{topic: fmt.Sprintf("topic-%d", i), count: 1})
		if got.topic != 2*i+1 {
			p.failf("section 2.1 note 8: the source takes the odd slot, the twin the even (1,2 / 3,4 / …)", "topic %d: got %+v", i, got)
		}
		p.send(pub{topic: got.topic + 1}.frame())
		p.err("T3: nobody PUBs to a twin but the broker", opPub, codeInvalidTopic)
		p.send(pub{topic: got.topic + 2}.frame())
		p.err("0x0008: topic_id never allocated", opPub, codeUnknownTopic)
	}
}

func TestT_Names(t *testing.T) {
	t.Parallel()
	addr := ordinary.addr(t)
	bad := []string{
		"", "*", ">", "#", "+", "a*", "a.*", "a.>", "a.#.b", "x+y", ".", "..", ".a", "a.", "a..b", "$", "$sys", "$sys.a",
		"a b", " a", "a ", "a\tb", "a\nb", "a\r", "a\x00b", "a\x1f", "a\x7f", "a\u0085b", "a\u00a0b", "a\u2003b", "a\u2028b", "a\u3000",
		"\xff", "a\xc3", "\xed\xa0\x80", "a\xf8\x88\x80\x80\x80", "x.dlq", "a.b.dlq", ".dlq", strings.Repeat("a", 251) + ".dlq",
	}
	t.Run("refused", func(t *testing.T) {
		t.Parallel()
		p := session(t, addr)
		for _, name := range bad {
			p.send(declare{topic: name, count: 1}.frame())
			p.err(fmt.Sprintf("0x000B: DECLARE %q", name), opDeclare, codeInvalidTopic)
		}
	})
	t.Run("accepted", func(t *testing.T) {
		t.Parallel()
		p := session(t, addr)
		run := unique("n")
		for _, suffix := range []string{
			".eu", "/slash", ".a$b", "-dash_under", ".dlqx", ".dlq.x", ".DLQ", "dlq", ".größe.日本.🦀", "\\back", ":colon", "\"quote'", "%41", ";,@!?&|",
			strings.Repeat("x", 255-len(run)), "." + strings.Repeat("é", (254-len(run))/2),
		} {
			made := p.declare(fmt.Sprintf("T4: DECLARE %q", run+suffix), declare{topic: run + suffix, count: 1})
			again := p.declare("T4", declare{topic: run + suffix})
			if made.created != 0 || again != (declareResult{made.topic, 1, 1}) {
				p.failf(fmt.Sprintf("T4: DECLARE %q twice", run+suffix), "got %+v, then %+v", made, again)
			}
		}
	})
	t.Run("are case-sensitive bytes", func(t *testing.T) {
		t.Parallel()
		p := session(t, addr)
		name := unique("case")
		a := p.declare("T4", declare{topic: name + ".orders", count: 1})
		b := p.declare("T4", declare{topic: name + ".Orders", count: 2})
		c := p.declare("T4: no Unicode normalisation", declare{topic: name + ".\u00e9", count: 1})
		d := p.declare("T4: no Unicode normalisation", declare{topic: name + ".e\u0301", count: 1})
		if a.topic == b.topic || b.created != 0 || c.topic == d.topic || d.created != 0 {
			p.failf("T4: names are case-sensitive bytes", "got %+v %+v %+v %+v", a, b, c, d)
		}
	})
}

func TestT2_Delete(t *testing.T) {
	t.Parallel()
	addr := ordinary.addr(t)
	t.Run("removes the topic and its twin for good", func(t *testing.T) {
		t.Parallel()
		p := session(t, addr)
		name := unique("t")
		made := p.declare("T2", declare{topic: name, count: 2})
		p.fill(made.topic, 0, "old")
		p.send(declare{topic: name, count: 3, flags: declareDelete}.frame())
		p.err("T2: partition_count must be 0 or match", opDeclare, codeTopicMismatch)
		p.fill(made.topic, 0, "still there")
		if got := p.declare("T2", declare{topic: name, count: 2, flags: declareDelete}); got != (declareResult{made.topic, 2, 0}) {
			p.failf("T2: OK.result has created=0", "got %+v", got)
		}
		for _, id := range []uint16{made.topic, made.topic + 1} {
			p.send(pub{topic: id}.frame())
			p.err("T2: later use of either id is 0x0008", opPub, codeUnknownTopic)
			p.send(subTo(id, "g").frame())
			p.err("T2: later use of either id is 0x0008", opSub, codeUnknownTopic)
		}
		for _, count := range []uint16{0, 2} {
			p.send(declare{topic: name, count: count, flags: declareDelete}.frame())
			if text := p.err("T2: a name that does not exist is 0x0008", opDeclare, codeUnknownTopic); !strings.Contains(text, "mortarmq topics create") {
				p.failf("0x0008: the message names `mortarmq topics create`", "got %q", text)
			}
		}
		again := p.declare("T2", declare{topic: name, count: 1})
		if again.created != 0 || again.count != 1 || again.topic <= made.topic || again.topic%2 != 1 {
			p.failf("T2: ids are never used again", "was %+v, made again as %+v", made, again)
		}
		if got := p.pub("faults: made again, it has no old messages", pub{topic: again.topic, value: []byte("new")}); got.seq != 1 {
			p.failf("P2: sequence starts at 1", "got %+v", got)
		}
		m := p.join(subTo(again.topic, "g"), 1)
		if msgs := m.take("T2", 1); string(msgs[0].value) != "new" {
			p.failf("faults: made again, it has no old messages", "got %s", show(msgs))
		}
		p.send(pub{topic: made.topic}.frame())
		p.err("faults: the old id stays unknown", opPub, codeUnknownTopic)
	})
	t.Run("with partition_count 0", func(t *testing.T) {
		t.Parallel()
		p := session(t, addr)
		name := unique("t")
		made := p.declare("T2", declare{topic: name, count: 5})
		if got := p.declare("T2", declare{topic: name, flags: declareDelete}); got != (declareResult{made.topic, 5, 0}) {
			p.failf("T2", "got %+v", got)
		}
	})
	t.Run("subscriptions get NOTICE REVOKE", func(t *testing.T) {
		t.Parallel()
		p := session(t, addr)
		name := unique("t")
		topic := p.declare("T2", declare{topic: name, count: 2}).topic
		m := join(t, addr, subTo(topic, "g"), 2)
		p.declare("T2", declare{topic: name, flags: declareDelete})
		seen := map[uint16]bool{}
		for range 2 {
			n := m.notice("T2: subscriptions get NOTICE REVOKE", patience)
			if n.kind != kindRevoke || seen[n.partition] || m.own[n.partition] != n.epoch {
				m.failf("T2: one REVOKE for each partition that is owned", "own %v, got %+v", m.own, n)
			}
			seen[n.partition] = true
		}
		m.send(m.pullOf(pull{}).frame(), ping())
		f := m.answer("every request gets one answer", patience)
		if e, err := decodeErr(f.payload); f.op != opErr || err != nil || e.code != codeStaleGeneration && e.code != codeUnknownTopic {
			m.failf("T2: PULL after the topic's end is 0x0020 or 0x0008", "got %v", f)
		}
		m.empty("T2: the session goes on", opPing)
	})
	t.Run("a waiting PULL gets one answer", func(t *testing.T) {
		t.Parallel()
		p := session(t, addr)
		name := unique("t")
		topic := p.declare("T2", declare{topic: name, count: 1}).topic
		m := join(t, addr, subTo(topic, "g"), 1)
		since := time.Now()
		m.send(m.pullOf(pull{waitMS: 4000}).frame())
		p.declare("T2", declare{topic: name, flags: declareDelete})
		f := m.answer("faults: every request gets exactly one answer, also a PULL whose topic is deleted", patience)
		if f.op != opOK && f.op != opErr {
			m.failf("faults: a PULL whose topic is deleted", "got %v", f)
		}
		if d := time.Since(since); d > 3*time.Second {
			m.failf("faults: a PULL whose topic is deleted", "answered only after %v", d)
		}
		m.alive("T2: the session goes on")
	})
}

func TestT3_Twin(t *testing.T) {
	t.Parallel()
	p := session(t, ordinary.addr(t))
	name := unique("t")
	topic := p.declare("T3", declare{topic: name, count: 3}).topic
	p.send(pub{topic: topic + 1, value: []byte("x")}.frame())
	p.err("T3: nobody PUBs to a twin but the broker", opPub, codeInvalidTopic)
	p.send(declare{topic: name + ".dlq", count: 3}.frame())
	p.err("T3: the twin's display name is reserved", opDeclare, codeInvalidTopic)
	m := p.join(subTo(topic+1, "g"), 3)
	for part := range uint16(3) {
		if _, owned := m.own[part]; !owned {
			p.failf("T3: a twin has its source's partition count", "own %v", m.own)
		}
	}
	m.none("T3: a new twin is empty", 50*time.Millisecond)
}

func TestT_Restart(t *testing.T) {
	t.Parallel()
	n := own(t, knobs{})
	p := session(t, n.addr)
	type made struct {
		name string
		res  declareResult
	}
	var all []made
	for i := range 12 {
		name := fmt.Sprintf("t.%d", i)
		if i%3 == 0 {
			name = strings.Repeat("é", i+1) + name
		}
		all = append(all, made{name, p.declare("DECLARE", declare{topic: name, count: uint16(i%4 + 1)})})
	}
	gone := []int{3, 11} // the newest too: its id must not come back
	for _, i := range gone {
		p.declare("T2", declare{topic: all[i].name, flags: declareDelete})
	}
	last := all[11].res.topic
	for round := range 2 {
		n = n.restart(t)
		p = session(t, n.addr)
		for i, m := range all {
			if i == 3 || i == 11 {
				p.send(pub{topic: m.res.topic}.frame())
				p.err("T2: after a restart a deleted id is unknown", opPub, codeUnknownTopic)
				p.send(declare{topic: m.name, flags: declareDelete}.frame())
				p.err("T2: after a restart a deleted name is unknown", opDeclare, codeUnknownTopic)
				continue
			}
			if got := p.declare("T", declare{topic: m.name}); got != (declareResult{m.res.topic, m.res.count, 1}) {
				p.failf("T: ids and names are the same after any restart", "%q was %+v, is %+v", m.name, m.res, got)
			}
		}
		got := p.declare("T", declare{topic: fmt.Sprintf("new.%d", round), count: 1})
		if got.created != 0 || got.topic <= last || got.topic%2 != 1 {
			p.failf("T2: ids are never used again, also after a restart", "last was %d, new is %+v", last, got)
		}
		last = got.topic
	}
}
