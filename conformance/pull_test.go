package conformance

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// reader makes a topic of one partition and joins a group on it with the given credit.
func reader(t *testing.T, addr string, count uint16, bytes uint32) *member {
	t.Helper()
	p := session(t, addr)
	s := subTo(p.topic(1), "g")
	s.count, s.bytes = count, bytes
	return p.join(s, 1)
}

// sized is a value of n bytes that begins with its number.
func sized(i, n int) string { return (fmt.Sprintf("%d:", i) + strings.Repeat("x", n))[:n] }

// took checks how long a PULL was answered after since.
func (m *member) took(rule string, since time.Time, atLeast, below time.Duration) {
	m.t.Helper()
	below += (pace - 1) * 750 * time.Millisecond
	if d := time.Since(since); d < atLeast || d >= below {
		m.failf(rule, "answered after %v, want at least %v and below %v", d, atLeast, below)
	}
}

func (m *member) got(rule string, msgs []message, want ...string) {
	m.t.Helper()
	if v := values(msgs); !slices.Equal(v, want) {
		m.failf(rule, "want %.200q, got %.200q", want, v)
	}
}

func TestV1_LongPoll(t *testing.T) {
	t.Parallel()
	addr := ordinary.addr(t)
	t.Run("nothing there, wait 0", func(t *testing.T) {
		t.Parallel()
		m := reader(t, addr, 0, 0)
		since := time.Now()
		m.got("V1: with nothing to send it answers OK", m.pull("V1", pull{}))
		m.took("V1: wait_ms 0 answers at once", since, 0, time.Second)
	})
	t.Run("nothing there, wait", func(t *testing.T) {
		t.Parallel()
		m := reader(t, addr, 0, 0)
		since := time.Now()
		m.got("V1", m.pull("V1", pull{waitMS: 400}))
		m.took("V1: at the latest after wait_ms", since, 390*time.Millisecond, 2*time.Second)
	})
	t.Run("a message is there", func(t *testing.T) {
		t.Parallel()
		m := reader(t, addr, 0, 0)
		m.fill(m.topic, 0, "a", "b")
		since := time.Now()
		m.got("V1: 0 means as much as credit allows", m.pull("V1", pull{waitMS: 5000}), "a", "b")
		m.took("V1: answers at once when a message is available", since, 0, 2*time.Second)
	})
	t.Run("a message comes while it waits", func(t *testing.T) {
		t.Parallel()
		m := reader(t, addr, 0, 0)
		q := session(t, addr)
		since := time.Now()
		m.send(m.pullOf(pull{waitMS: 5000}).frame())
		m.quiet("V1: it waits", 200*time.Millisecond)
		q.fill(m.topic, 0, "late")
		m.got("V1", m.pulled("V1"), "late")
		m.took("V1: as soon as that happens", since, 200*time.Millisecond, 3*time.Second)
	})
	t.Run("min_bytes", func(t *testing.T) {
		t.Parallel()
		m := reader(t, addr, 0, 0)
		q := session(t, addr)
		m.fill(m.topic, 0, sized(1, 100))
		since := time.Now()
		m.send(m.pullOf(pull{waitMS: 5000, minBytes: 1000}).frame())
		m.quiet("V1: min_bytes is not reached", 200*time.Millisecond)
		q.fill(m.topic, 0, sized(2, 899))
		m.quiet("V1: 999 of 1,000", 100*time.Millisecond)
		q.fill(m.topic, 0, sized(3, 1))
		m.got("V1: min_bytes is reached", m.pulled("V1"), sized(1, 100), sized(2, 899), sized(3, 1))
		m.took("V1: min_bytes", since, 300*time.Millisecond, 4*time.Second)
	})
	t.Run("min_bytes is not reached", func(t *testing.T) {
		t.Parallel()
		m := reader(t, addr, 0, 0)
		m.fill(m.topic, 0, "a", "b")
		since := time.Now()
		m.got("V1: at the latest after wait_ms with what is there", m.pull("V1", pull{waitMS: 500, minBytes: 1 << 30}), "a", "b")
		m.took("V1: at the latest after wait_ms", since, 490*time.Millisecond, 2*time.Second)
	})
	t.Run("an empty message counts one byte", func(t *testing.T) {
		t.Parallel()
		m := reader(t, addr, 0, 0)
		m.fill(m.topic, 0, "", "")
		m.send(m.pullOf(pull{waitMS: 5000, minBytes: 3}).frame())
		m.quiet("V1: two empty messages are 2 bytes", 150*time.Millisecond)
		session(t, addr).fill(m.topic, 0, "")
		since := time.Now()
		m.got("V1: every message counts at least 1 byte", m.pulled("V1"), "", "", "")
		m.took("V1: three empty messages are 3 bytes", since, 0, 2*time.Second)
		m.fill(m.topic, 0, "", "", "", "")
		m.got("V1: also against max_bytes", m.pull("V1", pull{maxBytes: 3}), "", "", "")
		m.got("V1", m.pull("V1", pull{}), "")
	})
}

func TestV1_WhatEndsAPull(t *testing.T) {
	t.Parallel()
	addr := ordinary.addr(t)
	t.Run("max_msgs", func(t *testing.T) {
		t.Parallel()
		m := reader(t, addr, 0, 0)
		m.fill(m.topic, 0, "a", "b", "c", "d", "e")
		since := time.Now()
		m.got("V1: max_msgs is reached", m.pull("V1", pull{maxMsgs: 2, waitMS: 5000, minBytes: 1 << 20}), "a", "b")
		m.took("V1: at once when max_msgs is reached, whatever min_bytes", since, 0, 2*time.Second)
		m.got("V1", m.pull("V1", pull{maxMsgs: 65535, waitMS: 100}), "c", "d", "e")
	})
	t.Run("max_bytes", func(t *testing.T) {
		t.Parallel()
		m := reader(t, addr, 0, 0)
		var all []string
		for i := range 5 {
			all = append(all, sized(i, 100))
		}
		m.fill(m.topic, 0, all...)
		since := time.Now()
		m.got("V1: max_bytes is reached", m.pull("V1", pull{maxBytes: 250, waitMS: 5000, minBytes: 1 << 20}), all[0], all[1])
		m.took("V1: at once when max_bytes is reached, whatever min_bytes", since, 0, 2*time.Second)
		m.got("V1: exactly max_bytes", m.pull("V1", pull{maxBytes: 200}), all[2], all[3])
	})
	t.Run("the credit is reached", func(t *testing.T) {
		t.Parallel()
		m := reader(t, addr, 3, 0)
		m.fill(m.topic, 0, "a", "b", "c", "d")
		since := time.Now()
		m.got("V1: the credit is reached", m.pull("V1", pull{waitMS: 5000, minBytes: 1 << 20}), "a", "b", "c")
		m.took("V1: at once when the credit is reached, whatever min_bytes", since, 0, 2*time.Second)
	})
	t.Run("poll_max_wait_ms", func(t *testing.T) {
		t.Parallel()
		m := reader(t, own(t, knobs{pollMaxWait: 300 * time.Millisecond}).addr, 0, 0)
		since := time.Now()
		m.got("V1", m.pull("V1", pull{waitMS: 65535}))
		m.took("V1: wait_ms is at most poll_max_wait_ms", since, 290*time.Millisecond, 2*time.Second)
	})
	t.Run("the default of poll_max_wait_ms is 5000", func(t *testing.T) {
		slow(t)
		t.Parallel()
		m := reader(t, addr, 0, 0)
		since := time.Now()
		m.got("V1", m.pull("V1", pull{waitMS: 65535}))
		m.took("V1: wait_ms is at most poll_max_wait_ms", since, 4900*time.Millisecond, 7*time.Second)
	})
}

func TestV1_SeveralPartitions(t *testing.T) {
	t.Parallel()
	p := session(t, ordinary.addr(t))
	topic := p.topic(8)
	m := p.join(subTo(topic, "g"), 8)
	want := map[string]bool{}
	for part := range uint16(8) {
		for i := range 3 {
			v := fmt.Sprintf("%d/%d", part, i)
			p.fill(topic, part, v)
			want[v] = true
		}
	}
	next := map[uint16]uint64{}
	for _, x := range m.take("V1", 24) {
		if next[x.partition]++; x.seq != next[x.partition] || !want[string(x.value)] {
			m.failf("V4: first deliveries of a partition follow its sequence order", "want %d, got %s", next[x.partition], show([]message{x}))
		}
		delete(want, string(x.value))
	}
	m.none("V1: each message once", 0)
}

// TestV1_FieldsOfMsg: the message is the PUB's, byte for byte.
func TestV1_FieldsOfMsg(t *testing.T) {
	t.Parallel()
	p := session(t, ordinary.addr(t))
	topic := p.topic(2)
	m := p.join(subTo(topic, "g"), 2)
	for i, x := range []pub{
		{topic: topic}, {topic: topic, key: []byte("k")}, {topic: topic, value: []byte("v")},
		{topic: topic, partition: 1, producer: 1<<64 - 1, seq: 1<<64 - 5, key: []byte(strings.Repeat("k", maxKey)), value: []byte(strings.Repeat("v", 70_000))},
		{topic: topic, producer: 7, seq: 0, key: []byte("\xff\x00not UTF-8"), value: []byte("\x00\x00\x00\x01\x07")},
	} {
		res := p.pub("P8", x)
		got := m.take("P8", 1)[0]
		if string(got.key) != string(x.key) || string(got.value) != string(x.value) || got.producer != x.producer || got.producerSeq != x.seq ||
			got.partition != x.partition || got.seq != res.seq || got.attempt != 1 || got.flags != 0 || got.epoch != m.own[x.partition] {
			p.failf("P8: the stored record is the PUB's bytes", "message %d: got %+v", i, got)
		}
	}
}

func TestV2_NextRequestEndsTheWait(t *testing.T) {
	t.Parallel()
	addr := ordinary.addr(t)
	rule := "V2: the next request arriving behind a waiting PULL ends the wait"
	t.Run("with nothing there", func(t *testing.T) {
		t.Parallel()
		m := reader(t, addr, 0, 0)
		for _, next := range []struct {
			op    byte
			frame []byte
		}{
			{opPing, ping()}, {opHeartbeat, m.beat(m.mem, m.asg, stateActive)}, {opPull, m.pullOf(pull{}).frame()},
			{opPub, pub{topic: m.topic, value: []byte("x")}.frame()},
		} {
			since := time.Now()
			m.send(m.pullOf(pull{waitMS: 5000}).frame())
			m.quiet("V1: it waits", 50*time.Millisecond)
			m.send(next.frame)
			m.got(rule, m.pulled(rule))
			m.ok("V2: then that request is served", next.op)
			m.took(rule, since, 0, 3*time.Second)
		}
	})
	t.Run("in one write", func(t *testing.T) {
		t.Parallel()
		m := reader(t, addr, 0, 0)
		since := time.Now()
		wait := m.pullOf(pull{waitMS: 5000}).frame()
		m.send(wait, ping(), wait, wait, ping())
		m.got(rule, m.pulled(rule))
		m.empty(rule, opPing)
		m.got(rule, m.pulled(rule))
		m.got(rule, m.pulled(rule))
		m.empty(rule, opPing)
		m.took(rule, since, 0, 3*time.Second)
	})
	t.Run("with less than min_bytes there", func(t *testing.T) {
		t.Parallel()
		m := reader(t, addr, 0, 0)
		m.fill(m.topic, 0, "a", "b")
		m.send(m.pullOf(pull{waitMS: 5000, minBytes: 1000}).frame())
		m.quiet("V1: it waits", 100*time.Millisecond)
		m.send(ping())
		m.got("V2: PULL answers with what is there", m.pulled(rule), "a", "b")
		m.empty("V2: then that request is served", opPing)
	})
	t.Run("a client's ERR is no request", func(t *testing.T) {
		t.Parallel()
		m := reader(t, addr, 0, 0)
		m.send(m.pullOf(pull{waitMS: 700}).frame(), errFrame(1, 1, "note"))
		since := time.Now()
		m.got("V2", m.pulled("V2"))
		m.took("V2: only a request ends the wait", since, 600*time.Millisecond, 3*time.Second)
	})
	t.Run("one connection suffices for PULL, ACK and HEARTBEAT", func(t *testing.T) {
		t.Parallel()
		m := reader(t, addr, 1, 0)
		for i := range 30 {
			m.fill(m.topic, 0, fmt.Sprint(i))
			x := m.take("V2", 1)[0]
			m.send(m.settleOf(x).ack(), m.pullOf(pull{waitMS: 5000}).frame(), m.beat(m.mem, m.asg, stateActive))
			m.empty("ACK", opAck)
			m.got("V2", m.pulled("V2"))
			m.empty("HEARTBEAT", opHeartbeat)
		}
	})
}

func TestV3_OwnershipEpochs(t *testing.T) {
	t.Parallel()
	p := session(t, ordinary.addr(t))
	topic := p.topic(3)
	m := p.join(subTo(topic, "g"), 3)
	e := []uint64{m.own[0], m.own[1], m.own[2]}
	p.fill(topic, 1, "x")
	for name, bad := range map[string][]uint64{
		"too few": e[:2], "too many": append(slices.Clone(e), e[2]), "one differs": {e[0], e[1] + 1, e[2]}, "zero": {0, 0, 0}, "a single one": {e[0]},
	} {
		m.pullErr("0x0021: PULL.ownership_epochs differs from what the member owns: "+name, pull{epochs: bad, waitMS: 1000}, codeNotOwner)
	}
	if e[0] != e[2] {
		m.pullErr("V3: in ascending partition order", pull{epochs: []uint64{e[2], e[1], e[0]}}, codeNotOwner)
	}
	m.got("V3: the epochs of all partitions the member owns", m.pull("V3", pull{epochs: e}), "x")
	m.got("V3: empty: no check", m.pull("V3", pull{}))
	x := m.pullOf(pull{epochs: []uint64{9}})
	x.mem += 7
	m.send(x.frame())
	m.err("generation before ownership", opPull, codeStaleGeneration)
}

func TestV4_ARetryHoldsNobodyBack(t *testing.T) {
	t.Parallel()
	m := reader(t, ordinary.addr(t), 0, 0)
	m.fill(m.topic, 0, "a", "b", "c", "d")
	first := m.pull("V4", pull{maxMsgs: 1})
	m.got("V4", first, "a")
	m.nack("V9", first[0], nackRetry)
	m.got("V4: a message waiting for redelivery does not hold back later ones", m.pull("V4", pull{waitMS: 100}), "b", "c", "d")
	m.got("V10: after 1 s", m.take("V4", 1), "a")
}

func TestPullCodes(t *testing.T) {
	t.Parallel()
	addr := ordinary.addr(t)
	m := reader(t, addr, 0, 0)
	x := m.pullOf(pull{waitMS: 1000})
	for name, change := range map[string]func(*pull){
		"subscription": func(p *pull) { p.sub += 5 }, "subscription 0": func(p *pull) { p.sub = 0 },
		"member": func(p *pull) { p.member++ }, "member 0": func(p *pull) { p.member = 0 },
		"membership_epoch": func(p *pull) { p.mem++ }, "assignment_epoch": func(p *pull) { p.asg++ },
	} {
		y := x
		change(&y)
		since := time.Now()
		m.send(y.frame())
		m.err("0x0020: PULL with another "+name, opPull, codeStaleGeneration)
		m.took("0x0020: at once", since, 0, 900*time.Millisecond)
	}
	q := session(t, addr)
	q.send(x.frame())
	q.err("G3: subscription_id belongs to the connection", opPull, codeStaleGeneration)
}
