package loop

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// How long accepting pauses after a failure: doubled from the first to the last
// value. Out of files, the kernel keeps connections waiting meanwhile.
const (
	firstPause = 5 * time.Millisecond
	lastPause  = time.Second
)

// acceptor accepts connections and gives each to a reactor. gnet could accept
// itself, but a single EMFILE would end its engine.
type acceptor struct {
	srv  *Server
	ln   net.Listener
	quit context.Context
	end  context.CancelFunc
	done chan struct{}

	once    sync.Once
	stopErr error
}

func newAcceptor(s *Server, ln net.Listener) *acceptor {
	a := &acceptor{srv: s, ln: ln, done: make(chan struct{})}
	a.quit, a.end = context.WithCancel(context.Background())
	return a
}

// stop ends accepting. When it returns, every accepted connection is known to
// its reactor.
func (a *acceptor) stop() error {
	a.once.Do(func() {
		a.end()
		a.stopErr = a.ln.Close()
		<-a.done
	})
	return a.stopErr
}

func (a *acceptor) run() {
	defer close(a.done)
	complaints := sparse{}
	var pause time.Duration
	for {
		conn, err := a.ln.Accept()
		if err == nil {
			err = a.admit(conn)
		}
		if err == nil {
			pause = 0
			continue
		}
		if a.quit.Err() != nil || errors.Is(err, net.ErrClosed) {
			return
		}
		pause = min(max(2*pause, firstPause), lastPause)
		a.srv.counts.acceptErrors.Add(1)
		if skipped, ok := complaints.allow(a.srv.cfg.Clock()); ok {
			a.srv.cfg.Logger.Warn("a connection cannot be accepted; trying again", "err", err, "pause", pause, "same_before", skipped)
		}
		select {
		case <-a.quit.Done():
			return
		case <-time.After(pause):
		}
	}
}

// admit gives a connection to the reactor with the fewest. Above the limit it is
// closed at once.
func (a *acceptor) admit(conn net.Conn) error {
	s := a.srv
	if s.conns.Add(1) > int64(s.cfg.MaxConns) {
		s.conns.Add(-1)
		s.counts.rejected.Add(1)
		return conn.Close()
	}
	r := s.leastBusy()
	ses := newSession(r, s.lastID.Add(1), conn.RemoteAddr().String())
	dropZone(conn.LocalAddr())
	dropZone(conn.RemoteAddr())
	r.conns.Add(1)
	// The reactor's OnOpen has run when EnrollContext returns; unless epoll
	// refused the socket, which gnet reports nowhere.
	_, err := r.client.EnrollContext(conn, ses)
	if err == nil && ses.gc == nil {
		err = errors.New("the socket could not be added to epoll")
	}
	if err != nil {
		r.conns.Add(-1)
		s.conns.Add(-1)
		return err
	}
	s.counts.accepted.Add(1)
	return nil
}

// dropZone removes the zone of an IPv6 link-local address. gnet puts the bytes
// of that string into its pool of buffers when the connection closes, although
// package net shares the string.
func dropZone(a net.Addr) {
	if a, ok := a.(*net.TCPAddr); ok {
		a.Zone = ""
	}
}
