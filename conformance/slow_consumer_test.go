package conformance

import (
	"bytes"
	"errors"
	"io"
	"os"
	"syscall"
	"testing"
	"time"
)

// backlog is more than S8's 64 MiB and what two kernels buffer.
const (
	backlogMsgs  = 112
	backlogValue = 1 << 20
)

// backlogTopic publishes 112 MiB to one partition.
func backlogTopic(t *testing.T, addr string) uint16 {
	p := session(t, addr)
	topic := p.topic(1)
	value := make([]byte, backlogValue)
	for i := range backlogMsgs {
		value[0] = byte(i)
		p.pub("PUB of 1 MiB", pub{topic: topic, value: value})
	}
	return topic
}

func wide(topic uint16, group string) sub {
	s := subTo(topic, group)
	s.count, s.bytes = 0xFFFF, 0xFFFFFFFF
	return s
}

func TestS8_SlowConsumer(t *testing.T) {
	t.Parallel()
	n := own(t, knobs{backoffBase: 100 * time.Millisecond, backoffMax: 100 * time.Millisecond})
	topic := backlogTopic(t, n.addr)

	t.Run("one that reads is never slow", func(t *testing.T) {
		m := join(t, n.addr, wide(topic, "reader"), 1)
		rule := "S8: a client that reads is not a slow consumer, however much a PULL may bring"
		got := 0
		for got < backlogMsgs {
			msgs := m.pull(rule, pull{waitMS: 1000})
			if len(msgs) == 0 {
				m.failf(rule, "%d of %d messages, then an empty PULL", got, backlogMsgs)
			}
			for _, x := range msgs {
				if x.seq != uint64(got)+1 || x.value[0] != byte(got) || len(x.value) != backlogValue {
					m.failf("V4", "want sequence %d, got %s", got+1, show(msgs[:1]))
				}
				got++
			}
			m.ack("ACK", msgs...)
		}
	})

	t.Run("less than 64 MiB may wait", func(t *testing.T) { pausing(t, n.addr, topic) })

	t.Run("another's backlog is no offence", func(t *testing.T) { beside(t, n.addr, topic) })

	t.Run("one that does not read is closed", func(t *testing.T) { stuck(t, n.addr, topic) })
}

// pausing is one that does not read for a while, with less than 64 MiB waiting.
func pausing(t *testing.T, addr string, topic uint16) {
	slow(t)
	m := join(t, addr, wide(topic, "pausing"), 1)
	rule := "S8: per connection at most 64 MiB may wait to be written: a pause with less is no offence"
	const pulls = 48 // of 1 MiB; two kernels take some of it
	one := m.pullOf(pull{maxMsgs: 1}).frame()
	for range pulls {
		m.send(one)
	}
	time.Sleep(2 * time.Second) // the pause itself: reading now would end it
	for i := range pulls {
		if msgs := m.pulled(rule); len(msgs) != 1 || msgs[0].seq != uint64(i)+1 {
			m.failf(rule, "PULL %d: got %s", i, show(msgs))
		}
	}
	m.leave("G8")
}

// beside is one that pauses while another one's answers pile up.
func beside(t *testing.T, addr string, topic uint16) {
	slow(t)
	rule := "S8: the limit is each connection's own"
	full := join(t, addr, wide(topic, "full"), 1)
	one := full.pullOf(pull{maxMsgs: 1}).frame()
	for range 48 {
		full.send(one)
	}
	m := join(t, addr, wide(topic, "beside"), 1)
	one = m.pullOf(pull{maxMsgs: 1}).frame()
	for range 3 { // 30 MiB in all, with pauses
		m.send(bytes.Repeat(one, 10))
		time.Sleep(500 * time.Millisecond) // its pauses
	}
	for _, x := range []*member{m, full} {
		for i := range map[*member]int{m: 30, full: 48}[x] {
			if msgs := x.pulled(rule); len(msgs) != 1 || msgs[0].seq != uint64(i)+1 {
				x.failf(rule, "PULL %d: got %s", i, show(msgs))
			}
		}
		x.leave("G8")
	}
}

// stuck never reads, until it is closed.
func stuck(t *testing.T, addr string, topic uint16) {
	p := session(t, addr)
	m := p.join(wide(topic, "stuck"), 1)
	rule := "S8: above 64 MiB waiting to be written: ERR 0x4007 and close"
	// Two hundred PULLs of one message each want 112 MiB; none is read.
	one := m.pullOf(pull{maxMsgs: 1}).frame()
	for range 200 {
		if err := m.write(one); err != nil {
			break // closed already
		}
	}
	other := m.waitGone(t, addr, rule)
	total, last := m.swallow(t, rule)
	if total > 64<<20+24<<20 {
		m.failf(rule, "%d MiB were kept for a connection that does not read", total>>20)
	}
	t.Logf("the stuck connection still held %d MiB", total>>20)
	if e, err := decodeErr(last.payload); last.op != opErr || err != nil || e.code != codeSlowConsumer || e.request != opNone {
		m.failf("S8, S4: who begins to read finds ERR 0x4007 with request_op 0x00 at the end", "the last whole frame is %v (%v)", last, err)
	}
	seen := map[uint64]uint16{}
	for _, x := range other.take("its messages are delivered to others", backlogMsgs) {
		seen[x.seq] = x.attempt
	}
	if len(seen) != backlogMsgs || seen[1] != 2 {
		other.failf("V8: a member lost without LEAVE fails the attempt", "%d different messages, attempt %d of the first", len(seen), seen[1])
	}
}

// waitGone joins the group as a second member and waits until the only
// partition is handed over, which happens when the first one's connection has ended (G3).
func (m *member) waitGone(t *testing.T, addr, rule string) *member {
	t.Helper()
	other := join(t, addr, wide(m.topic, m.group), 0)
	other.assigned(rule+"; its memberships end at once (G3)", 1)
	return other
}

// swallow reads to the end; it returns the bytes and the last whole frame.
func (m *member) swallow(t *testing.T, rule string) (total int, last frame) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		f, err := m.read(deadline)
		if err == nil {
			last = f
			total += 5 + len(f.payload)
			continue
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			m.failf(rule, "still open")
		}
		if !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
			t.Logf("the stream ended with %v", err)
		}
		return total, last
	}
}
