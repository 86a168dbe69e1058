package conformance

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// numbered is a PUB of producer 42 with its number as the value.
func numbered(topic uint16, seq uint64) pub {
	return pub{topic: topic, producer: 42, seq: seq, value: fmt.Append(nil, seq)}
}

// is checks one PUB result.
func (p *peer) is(rule string, got pubResult, seq uint64, flags uint8) {
	p.t.Helper()
	if got.seq != seq || got.flags != flags {
		p.failf(rule, "want sequence %d with result_flags %d, got %+v", seq, flags, got)
	}
}

// run publishes numbers first..last of producer 42, a thousand in a write.
func (p *peer) run(topic uint16, first, last uint64) []pubResult {
	p.t.Helper()
	var out []pubResult
	for first <= last {
		end := min(last, first+999)
		var frames [][]byte
		for i := first; i <= end; i++ {
			frames = append(frames, numbered(topic, i).frame())
		}
		p.send(frames...)
		for ; first <= end; first++ {
			out = append(out, p.published(fmt.Sprintf("P4: producer_seq %d", first)))
		}
	}
	return out
}

func (p *peer) pubErr(rule string, m pub, code uint16) {
	p.t.Helper()
	p.send(m.frame())
	p.err(rule, opPub, code)
}

func TestP4_FirstNextGap(t *testing.T) {
	t.Parallel()
	for _, first := range []uint64{0, 1, 2, 1000, 1 << 40, 1<<64 - 3} {
		t.Run(fmt.Sprintf("first %d", first), func(t *testing.T) {
			t.Parallel()
			p := session(t, ordinary.addr(t))
			topic := p.topic(1)
			p.is("P4: the first PUB of an unknown producer may carry any producer_seq", p.pub("P4", numbered(topic, first)), 1, 0)
			p.pubErr("P4: a larger one than last+1 is 0x0010", numbered(topic, first+2), codeSeqGap)
			p.is("P4: the first again", p.pub("P4", numbered(topic, first)), 1, pubDeduplicated)
			p.is("P4: last+1 is stored", p.pub("P4", numbered(topic, first+1)), 2, 0)
			p.is("P4: a PUB that failed leaves no trace", p.pub("P4", numbered(topic, first+2)), 3, 0)
			if first > 0 {
				p.pubErr("P4: below the producer's first is 0x0011", numbered(topic, first-1), codeSeqExpired)
				p.pubErr("P4: below the producer's first is 0x0011", numbered(topic, 0), codeSeqExpired)
			}
			for i := range uint64(3) {
				p.is("P4: a repeat has the original sequence", p.pub("P4", numbered(topic, first+i)), i+1, pubDeduplicated)
			}
		})
	}
	t.Run("the largest producer_seq has no successor", func(t *testing.T) {
		t.Parallel()
		p := session(t, ordinary.addr(t))
		topic := p.topic(1)
		p.is("P4", p.pub("P4", numbered(topic, 1<<64-1)), 1, 0)
		p.pubErr("P4: 0 is not the successor of the largest", numbered(topic, 0), codeSeqExpired)
		p.is("P4", p.pub("P4", numbered(topic, 1<<64-1)), 1, pubDeduplicated)
	})
}

func TestP4_WindowOf1024(t *testing.T) {
	t.Parallel()
	p := session(t, ordinary.addr(t))
	topic := p.topic(1)
	const first, last = 100, 1700
	p.run(topic, first, last)
	for _, s := range []uint64{last, last - 1, last - 500, last - 1022, last - 1023} {
		p.is(fmt.Sprintf("P4: %d is within the last 1,024", s), p.pub("P4", numbered(topic, s)), s-first+1, pubDeduplicated)
	}
	for _, s := range []uint64{last - 1024, last - 1025, first, first - 1, 0} {
		p.pubErr(fmt.Sprintf("P4: %d is older than the last 1,024", s), numbered(topic, s), codeSeqExpired)
	}
	p.pubErr("P4: a gap", numbered(topic, last+2), codeSeqGap)
	p.is("P4: last+1", p.pub("P4", numbered(topic, last+1)), last-first+2, 0)
	p.pubErr("P4: the window moved on by one", numbered(topic, last-1023), codeSeqExpired)
	p.is("P4: its oldest", p.pub("P4", numbered(topic, last-1022)), last-1022-first+1, pubDeduplicated)
}

func TestP4_WindowIsPerPartitionAndProducer(t *testing.T) {
	t.Parallel()
	addr := ordinary.addr(t)
	p := session(t, addr)
	a, b := p.topic(2), p.topic(1)
	for i, m := range []pub{
		{topic: a, producer: 1, seq: 5}, {topic: a, producer: 2, seq: 900}, {topic: a, partition: 1, producer: 1, seq: 77},
		{topic: b, producer: 1, seq: 3}, {topic: a, producer: 1<<64 - 1, seq: 1},
	} {
		if got := p.pub("P4: a window per (topic_id, partition, producer_id)", m); got.flags != 0 {
			p.failf("P4: a window per (topic_id, partition, producer_id)", "PUB %d: got %+v", i, got)
		}
	}
	q := session(t, addr)
	q.is("P4: the window is the producer's, not the connection's", q.pub("P4", pub{topic: a, producer: 1, seq: 5}), 1, pubDeduplicated)
	q.is("P4", q.pub("P4", pub{topic: a, producer: 1, seq: 6}), 4, 0)
	p.is("P4", p.pub("P4", pub{topic: a, producer: 1, seq: 6}), 4, pubDeduplicated)
}

// TestP4_ContentOfARepeatDoesNotMatter: a sequence never shows two contents.
func TestP4_ContentOfARepeatDoesNotMatter(t *testing.T) {
	t.Parallel()
	p := session(t, ordinary.addr(t))
	topic := p.topic(1)
	p.pub("P4", pub{topic: topic, producer: 1, seq: 1, value: []byte("original")})
	p.is("P4", p.pub("P4", pub{topic: topic, producer: 1, seq: 1, value: []byte("another")}), 1, pubDeduplicated)
	p.fill(topic, 0, "next")
	m := p.join(subTo(topic, "g"), 1)
	if got := values(m.take("P2", 2)); !slices.Equal(got, []string{"original", "next"}) {
		p.failf("P2: a sequence never shows two contents", "got %q", got)
	}
}

func TestP4_ProducerZeroIsNotDeduplicated(t *testing.T) {
	t.Parallel()
	p := session(t, ordinary.addr(t))
	topic := p.topic(1)
	for i := range uint64(5) {
		p.is("section 2.1 note 1: producer_id 0 and producer_seq 0 is not idempotent", p.pub("P4", pub{topic: topic, value: []byte("same")}), i+1, 0)
	}
}

func TestP4_RepeatsInFlight(t *testing.T) {
	t.Parallel()
	addr := ordinary.addr(t)
	p := session(t, addr)
	topic := p.topic(1)
	rule := "P4: a repeat of a message that is not committed yet waits for that commit"
	var order []uint64
	for i := uint64(10); i < 210; i++ {
		order = append(order, i, i, max(10, i-3), i)
	}
	frames := make([][]byte, len(order))
	for i, s := range order {
		frames[i] = numbered(topic, s).frame()
	}
	p.send(frames...)
	seen := map[uint64]bool{}
	for _, s := range order {
		flags := uint8(0)
		if seen[s] {
			flags = pubDeduplicated
		}
		seen[s] = true
		p.is(rule, p.published(rule), s-9, flags)
	}

	// The same from two connections at once: each number is stored by exactly one of them.
	other := p.topic(1)
	conns := []*peer{session(t, addr), session(t, addr), session(t, addr)}
	const n = 300
	for _, c := range conns {
		var stream [][]byte
		for i := uint64(1); i <= n; i++ {
			stream = append(stream, numbered(other, i).frame())
		}
		c.send(stream...)
	}
	fresh := make(map[uint64]int)
	for _, c := range conns {
		for i := uint64(1); i <= n; i++ {
			got := c.published(rule)
			if got.seq != i {
				c.failf(rule, "producer_seq %d: want sequence %d, got %+v", i, i, got)
			}
			if got.flags == 0 {
				fresh[i]++
			}
		}
	}
	for i := uint64(1); i <= n; i++ {
		if fresh[i] != 1 {
			t.Errorf("%s: producer_seq %d was stored by %d of three connections", rule, i, fresh[i])
		}
	}
}

// TestTimersP5_IdleProducerIsForgotten allows a minute for it: P5 does not say how soon after its expiry.
func TestTimersP5_IdleProducerIsForgotten(t *testing.T) {
	longTimers(t)
	t.Parallel()
	p := session(t, own(t, knobs{idleExpiry: 2 * time.Second}).addr)
	topic := p.topic(1)
	p.pub("P4", pub{topic: topic, producer: 1, seq: 50})
	p.pub("P4", pub{topic: topic, producer: 2, seq: 50})
	for i := range uint64(64) { // producer 2 goes on, producer 1 is idle
		p.quiet("P5", time.Second)
		p.pub("P4", pub{topic: topic, producer: 2, seq: 51 + i})
	}
	if got := p.pub("P5: a producer idle for producer_idle_expiry is forgotten", pub{topic: topic, producer: 1, seq: 7}); got.flags != 0 {
		p.failf("P5: a producer idle for producer_idle_expiry is forgotten", "got %+v", got)
	}
	p.pubErr("P5: one that is not idle is remembered", pub{topic: topic, producer: 2, seq: 49}, codeSeqExpired)
	p.is("P5: one that is not idle is remembered", p.pub("P5", pub{topic: topic, producer: 2, seq: 50}), 2, pubDeduplicated)
}

func TestP6_SuccessorsOfAFailedPub(t *testing.T) {
	t.Parallel()
	p := session(t, ordinary.addr(t))
	topic := p.topic(1)
	p.send(numbered(topic, 1).frame(), numbered(topic, 3).frame(), numbered(topic, 4).frame(), numbered(topic, 5).frame(), numbered(topic, 2).frame(), numbered(topic, 3).frame())
	rule := "P6: after a failed PUB in a pipeline its successors fail with 0x0010"
	p.is(rule, p.published(rule), 1, 0)
	for range 3 {
		p.err(rule, opPub, codeSeqGap)
	}
	p.is("P6: the client resends from the first failure", p.published(rule), 2, 0)
	p.is("P6: the client resends from the first failure", p.published(rule), 3, 0)
}

func TestP4_WindowSurvivesRestart(t *testing.T) {
	t.Parallel()
	n := own(t, knobs{})
	p := session(t, n.addr)
	topic, small := p.topic(1), p.topic(2)
	const first, last = 50, 1500
	p.run(topic, first, last)
	p.pub("P4", pub{topic: small, partition: 1, producer: 7, seq: 7})
	for round := range uint64(2) {
		n = n.restart(t)
		p = session(t, n.addr)
		last := last + round
		rule := "P4: the window survives restart"
		for _, s := range []uint64{last - 1023, last - 512, last} {
			p.is(fmt.Sprintf("%s: repeat of %d", rule, s), p.pub(rule, numbered(topic, s)), s-first+1, pubDeduplicated)
		}
		p.pubErr(rule+": older than the window", numbered(topic, last-1024), codeSeqExpired)
		p.pubErr(rule+": below the first", numbered(topic, first-1), codeSeqExpired)
		p.pubErr(rule+": a gap", numbered(topic, last+2), codeSeqGap)
		p.is(rule+": last+1", p.pub(rule, numbered(topic, last+1)), last-first+2, 0)
		p.is(rule+": a small window", p.pub(rule, pub{topic: small, partition: 1, producer: 7, seq: 7}), 1, pubDeduplicated)
		p.pubErr(rule+": below the first", pub{topic: small, partition: 1, producer: 7, seq: 6}, codeSeqExpired)
		p.is(rule+": partitions keep apart", p.pub(rule, pub{topic: small, producer: 7, seq: 100 + round}), round+1, 0)
	}
}

// TestP3_P4_StopInMidStream closes the broker while PUBs stream in: every OK
// holds after the restart, and sending everything again stores nothing twice.
func TestP3_P4_StopInMidStream(t *testing.T) {
	t.Parallel()
	n := own(t, knobs{})
	p := session(t, n.addr)
	topic := p.topic(1)
	const total = 20_000
	room, gone := make(chan struct{}, 20), make(chan struct{})
	for range cap(room) {
		room <- struct{}{}
	}
	defer close(gone)
	go func() { // at most 1,000 unanswered (S7), until the connection ends
		for i := uint64(1); i <= total; i += 50 {
			var piece []byte
			for j := i; j < i+50; j++ {
				piece = append(piece, numbered(topic, j).frame()...)
			}
			select {
			case <-room:
			case <-gone:
				return
			}
			if p.write(piece) != nil {
				return
			}
		}
	}()
	rule := "P3: OK is sent only once the promise in durability holds"
	for i := uint64(1); i <= 500; i++ {
		p.is(rule, p.published(rule), i, 0)
		if i%50 == 0 {
			room <- struct{}{}
		}
	}
	stopped := make(chan error, 1)
	go func() { stopped <- n.stop() }()
	last := p.countOKs(rule, 500, room)
	if err := <-stopped; err != nil {
		t.Fatalf("the broker does not close cleanly: %v", err)
	}
	t.Logf("%d answered OK before the end", last)

	n = n.restart(t)
	q := session(t, n.addr)
	again := q.run(topic, last-4, total) // the last five that were answered, and everything unanswered
	for i, got := range again {
		s := last - 4 + uint64(i)
		if got.seq != s || s <= last && got.flags != pubDeduplicated {
			q.failf("faults: unanswered and the last five answered sent again: stored once each, original sequences", "producer_seq %d (%d was answered): got %+v", s, last, got)
		}
	}
	m := q.join(wide(topic, "g"), 1)
	want := uint64(1)
	for want <= total {
		for _, x := range m.take("faults: every OK'd message is delivered at its sequence with its bytes", int(min(1000, total-want+1))) {
			if x.seq != want || string(x.value) != fmt.Sprint(want) || x.producerSeq != want {
				m.failf("P2: sequences have no hole and no second content", "want %d, got %s", want, show([]message{x}))
			}
			want++
		}
	}
	m.none("P4: nothing is stored twice", 0)
}

// countOKs reads PUB answers until the connection ends; last is the newest
// producer_seq answered so far. Every fiftieth makes room for the writer.
func (p *peer) countOKs(rule string, last uint64, room chan<- struct{}) uint64 {
	p.t.Helper()
	failed := false
	for {
		f, err := p.read(deadlineIn(patience))
		if err != nil {
			return last
		}
		if f.op == opErr { // a broker that is going may refuse what it has not stored
			failed = true
			continue
		}
		res, err := decodePubResult(p.asOK(rule, f, opPub))
		if err != nil || failed || res.seq != last+1 || res.flags != 0 {
			p.failf(rule, "after %d answered OK (one failed since: %v): got %+v (%v)", last, failed, res, err)
		}
		if last++; last%50 == 0 {
			room <- struct{}{}
		}
	}
}
