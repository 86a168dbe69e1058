package loop

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"

	"github.com/mortarmq/mortarmq/flow"
)

// Server accepts and serves client connections. It implements flow.Replies.
type Server struct {
	cfg      Config
	backend  Backend
	reactors []*reactor
	acceptor *acceptor

	lastID     atomic.Uint64 // of connections
	conns      atomic.Int64
	pulls      atomic.Int64 // under way
	unfinished atomic.Int64 // bytes held for what cannot be served yet
	backlog    atomic.Int64 // bytes waiting to be written, as last seen
	backlogged atomic.Int64 // connections with some

	counts serverCounts
}

var _ flow.Replies = (*Server)(nil)

// Listen starts a server. It serves when Listen returns.
func Listen(cfg Config, b Backend) (*Server, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	// Dead peers are found by our own keepalive; TCP's would cost four system calls for each accept.
	lc := net.ListenConfig{KeepAlive: -1}
	ln, err := lc.Listen(context.Background(), "tcp", cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("loop: cannot listen on %s: %w", cfg.Listen, err)
	}
	return serve(ln, cfg, b)
}

// serve starts the reactors and the acceptor. It owns ln.
func serve(ln net.Listener, cfg Config, b Backend) (*Server, error) {
	s := &Server{cfg: cfg, backend: b}
	for id := range cfg.Reactors {
		r, err := startReactor(s, id)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("loop: reactor %d: %w", id, err), s.stopReactors(), ln.Close())
		}
		s.reactors = append(s.reactors, r)
	}
	s.acceptor = newAcceptor(s, ln)
	go s.acceptor.run()
	return s, nil
}

// Addr returns the address the server listens on.
func (s *Server) Addr() net.Addr { return s.acceptor.ln.Addr() }

// Drain stops accepting, lets waiting PULLs end with what they have, waits for the
// answers to everything that was received, and closes every connection once its answers
// are in the kernel. Requests that arrive meanwhile are not served. It returns
// early with ctx's error when some connections are left then. The shards and the
// control plane must go on working until it returns. Close follows.
func (s *Server) Drain(ctx context.Context) error {
	if err := s.acceptor.stop(); err != nil {
		return err
	}
	for _, r := range s.reactors {
		r.drain()
	}
	for _, r := range s.reactors {
		select {
		case <-r.drained:
		case <-ctx.Done():
			return fmt.Errorf("loop: %d connections are left: %w", s.conns.Load(), ctx.Err())
		}
	}
	return nil
}

// Close stops accepting and closes every connection at once. Completions that
// come later are dropped.
func (s *Server) Close() error {
	return errors.Join(s.acceptor.stop(), s.stopReactors())
}

func (s *Server) stopReactors() error {
	var errs []error
	for _, r := range s.reactors {
		errs = append(errs, r.stop())
	}
	return errors.Join(errs...)
}

// Complete implements flow.Replies.
func (s *Server) Complete(loop int, batch []flow.Completion) {
	r := s.reactors[loop]
	r.mail.complete(r, batch)
}

// Notify implements flow.Replies.
func (s *Server) Notify(loop int, batch []flow.Notice) {
	r := s.reactors[loop]
	r.mail.notify(r, batch)
}

// Revoked implements flow.Replies.
func (s *Server) Revoked(sub *flow.Subscription) {
	r := s.reactors[sub.Conn.Loop]
	r.mail.revoke(r, sub)
}

// leastBusy returns the reactor with the fewest connections.
func (s *Server) leastBusy() *reactor {
	best := s.reactors[0]
	for _, r := range s.reactors[1:] {
		if r.conns.Load() < best.conns.Load() {
			best = r
		}
	}
	return best
}

// crowded reports whether memory for what waits to be written is short, with n bytes
// more: many connections have something waiting, and it is too much over all of
// them. A few may have all of their own bounds.
func (s *Server) crowded(n int) bool {
	return s.backlogged.Load() >= crowd && s.backlog.Load()+int64(n) > s.cfg.Limits.Backlog
}
