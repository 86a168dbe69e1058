package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/mortarmq/mortarmq/codec"
)

// dialer makes connections to whichever server answers, beginning with the
// one that is best known: the leader that was named last, else the one that answered last.
// It is shared by everything that belongs to a Client.
type dialer struct {
	opts    Options
	servers []string
	log     *slog.Logger
	pool    chunkPool
	start   time.Time // zero of the clock that everything of a Client uses

	mu     sync.Mutex
	first  int    // index in servers to begin with
	leader string // named by a server and not yet refuted; "" when unknown
}

// now is the time on the monotonic clock since the Client was made.
func (d *dialer) now() time.Duration { return time.Since(d.start) }

// prefer has the next attempt begin with addr, the leader that a server named.
// With "" that server only knew that it is not the leader: begin with the one after it.
func (d *dialer) prefer(addr, namedBy string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.leader = addr
	if addr != "" {
		return
	}
	for i, s := range d.servers {
		if s == namedBy {
			d.first = (i + 1) % len(d.servers)
		}
	}
}

// order returns the addresses in the order to try them.
func (d *dialer) order() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	addrs := make([]string, 0, len(d.servers)+1)
	if d.leader != "" {
		addrs = append(addrs, d.leader)
	}
	for i := range d.servers {
		if s := d.servers[(d.first+i)%len(d.servers)]; s != d.leader {
			addrs = append(addrs, s)
		}
	}
	return addrs
}

// reached notes whether addr could be connected to.
func (d *dialer) reached(addr string, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !ok {
		if addr == d.leader {
			d.leader = ""
		}
		return
	}
	for i, s := range d.servers {
		if s == addr {
			d.first = i
		}
	}
}

// connect tries every server once and returns the first connection that CONNECT
// opened; the owner starts it. mu is the owner's lock. A refusal of the token or the version is
// final; else the error wraps ErrUnreachable.
func (d *dialer) connect(ctx context.Context, mu *sync.Mutex, owner receiver) (*conn, error) {
	var faults []error
	for _, addr := range d.order() {
		nc, err := d.open(ctx, addr)
		d.reached(addr, err == nil)
		if err == nil {
			return newConn(nc, addr, d, mu, owner), nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if fatalConnect(err) {
			return nil, err
		}
		faults = append(faults, fmt.Errorf("%s: %w", addr, err))
	}
	return nil, outcome{ErrUnreachable, errors.Join(faults...)}
}

// fatalConnect reports whether another server or a later attempt would refuse
// the same CONNECT too.
func fatalConnect(err error) bool {
	switch CodeOf(err) {
	case codec.CodeAuthFailed, codec.CodeUnsupportedVersion, codec.CodeMalformedPayload:
		return true
	}
	return false
}

// open makes the network connection and sends CONNECT.
func (d *dialer) open(ctx context.Context, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.opts.DialTimeout)
	defer cancel()
	nc, err := d.opts.DialFunc(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	// A context that ends while the answer is awaited must end the wait.
	unhook := context.AfterFunc(ctx, func() { nc.SetDeadline(time.Unix(1, 0)) })
	err = d.handshake(nc, addr)
	if !unhook() && err == nil {
		err = context.Cause(ctx)
	}
	if err == nil {
		err = nc.SetDeadline(time.Time{})
	}
	if err != nil {
		nc.Close()
		return nil, err
	}
	return nc, nil
}

// handshake sends CONNECT and waits for its OK.
func (d *dialer) handshake(nc net.Conn, addr string) error {
	hello := codec.AppendConnect(nil, &codec.Connect{
		ProtocolVersion: codec.WireVersion,
		Token:           []byte(d.opts.Token),
	})
	_, writeErr := nc.Write(hello)
	op, payload, err := readAnswer(nc)
	switch {
	case err != nil && writeErr != nil:
		return writeErr
	case err != nil:
		return err
	case op == codec.OpErr:
		m, err := codec.DecodeErr(payload)
		if err != nil {
			return err
		}
		return &Error{Op: codec.OpConnect, Code: m.Code, Message: string(m.Message), Server: addr}
	}
	ok, err := codec.DecodeOK(payload)
	if err != nil {
		return err
	}
	if ok.RequestOp != codec.OpConnect {
		return fmt.Errorf("answered %s where the answer to CONNECT was due", ok.RequestOp)
	}
	return nil
}

// readAnswer reads one small OK or ERR frame, and not a byte more.
func readAnswer(nc net.Conn) (codec.Op, []byte, error) {
	buf := make([]byte, 1024)
	if _, err := io.ReadFull(nc, buf[:codec.PrefixLen]); err != nil {
		return 0, nil, fmt.Errorf("no answer to CONNECT: %w", err)
	}
	_, _, _, need, err := codec.Cut(buf[:codec.PrefixLen])
	if err != nil || codec.PrefixLen+need > len(buf) {
		return 0, nil, errNotMortarMQ
	}
	buf = buf[:codec.PrefixLen+need]
	if _, err := io.ReadFull(nc, buf[codec.PrefixLen:]); err != nil {
		return 0, nil, fmt.Errorf("no answer to CONNECT: %w", err)
	}
	op, payload, _, _, err := codec.Cut(buf)
	if err != nil || op != codec.OpOK && op != codec.OpErr {
		return 0, nil, errNotMortarMQ
	}
	return op, payload, nil
}

var errNotMortarMQ = errors.New("the answer to CONNECT is no MortarMQ frame: is this the client port (listen_client)?")

// backoff is a pause that grows from min to max by doubling, with up to 20 %
// of jitter. The zero value begins at min.
type backoff struct{ last time.Duration }

func (b *backoff) next(o *Options) time.Duration {
	b.last = min(max(2*b.last, o.RetryBackoffMin), o.RetryBackoffMax)
	return b.last + rand.N(b.last/5+1)
}

func (b *backoff) reset() { b.last = 0 }

// sleep waits for d or until the context ends, whose cause it returns then.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
