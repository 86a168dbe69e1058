package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// Limits of the server. Pages are small and readers few; the limits are there so that a wrong client costs nothing.
const (
	headerTimeout  = 5 * time.Second
	readTimeout    = 10 * time.Second
	writeTimeout   = 2 * time.Minute // a CPU profile of a minute must fit
	idleTimeout    = time.Minute
	maxHeaderBytes = 8 << 10
	maxConns       = 128
	closeTimeout   = 2 * time.Second
)

// Source is where the pages get their content. Its methods are called from
// any goroutine, at any time between Listen and Close, and must not block on the disk or the network.
type Source interface {
	// Ready reports whether clients are served; if not, why, in words for an operator.
	Ready() (ok bool, reason string)
	// Stats returns a snapshot that belongs to the caller.
	Stats() Stats
	// WriteMetrics writes the broker's metrics in the Prometheus text format.
	// Those of the process are added by this package.
	WriteMetrics(w io.Writer)
}

// Options says what to serve, and where.
type Options struct {
	// Listen is the address, HOST:PORT; port 0 takes a free one.
	Listen string
	// Source gives the content. Required.
	Source Source
	// Metrics serves /metrics.
	Metrics bool
	// Logger gets the server's complaints; nil discards them.
	Logger *slog.Logger
}

// Server is the running HTTP server.
type Server struct {
	http     *http.Server
	listener net.Listener
	done     chan struct{} // closed when Serve has returned
}

// Listen binds the address and begins to serve. The error of an address that
// cannot be had names the setting.
func Listen(o Options) (*Server, error) {
	logger := o.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	inner, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen_admin %s: %w; free the port or set listen_admin to another one", o.Listen, err)
	}
	local := inner.Addr().(*net.TCPAddr).IP.IsLoopback()
	if !local {
		logger.Warn("admin HTTP can be reached from other machines and has no authentication", "listen_admin", inner.Addr().String())
	}
	s := &Server{
		listener: &limitedListener{Listener: inner, slots: make(chan struct{}, maxConns)},
		done:     make(chan struct{}),
		http: &http.Server{
			Handler:           newMux(o, local),
			ReadHeaderTimeout: headerTimeout,
			ReadTimeout:       readTimeout,
			WriteTimeout:      writeTimeout,
			IdleTimeout:       idleTimeout,
			MaxHeaderBytes:    maxHeaderBytes,
			ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
		},
	}
	go func() {
		defer close(s.done)
		if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
			logger.Error("admin HTTP stopped", "error", err)
		}
	}()
	return s, nil
}

// Addr returns the address that is listened on.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Close stops accepting, lets pages in progress finish for two seconds, and
// then cuts them off. When it returns, nothing calls Source any more, save a page that was cut off.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.http.Close()
	}
	<-s.done
	return err
}

// limitedListener closes what comes above its number of connections at once:
// a reader that is refused knows, one that waits in a queue does not.
type limitedListener struct {
	net.Listener
	slots chan struct{}
}

func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case l.slots <- struct{}{}:
			return &limitedConn{Conn: c, release: sync.OnceFunc(func() { <-l.slots })}, nil
		default:
			_ = c.Close() // refused: nothing was said that could get lost
		}
	}
}

type limitedConn struct {
	net.Conn
	release func()
}

func (c *limitedConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}
