package conformance

import (
	"fmt"
	"testing"
	"time"
)

// late is how much after a timer's moment the broker may act: S5 says one
// second; the rest is for a busy test machine.
const late = time.Second + pace*time.Second

// closedAt expects the end of the stream between due and due+late after since, and nothing before it.
func (p *peer) closedAt(rule string, since time.Time, due time.Duration) {
	p.t.Helper()
	p.closed(rule, time.Until(since.Add(due+late)))
	p.notBefore(rule, since, due)
}

func (p *peer) notBefore(rule string, since time.Time, due time.Duration) {
	p.t.Helper()
	if d := time.Since(since); d < due {
		p.failf(rule, "due after %v, came after %v", due, d)
	}
}

// dripFor sends one byte at a time, for as long as given; what must stay unfinished.
func (p *peer) dripFor(rule string, what []byte, every, total time.Duration) {
	p.t.Helper()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for end := time.Now().Add(total); time.Now().Before(end) && len(what) > 0; what = what[1:] {
		p.send(what[:1])
		<-tick.C
	}
	if len(what) == 0 {
		p.failf(rule, "the test's own frame is too short to drip for %v", total)
	}
}

func TestS5_HalfFrame(t *testing.T) {
	slow(t)
	t.Parallel()
	rule := "S5: half-frame: 10 s since the last byte of an unfinished frame, closed without a word"
	whole := pub{topic: 1, value: make([]byte, 100)}.frame()
	for _, n := range []int{1, 4, 5, 20, len(whole) - 1} {
		t.Run(fmt.Sprintf("%d of %d bytes", n, len(whole)), func(t *testing.T) {
			t.Parallel()
			p := session(t, ordinary.addr(t))
			since := time.Now()
			p.send(whole[:n])
			p.closedAt(rule, since, 10*time.Second)
		})
	}
	t.Run("behind a whole frame", func(t *testing.T) {
		t.Parallel()
		p := session(t, ordinary.addr(t))
		since := time.Now()
		p.send(ping(), whole[:9])
		p.empty(rule, opPing)
		p.closedAt(rule, since, 10*time.Second)
	})
	t.Run("any byte moves the clock", func(t *testing.T) {
		t.Parallel()
		p := session(t, ordinary.addr(t))
		topic := p.topic(1)
		f := pub{topic: topic, value: make([]byte, 100)}.frame()
		start := time.Now()
		for i := range 4 { // 12 s in all, never 10 s without a byte
			p.send(f[i : i+1])
			p.quiet(rule, 3*time.Second)
		}
		p.notBefore(rule, start, 11*time.Second)
		p.send(f[4:])
		p.published("S5: any byte moves the half-frame clock")
	})
}

func TestS5_AuthTimeout(t *testing.T) {
	slow(t)
	t.Parallel()
	rule := "0x0007: no successful CONNECT within 10 s of accept; request_op 0x00 (S4)"
	t.Run("silent", func(t *testing.T) {
		t.Parallel()
		since := time.Now()
		p := dial(t, ordinary.addr(t))
		p.asErr(rule, p.next(rule, 10*time.Second+late), opNone, codeAuthTimeout)
		p.notBefore(rule, since, 10*time.Second)
		p.closed(rule, patience)
	})
	t.Run("PING does not extend it", func(t *testing.T) {
		t.Parallel()
		since := time.Now()
		p := dial(t, ordinary.addr(t))
		for range 5 {
			p.alive(rule)
			p.quiet(rule, 1800*time.Millisecond)
		}
		p.asErr(rule, p.next(rule, time.Until(since.Add(10*time.Second+late))), opNone, codeAuthTimeout)
		p.closed(rule, patience)
	})
	t.Run("a session that connected late stays", func(t *testing.T) {
		t.Parallel()
		p := dial(t, ordinary.addr(t))
		p.quiet(rule, 8500*time.Millisecond)
		p.send(connect{version: wireVersion}.frame())
		p.ok(rule, opConnect)
		p.quiet(rule, 3*time.Second)
		p.alive(rule)
	})
}

// TestTimersS5_Keepalive waits for the 45 seconds; see the -timers flag.
func TestTimersS5_Keepalive(t *testing.T) {
	longTimers(t)
	t.Parallel()
	rule := "S5: 45 s without a complete frame, closed without a word"
	t.Run("silent", func(t *testing.T) {
		t.Parallel()
		since := time.Now()
		p := session(t, ordinary.addr(t))
		p.closedAt(rule, since, 45*time.Second)
	})
	t.Run("whatever dribbles in", func(t *testing.T) {
		t.Parallel()
		since := time.Now()
		p := session(t, ordinary.addr(t))
		p.dripFor(rule, pub{topic: 1, value: make([]byte, 1000)}.frame(), 2*time.Second, 43*time.Second)
		p.closedAt(rule, since, 45*time.Second)
	})
	t.Run("PING keeps it", func(t *testing.T) {
		t.Parallel()
		p := session(t, ordinary.addr(t))
		for range 2 {
			p.quiet(rule, 30*time.Second)
			p.alive(rule)
		}
	})
	t.Run("a client's ERR is a complete frame", func(t *testing.T) {
		t.Parallel()
		p := session(t, ordinary.addr(t))
		p.quiet(rule, 30*time.Second)
		p.send(errFrame(1, 1, "x"))
		p.quiet(rule, 30*time.Second)
		p.alive(rule)
	})
}

// TestTimersG3_SilentMemberIsDropped: naming the subscription in no frame for 45 s ends the membership.
func TestTimersG3_SilentMemberIsDropped(t *testing.T) {
	longTimers(t)
	t.Parallel()
	rule := "G3: a member that names its subscription in no frame for 45 s is dropped"
	addr := ordinary.addr(t)
	a := session(t, addr)
	topic := a.topic(2)
	m := a.join(subTo(topic, "g"), 2)
	b := join(t, addr, subTo(topic, "g"), 0)
	m.revoked("G6", 1)
	b.assigned("G6", 1)
	since := time.Now()
	for time.Since(since) < 44*time.Second { // m's connection lives by PING, b beats
		b.send(b.beat(b.mem, b.asg, stateActive))
		b.empty("HEARTBEAT", opHeartbeat)
		m.alive(rule)
		b.quietOrNotice(rule, 4*time.Second)
	}
	b.moved(rule, kindAssign, 1)
	b.notBefore(rule, since, 44*time.Second)
	m.send(m.beat(m.mem, m.asg, stateActive))
	m.err(rule, opHeartbeat, codeUnknownMember)
}

// quietOrNotice waits for a while; a NOTICE that comes is kept and ends the wait.
func (m *member) quietOrNotice(rule string, d time.Duration) {
	m.t.Helper()
	f, err := m.read(time.Now().Add(d))
	if err == nil {
		m.keep(rule, f)
	}
}

func longTimers(t *testing.T) {
	t.Helper()
	if !*slowTimers {
		t.Skip("waits for a timer of 45 seconds or more: only with -timers")
	}
}
