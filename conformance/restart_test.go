package conformance

import (
	"fmt"
	"testing"
	"time"
)

// seqs are the messages' sequences with their attempts.
func seqs(msgs []message) map[uint64]uint16 {
	out := map[uint64]uint16{}
	for _, x := range msgs {
		out[x.seq] = x.attempt
	}
	return out
}

func TestV14_RestartWithHoles(t *testing.T) {
	t.Parallel()
	n := own(t, knobs{shards: 2, backoffBase: 50 * time.Millisecond, backoffMax: 50 * time.Millisecond, maxAttempts: 20})
	p := session(t, n.addr)
	topic := p.topic(2)
	for i := range 20 {
		p.fill(topic, 0, fmt.Sprint(i+1))
	}
	m := p.join(subTo(topic, "g"), 2)
	msgs := m.take("PULL", 10)
	var settled []message
	for _, x := range msgs {
		if x.seq%3 != 0 {
			settled = append(settled, x)
		}
	}
	m.ack("ACK", settled...)
	m.nack("NACK", msgs[2], nackRetry) // sequence 3 fails once
	m.again(t, 3, 2)

	n = n.restart(t)
	m = join(t, n.addr, subTo(topic, "g"), 2)
	rule := "V14: holes between acknowledged messages survive: exactly the unsettled ones return"
	back := m.take(rule, 13)
	got := seqs(back)
	for seq := uint64(1); seq <= 20; seq++ {
		attempt, came := got[seq]
		if want := seq > 10 || seq%3 == 0; came != want {
			m.failf(rule, "sequence %d came back: %v, want %v; got %s", seq, came, want, show(back))
		}
		switch {
		case !came:
		case seq == 3 && attempt < 2:
			m.failf("V14: attempts do not fall back", "sequence 3 was at attempt 2, is at %d", attempt)
		case seq > 10 && attempt != 1:
			m.failf("V8: attempt = 1 + failed attempts", "sequence %d is at attempt %d", seq, attempt)
		}
	}
	m.none(rule, 200*time.Millisecond)
	m.ack("ACK", back...)
	m.fill(topic, 0, "new")

	n = n.restart(t)
	m = join(t, n.addr, subTo(topic, "g"), 2)
	m.got("faults: settled messages never come back after restart", m.take(rule, 1), "new")
	m.none("faults: settled messages never come back after restart", 200*time.Millisecond)
	if res := m.pub("P2: sequences continue", pub{topic: topic}); res.seq != 22 {
		m.failf("P2: sequences continue", "want 22, got %+v", res)
	}
}

// again pulls one message at a time until seq comes, with the given attempt; the others it hands back.
func (m *member) again(t *testing.T, seq uint64, attempt uint16) {
	t.Helper()
	for range 100 {
		for _, x := range m.pull("V8", pull{maxMsgs: 1, waitMS: 1000}) {
			if x.seq != seq {
				m.nack("V9: RELEASE", x, nackRelease)
				continue
			}
			if x.attempt != attempt {
				m.failf("V8: attempt = 1 + failed attempts", "want %d, got %s", attempt, show([]message{x}))
			}
			return
		}
	}
	m.failf("V8: a failed message comes again", "sequence %d does not", seq)
}

// TestV14_GroupDefinitionSurvives: policy, start and group survive, members do not; ownership epochs grow.
func TestV14_GroupDefinitionSurvives(t *testing.T) {
	t.Parallel()
	n := own(t, knobs{})
	p := session(t, n.addr)
	topic := p.topic(1)
	p.fill(topic, 0, "old")
	s := subTo(topic, "late")
	s.policy = fromLatest
	m := p.join(s, 1)
	epoch := m.own[0]
	p.fill(topic, 0, "new")

	n = n.restart(t)
	p = session(t, n.addr)
	p.send(m.beat(m.mem, m.asg, stateActive))
	p.err("members end with their connections", opHeartbeat, codeUnknownMember)
	p.send(subTo(topic, "late").frame())
	p.err("G2: start_policy is part of the group's definition, also after a restart", opSub, codeGroupMismatch)
	s.flags = subNoCreate
	again := p.join(s, 1)
	if again.own[0] <= epoch {
		p.failf("G4: ownership_epoch grows", "was %d, is %d", epoch, again.own[0])
	}
	if again.id == m.id {
		p.failf("G3: member_id is never reused", "%d came twice", m.id)
	}
	again.got("faults: \"not loaded yet\" is never \"new group\"", again.take("G2", 1), "new")
}

// TestV14_DeadLettersSurvive: the move to the twin is durable.
func TestV14_DeadLettersSurvive(t *testing.T) {
	t.Parallel()
	n := own(t, knobs{})
	m, x := failing(t, n.addr)
	m.nack("V9", x, nackReject)
	n = n.restart(t)
	again := join(t, n.addr, subTo(m.topic, m.group), 3)
	x.epoch = again.own[x.partition] // the new owner asks for the old delivery
	dead(t, n.addr, again, x, 1, 1)
}

// TestStop_WaitingPull: every request gets its answer, also while the broker stops.
func TestStop_WaitingPull(t *testing.T) {
	t.Parallel()
	n := own(t, knobs{})
	m := reader(t, n.addr, 0, 0)
	m.send(m.pullOf(pull{waitMS: 5000}).frame())
	m.quiet("V1: it waits", 100*time.Millisecond)
	stopped := make(chan error, 1)
	go func() { stopped <- n.stop() }()
	rule := "faults: every request gets exactly one answer, also a PULL that waits while the broker stops"
	f := m.answer(rule, patience)
	if f.op != opOK && f.op != opErr {
		m.failf(rule, "got %v", f)
	}
	m.closed("the broker stops", patience)
	if err := <-stopped; err != nil {
		t.Errorf("the broker does not close cleanly: %v", err)
	}
}

// TestStop_DataDirInUse: a second broker on the same directory does not start.
func TestStop_DataDirInUse(t *testing.T) {
	t.Parallel()
	n := own(t, knobs{})
	second, err := start(knobs{dir: n.dir})
	if err == nil {
		second.stop()
		t.Fatal("two brokers on one data directory")
	}
	t.Logf("refused with: %v", err)
	session(t, n.addr).alive("the first one goes on")
}
