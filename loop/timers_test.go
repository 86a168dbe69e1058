package loop_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/mortarmq/mortarmq/codec"
	"github.com/mortarmq/mortarmq/loop"
)

// hand is a clock that a test moves by hand.
type hand struct{ now atomic.Int64 }

func (h *hand) clock() time.Duration  { return time.Duration(h.now.Load()) }
func (h *hand) add(d time.Duration)   { h.now.Add(int64(d)) }
func handClock() (*hand, loop.Limits) { return &hand{}, loop.Limits{Linger: 50 * time.Millisecond} } // ticks every 25 ms

func TestHalfFrame(t *testing.T) {
	h, l := handClock()
	s, _ := automatic(t, loop.Config{Clock: h.clock, Limits: l})
	whole := pub(1, 0, "some value")
	for _, n := range []int{1, 4, 5, 20, len(whole) - 1} {
		p := session(t, s)
		p.feed(s, whole[:n])
		h.add(9999 * time.Millisecond)
		p.feed(s, whole[n:n+1]) // any byte moves the clock
		if n+1 == len(whole) {
			p.ok(codec.OpPub)
			continue
		}
		h.add(9999 * time.Millisecond)
		p.quiet(60 * time.Millisecond)
		h.add(time.Millisecond)
		p.eof()
	}
	eventually(t, "four half-frames", func() bool { return s.Stats().Closed["half_frame"] == 4 })
}

// feed sends bytes and waits until the server has taken them. No other peer may send.
func (p *peer) feed(s *loop.Server, b []byte) {
	p.t.Helper()
	before := s.Stats().BytesIn
	p.send(b)
	eventually(p.t, "the bytes are taken", func() bool { return s.Stats().BytesIn == before+uint64(len(b)) })
}

// A byte that comes when the time is over does not help, even before the next tick.
func TestHalfFrameIsOverToTheMillisecond(t *testing.T) {
	h, l := handClock()
	l.Linger = time.Hour // no tick comes to help: they are 500 ms apart
	s, _ := automatic(t, loop.Config{Clock: h.clock, Limits: l})
	p := session(t, s)
	f := pub(1, 0, "v")
	p.feed(s, f[:9])
	h.add(10 * time.Second)
	p.send(f[9:])
	p.eof()
}

func TestKeepalive(t *testing.T) {
	h, l := handClock()
	s, _ := automatic(t, loop.Config{Clock: h.clock, Limits: l})
	silent, dripping, alive := session(t, s), session(t, s), session(t, s)
	f := pub(1, 0, "0123456789")
	for i := range 5 { // 45 s in all, with a byte every 9 s
		dripping.feed(s, f[i:i+1])
		alive.alive()
		if i == 4 {
			h.add(8999 * time.Millisecond)
			silent.quiet(60 * time.Millisecond)
			dripping.quiet(time.Millisecond)
			h.add(time.Millisecond)
			break
		}
		h.add(9 * time.Second)
	}
	silent.eof()
	dripping.eof()
	alive.alive()
	if n := s.Stats().Closed["keepalive"]; n != 2 {
		t.Errorf("%d closed for keepalive", n)
	}
}

func TestAuthTimeout(t *testing.T) {
	h, l := handClock()
	s, _ := automatic(t, loop.Config{Clock: h.clock, Limits: l})
	silent, pinging, late := dial(t, s), dial(t, s), dial(t, s)
	pinging.alive()
	late.alive()
	silent.alive()
	h.add(9999 * time.Millisecond)
	pinging.alive()
	late.send(connect(""))
	late.ok(codec.OpConnect)
	silent.quiet(60 * time.Millisecond)
	h.add(time.Millisecond)
	silent.refused(0, codec.CodeAuthTimeout)
	pinging.refused(0, codec.CodeAuthTimeout)
	late.alive()
	h.add(50 * time.Millisecond)
	eventually(t, "both closed", func() bool { return s.Stats().Closed["auth_timeout"] == 2 })
}

func TestConnectAfterTheTimeoutIsTooLate(t *testing.T) {
	h, l := handClock()
	l.Linger = time.Hour
	s, _ := automatic(t, loop.Config{Clock: h.clock, Limits: l})
	p := dial(t, s)
	p.alive()
	h.add(10 * time.Second)
	p.send(connect(""))
	p.refused(0, codec.CodeAuthTimeout)
}

// With real time and short limits everything happens as well.
func TestShortTimers(t *testing.T) {
	s, _ := automatic(t, loop.Config{Limits: loop.Limits{
		AuthTimeout: 150 * time.Millisecond, HalfFrame: 100 * time.Millisecond, Keepalive: 300 * time.Millisecond}})
	half, silent, mute := session(t, s), session(t, s), dial(t, s)
	half.send(ping()[:4])
	half.eof()
	mute.refused(0, codec.CodeAuthTimeout)
	silent.eof()
}

// A session whose earlier answers never come is closed all the same, and without the
// ERR, which would be taken for one of them.
func TestTheLastWordDoesNotWaitForEver(t *testing.T) {
	h, l := handClock()
	s, b := manual(t, loop.Config{Clock: h.clock, Limits: l})
	p := session(t, s)
	p.send(pub(1, 0, "x"), raw(0x55, 0))
	x := b.next()
	h.add(4999 * time.Millisecond)
	p.quiet(60 * time.Millisecond)
	h.add(time.Millisecond)
	p.eof()
	b.nextClosed()
	b.complete(b.answer(x)) // dropped
	session(t, s).alive()
}

// A peer that ignores the end is closed after Linger.
func TestLingerEnds(t *testing.T) {
	s, b := manual(t, loop.Config{Limits: loop.Limits{Linger: 100 * time.Millisecond}})
	p := session(t, s)
	p.send(raw(0x55, 0))
	p.refused(0x55, codec.CodeUnknownOp)
	b.nextClosed()
	if n := s.Stats().Connections; n != 1 {
		t.Errorf("%d connections while one lingers", n)
	}
	eventually(t, "it is closed", func() bool { return s.Stats().Connections == 0 })
	if n := s.Stats().Closed["refused"]; n != 1 {
		t.Errorf("%d closed as refused", n)
	}
}
