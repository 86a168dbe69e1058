package loop_test

import (
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mortarmq/mortarmq/codec"
	"github.com/mortarmq/mortarmq/loop"
)

// overfill has a member that does not read pull messages of size bytes until stop
// says so or its connection is gone. It returns the bytes put into PULLs.
func overfill(t *testing.T, s *loop.Server, b *backend, m *member, size int, stop func() bool) int {
	t.Helper()
	total := 0
	for !stop() && !m.sub.Conn.Gone.Load() {
		if _, err := m.c.Write(m.pull(nil)); err != nil {
			break
		}
		j := b.next()
		if j.closed != nil {
			break
		}
		deliver(j.pull, size)
		total += size
		b.complete(j.pull.Completion(0))
		eventually(t, "the PULL is answered", func() bool { return s.Stats().WaitingPulls == 0 })
	}
	return total
}

// swallow reads to the end and returns the number of bytes and the last frame.
func (p *peer) swallow() (total int, op codec.Op, payload []byte) {
	p.t.Helper()
	for {
		o, pl, err := p.read(patience)
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
				p.t.Fatalf("the end was %v", err)
			}
			return total, op, payload
		}
		op, payload = o, pl
		total += codec.HeaderLen + len(pl)
	}
}

func TestSlowConsumer(t *testing.T) {
	const bound = 4 << 20
	s, b := manual(t, loop.Config{Limits: loop.Limits{Outbound: bound}})
	m := join(t, s, b)
	other := session(t, s)
	put := overfill(t, s, b, m, 256<<10, func() bool {
		if n := s.Stats().Backlog; n > bound {
			t.Errorf("%d bytes wait for one connection", n)
		}
		return false
	})
	b.nextClosedOrSeen(m)
	other.alive()
	// It begins to read: all that was kept comes, whole, and then the reason.
	total, op, payload := m.swallow()
	e, err := codec.DecodeErr(payload)
	if op != codec.OpErr || err != nil || e.Code != codec.CodeSlowConsumer || e.RequestOp != 0 {
		t.Errorf("the last frame is %s", describe(op, payload))
	}
	if total < bound || total > put+len(payload)+1000*codec.HeaderLen {
		t.Errorf("%d bytes came of %d", total, put)
	}
}

// nextClosedOrSeen waits until the member's connection was reported gone.
func (b *backend) nextClosedOrSeen(m *member) {
	b.t.Helper()
	if m.sub.Conn.Gone.Load() {
		return
	}
	b.nextClosed()
}

func TestAReaderIsNeverSlow(t *testing.T) {
	s, b := manual(t, loop.Config{Limits: loop.Limits{Outbound: 3 << 20, Backlog: 1, Stall: 5 * time.Second}})
	m := join(t, s, b)
	for range 8 {
		m.send(m.pull(nil), ping())
		p := b.next().pull
		deliver(p, 1<<20)
		deliver(p, 1<<20)
		b.complete(p.Completion(0))
		m.msg(1 << 20)
		m.msg(1 << 20)
		m.ok(codec.OpPull)
		m.ok(codec.OpPing)
	}
}

// When much waits over all connections, those that take nothing go early; those
// that read stay.
func TestBacklogOverAllConnections(t *testing.T) {
	const bound = 8 << 20
	s, b := automatic(t, loop.Config{Limits: loop.Limits{Backlog: bound, Stall: 20 * time.Millisecond}})
	reader := join(t, s, b)
	want := func(m *member, size int) []byte {
		return m.pull(func(p *codec.Pull) { p.MaxBytes = uint32(size) })
	}
	var stuck []*member
	for range 2 * loop.Crowd {
		m := join(t, s, b)
		if err := m.c.SetReadBuffer(256 << 10); err != nil {
			t.Fatal(err)
		}
		for range 100 { // 50 MiB
			m.send(want(m, 512<<10))
		}
		stuck = append(stuck, m)
	}
	eventually(t, "those that take nothing are closed", func() bool {
		reader.send(want(reader, 100_000))
		reader.msg(100_000)
		reader.ok(codec.OpPull)
		for _, m := range stuck {
			m.c.Write(want(m, 512<<10)) // fails once it is closed
		}
		st := s.Stats()
		if st.Backlog > bound+loop.Crowd*64<<20 {
			t.Fatalf("%d bytes wait, the bound is %d", st.Backlog, bound)
		}
		return st.Closed["slow_consumer"] > loop.Crowd && st.Backlog <= bound+loop.Crowd*64<<20
	})
}

// Many small answers behind a backlog are gathered, and all arrive in order.
func TestSmallAnswersBehindABacklog(t *testing.T) {
	s, b := manual(t, loop.Config{})
	m := join(t, s, b)
	if err := m.c.SetReadBuffer(256 << 10); err != nil {
		t.Fatal(err)
	}
	msgs := 0
	overfill(t, s, b, m, 1<<20, func() bool { msgs++; return s.Stats().Backlog > 1<<20 })
	msgs--
	const n = 3000
	for i := range n { // one write each
		m.send(ping())
		if i%100 == 0 {
			eventually(t, "served", func() bool { return s.Stats().Frames[codec.OpPing] == uint64(i+1) })
		}
	}
	for range msgs {
		m.msg(1 << 20)
		m.ok(codec.OpPull)
	}
	for range n {
		m.ok(codec.OpPing)
	}
	m.alive()
	eventually(t, "nothing waits", func() bool { return s.Stats().Backlog == 0 })
}

// Memory for unfinished frames is bounded over all connections; the one that needs
// more is closed without a word, the others go on.
func TestUnfinishedFramesAreBounded(t *testing.T) {
	const bound = 1 << 20
	s, b := automatic(t, loop.Config{Limits: loop.Limits{Unfinished: bound}})
	f := pub(1, 0, strings.Repeat("v", 400_000))
	var all []*peer
	for range 2 {
		p := session(t, s)
		p.send(f[:300_000])
		all = append(all, p)
	}
	// Their buffers have grown to the whole frame.
	eventually(t, "both are gathered", func() bool { return s.Stats().Unfinished == int64(2*len(f)) })
	greedy := session(t, s)
	greedy.c.Write(f[:350_000])
	if _, _, err := greedy.read(patience); err == nil {
		t.Fatal("it was answered")
	}
	eventually(t, "closed for memory", func() bool { return s.Stats().Closed["memory"] == 1 })
	for _, p := range all {
		p.send(f[300_000:])
		p.ok(codec.OpPub)
	}
	if n := s.Stats().Unfinished; n != 0 {
		t.Errorf("%d bytes are held", n)
	}
	_ = b
}

// Sockets that announce 16 MiB and send nothing more cost next to nothing.
func TestAnnouncedLengthsCostNothing(t *testing.T) {
	s, _ := automatic(t, loop.Config{})
	const n = 200
	f := pub(1, 0, strings.Repeat("v", 16<<20-2000))[:100]
	for range n {
		session(t, s).send(f)
	}
	eventually(t, "all are taken", func() bool { return s.Stats().Unfinished >= n*100 })
	if got := s.Stats().Unfinished; got > n*1024 {
		t.Errorf("%d bytes are held for %d bytes received", got, n*100)
	}
}
