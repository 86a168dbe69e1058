package loop_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"testing"
	"time"

	"github.com/mortarmq/mortarmq/codec"
	"github.com/mortarmq/mortarmq/loop"
)

// patience is how long a test waits for what must come.
const patience = 10 * time.Second

func timeout() <-chan time.Time { return time.After(patience) }

// start runs a server over the backend until the test ends.
func start(t testing.TB, cfg loop.Config, b *backend) *loop.Server {
	t.Helper()
	if cfg.Listen == "" {
		cfg.Listen = "127.0.0.1:0"
	}
	if cfg.Reactors == 0 {
		cfg.Reactors = 2
	}
	if cfg.Logger == nil && os.Getenv("LOOP_TEST_LOG") != "" {
		cfg.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	s, err := loop.Listen(cfg, b)
	if err != nil {
		t.Fatal(err)
	}
	b.srv = s
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		b.chunksReturned()
		close(b.stop)
		if st := s.Stats(); st.Connections != 0 || st.Unfinished != 0 || st.Backlog != 0 {
			t.Errorf("left after Close: %d connections, %d unfinished bytes, %d bytes of backlog", st.Connections, st.Unfinished, st.Backlog)
		}
	})
	return s
}

// automatic is a server whose backend answers everything.
func automatic(t testing.TB, cfg loop.Config) (*loop.Server, *backend) {
	t.Helper()
	b := newBackend(t, 2)
	s := start(t, cfg, b)
	b.auto()
	return s, b
}

// manual is a server whose requests the test answers.
func manual(t testing.TB, cfg loop.Config) (*loop.Server, *backend) {
	t.Helper()
	b := newBackend(t, 2)
	return start(t, cfg, b), b
}

// peer is a client that speaks frames.
type peer struct {
	t   testing.TB
	c   *net.TCPConn
	buf []byte // received, not looked at yet
}

func dial(t testing.TB, s *loop.Server) *peer {
	t.Helper()
	c, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{t: t, c: c.(*net.TCPConn)}
	t.Cleanup(func() { c.Close() })
	return p
}

// session is a peer whose CONNECT was accepted.
func session(t testing.TB, s *loop.Server) *peer {
	t.Helper()
	p := dial(t, s)
	p.send(connect(""))
	p.ok(codec.OpConnect)
	return p
}

func connect(token string) []byte {
	return codec.AppendConnect(nil, &codec.Connect{ProtocolVersion: 1, Token: []byte(token)})
}

func ping() []byte { return codec.AppendPing(nil) }

func pub(topic codec.TopicID, p codec.Partition, value string) []byte {
	return codec.AppendPub(nil, &codec.Pub{TopicID: topic, Partition: p, Value: []byte(value)})
}

// tailOf is what the backend should get of a PUB.
func tailOf(frame []byte) string { return string(frame[codec.HeaderLen+4:]) }

func declare(name string) []byte {
	return codec.AppendDeclare(nil, &codec.Declare{Topic: []byte(name)})
}

func subTo(topic codec.TopicID, group string) []byte {
	return codec.AppendSub(nil, &codec.Sub{Group: []byte(group), TopicID: topic, Partition: codec.AnyPartition})
}

// raw is a frame with any op and any payload; announced can differ from what is there.
func raw(op byte, announced int, payload ...byte) []byte {
	n := announced + 1
	return append([]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n), op}, payload...)
}

func (p *peer) send(frames ...[]byte) {
	p.t.Helper()
	if _, err := p.c.Write(bytes.Join(frames, nil)); err != nil {
		p.t.Fatalf("write: %v", err)
	}
}

// next returns the next frame; its payload stays valid.
func (p *peer) next() (codec.Op, []byte) {
	p.t.Helper()
	op, payload, err := p.read(patience)
	if err != nil {
		p.t.Fatalf("waiting for a frame: %v", err)
	}
	return op, payload
}

func (p *peer) read(wait time.Duration) (codec.Op, []byte, error) {
	p.t.Helper()
	deadline := time.Now().Add(wait)
	buf := make([]byte, 64<<10)
	for {
		op, payload, n, _, err := codec.Cut(p.buf)
		if err != nil {
			p.t.Fatalf("the server sent no frame: %v: %x", err, p.buf[:min(len(p.buf), 40)])
		}
		if n > 0 {
			p.buf = p.buf[n:]
			return op, payload, nil
		}
		if err := p.c.SetReadDeadline(deadline); err != nil {
			return 0, nil, err
		}
		got, err := p.c.Read(buf)
		p.buf = append(p.buf, buf[:got]...)
		if err != nil && got == 0 {
			return 0, nil, err
		}
	}
}

// ok expects the OK to a request and returns its result.
func (p *peer) ok(request codec.Op) []byte {
	p.t.Helper()
	op, payload := p.next()
	if op != codec.OpOK {
		p.t.Fatalf("want OK to %v, got %s", request, describe(op, payload))
	}
	m, err := codec.DecodeOK(payload)
	if err != nil || m.RequestOp != request {
		p.t.Fatalf("want OK to %v, got %s (%v)", request, describe(op, payload), err)
	}
	return m.Result
}

// err expects the ERR to a request and returns its text.
func (p *peer) err(request codec.Op, code codec.Code) string {
	p.t.Helper()
	op, payload := p.next()
	if op != codec.OpErr {
		p.t.Fatalf("want ERR %v to %v, got %s", code, request, describe(op, payload))
	}
	m, err := codec.DecodeErr(payload)
	if err != nil || m.RequestOp != uint8(request) || m.Code != code {
		p.t.Fatalf("want ERR %v to %v, got %s (%v)", code, request, describe(op, payload), err)
	}
	return string(m.Message)
}

func (p *peer) notice() codec.Notice {
	p.t.Helper()
	op, payload := p.next()
	m, err := codec.DecodeNotice(payload)
	if op != codec.OpNotice || err != nil {
		p.t.Fatalf("want NOTICE, got %s (%v)", describe(op, payload), err)
	}
	return m
}

// eof expects an orderly end and nothing before it.
func (p *peer) eof() {
	p.t.Helper()
	op, payload, err := p.read(patience)
	if err == nil {
		p.t.Fatalf("want the end, got %s", describe(op, payload))
	}
	if !errors.Is(err, io.EOF) || len(p.buf) > 0 {
		p.t.Fatalf("want the end, got %v with %d bytes before", err, len(p.buf))
	}
}

// refused expects an ERR and the end.
func (p *peer) refused(request codec.Op, code codec.Code) string {
	p.t.Helper()
	text := p.err(request, code)
	p.eof()
	return text
}

// alive expects the session to answer.
func (p *peer) alive() {
	p.t.Helper()
	p.send(ping())
	p.ok(codec.OpPing)
}

// quiet expects nothing for a while.
func (p *peer) quiet(d time.Duration) {
	p.t.Helper()
	op, payload, err := p.read(d)
	if err == nil {
		p.t.Fatalf("want nothing, got %s", describe(op, payload))
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		p.t.Fatalf("want nothing, got %v", err)
	}
}

func describe(op codec.Op, payload []byte) string {
	switch op {
	case codec.OpOK:
		if m, err := codec.DecodeOK(payload); err == nil {
			return "OK to " + m.RequestOp.String()
		}
	case codec.OpErr:
		if m, err := codec.DecodeErr(payload); err == nil {
			return "ERR " + m.Code.String() + " to " + codec.Op(m.RequestOp).String() + ": " + string(m.Message)
		}
	}
	return op.String()
}

// eventually waits for a condition that nothing announces.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	end := timeout()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-end:
			t.Fatalf("never happened: %s", what)
		case <-tick.C:
		}
	}
}

func within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	_ = cancel // ends by itself
	return ctx
}
