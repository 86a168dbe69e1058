package conformance

import (
	"errors"
	"io"
	"net"
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

	t.Run("one that does not read is closed", func(t *testing.T) {
		p := session(t, n.addr)
		if err := p.nc.(*net.TCPConn).SetReadBuffer(4096); err != nil {
			t.Fatal(err)
		}
		m := p.join(wide(topic, "stuck"), 1)
		rule := "S8: above 64 MiB waiting to be written: ERR 0x4007 and close"
		// Two hundred PULLs of one message each want 112 MiB; none is read.
		one := m.pullOf(pull{maxMsgs: 1}).frame()
		for range 200 {
			if err := m.write(one); err != nil {
				break // closed already
			}
		}
		other := m.waitGone(t, n.addr, rule)
		total, last := m.swallow(t, rule)
		if total > 64<<20+24<<20 {
			m.failf(rule, "%d MiB were kept for a connection that does not read", total>>20)
		}
		if last.op == opErr {
			if e, err := decodeErr(last.payload); err != nil || e.code != codeSlowConsumer || e.request != opNone {
				m.failf("S4: ERR 0x4007 carries request_op 0x00", "got %v (%v)", last, err)
			}
		}
		t.Logf("the stuck connection still held %d MiB; its last whole frame is %.40v", total>>20, last)
		seen := map[uint64]uint16{}
		for _, x := range other.take("its messages are delivered to others", backlogMsgs) {
			seen[x.seq] = x.attempt
		}
		if len(seen) != backlogMsgs || seen[1] != 2 {
			other.failf("V8: a member lost without LEAVE fails the attempt", "%d different messages, attempt %d of the first", len(seen), seen[1])
		}
	})
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
