package client

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/mortarmq/mortarmq/codec"
)

// control sends requests one answer each, on a connection that is made when
// it is needed: topics and PING.
type control struct {
	d   *dialer
	ctx context.Context // ends with the Client

	dialing chan struct{} // capacity 1: held while connecting

	mu    sync.Mutex
	conn  *conn   // nil while there is none
	calls []*call // waiting for an answer, oldest first
}

// call is one request on its way.
type call struct {
	op     codec.Op
	done   chan struct{} // closed when result and err are set
	result []byte
	err    error
}

// unansweredError says that an earlier attempt of the same request had an unknown outcome.
type unansweredError struct{ error }

func (e unansweredError) Unwrap() error { return e.error }

func newControl(ctx context.Context, d *dialer) *control {
	return &control{d: d, ctx: ctx, dialing: make(chan struct{}, 1)}
}

// ensure makes the connection if there is none.
func (k *control) ensure(ctx context.Context) error {
	select {
	case k.dialing <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-k.dialing }()
	k.mu.Lock()
	up := k.conn != nil
	k.mu.Unlock()
	if up {
		return nil
	}
	ctx, cancel := either(ctx, k.ctx)
	defer cancel()
	link := &controlLink{k: k}
	c, err := k.d.connect(ctx, &k.mu, link)
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	link.conn, k.conn = c, c
	c.start()
	return nil
}

// controlLink ties one connection to the control: the end of an old one must
// not touch its successor.
type controlLink struct {
	k    *control
	conn *conn
}

func (l *controlLink) receive(f *frames) error {
	l.k.mu.Lock()
	defer l.k.mu.Unlock()
	for {
		op, payload, ok := f.next()
		if !ok {
			return nil
		}
		if err := l.take(op, payload); err != nil {
			return err
		}
	}
}

func (l *controlLink) take(op codec.Op, payload []byte) error {
	k := l.k
	if op != codec.OpOK && op != codec.OpErr {
		return nil // MSG and NOTICE have no business here; a later version's push is ignored
	}
	var first *call
	var request codec.Op
	if len(k.calls) > 0 {
		first = k.calls[0]
		request = first.op
	}
	a, err := l.conn.decodeAnswer(op, payload, request)
	if err != nil {
		return err
	}
	k.calls = k.calls[1:]
	if a.code != 0 {
		first.err = l.conn.refusal(first.op, a)
	} else {
		first.result = append([]byte(nil), a.result...)
	}
	close(first.done)
	return nil
}

func (l *controlLink) lost(err error) {
	k := l.k
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.conn != l.conn {
		return
	}
	k.conn = nil
	for _, c := range k.calls {
		c.err = unansweredError{err}
		close(c.done)
	}
	k.calls = nil
}

// do sends a request and returns its result. What may be sent again is, until
// the context or RequestTimeout ends it.
func (k *control) do(ctx context.Context, op codec.Op, frame func([]byte) []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, k.d.opts.RequestTimeout, ErrRetryTimeout)
	defer cancel()
	ctx, cancelEither := either(ctx, k.ctx)
	defer cancelEither()
	var pause backoff
	var last error
	unknown := false
	for {
		result, err := k.once(ctx, op, frame)
		if err == nil {
			return result, nil
		}
		if !again(err) {
			if unknown {
				err = unansweredError{err}
			}
			return nil, err
		}
		if ctx.Err() != nil {
			if last == nil {
				return nil, err
			}
			return nil, outcome{context.Cause(ctx), last}
		}
		last = err
		var lost unansweredError
		unknown = unknown || errors.As(err, &lost)
		var refusal *Error
		if errors.As(err, &refusal) && notLeader(refusal.Code) {
			k.d.prefer(leaderHint(refusal.Message), refusal.Server)
			k.drop(err)
		}
		if err := sleep(ctx, pause.next(&k.d.opts)); err != nil {
			return nil, outcome{err, last}
		}
	}
}

// again reports whether a request that failed with err may be sent again. All
// requests of control leave the same state when they are served twice.
func again(err error) bool {
	var e *Error
	if errors.As(err, &e) {
		return e.Code.Retriable()
	}
	return !errors.Is(err, ErrClosed)
}

// once sends the request and waits for its answer.
func (k *control) once(ctx context.Context, op codec.Op, frame func([]byte) []byte) ([]byte, error) {
	if err := k.ensure(ctx); err != nil {
		return nil, err
	}
	k.mu.Lock()
	c := k.conn
	if c == nil {
		k.mu.Unlock()
		return nil, errors.New("client: the connection was lost at once")
	}
	w := &call{op: op, done: make(chan struct{})}
	k.calls = append(k.calls, w)
	c.out = frame(c.out)
	c.flush()
	k.mu.Unlock()

	silence, cancel := context.WithTimeout(ctx, k.d.opts.SilenceTimeout)
	defer cancel()
	select {
	case <-w.done:
		return w.result, w.err
	case <-silence.Done():
	}
	if ctx.Err() != nil {
		return nil, unansweredError{context.Cause(ctx)}
	}
	c.fail(fmt.Errorf("%s did not answer %s within %v", c.server, op, k.d.opts.SilenceTimeout))
	<-w.done
	return w.result, w.err
}

// drop gives the connection up.
func (k *control) drop(err error) {
	k.mu.Lock()
	c := k.conn
	k.mu.Unlock()
	if c != nil {
		c.fail(err)
		c.wait()
	}
}

// shut ends the connection and waits for its goroutines.
func (k *control) shut() {
	k.dialing <- struct{}{} // a connect in progress has ended
	k.drop(ErrClosed)
}

// either returns a context that ends with a or with b.
func either(a, b context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(a)
	unhook := context.AfterFunc(b, func() { cancel(context.Cause(b)) })
	return ctx, func() {
		unhook()
		cancel(nil)
	}
}
