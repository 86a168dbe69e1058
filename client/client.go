package client

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mortarmq/mortarmq/codec"
)

// Client knows a cluster: its addresses, the token, and who leads. It has one
// connection of its own for topics and Ping; every Producer and every Consumer has
// another one. All methods may be called from any goroutine.
type Client struct {
	d       *dialer
	control *control

	ctx    context.Context // ends with Close
	cancel context.CancelCauseFunc

	mu       sync.Mutex
	closed   bool
	children map[closer]struct{} // producers and running consumers
}

// closer is a child that Close ends.
type closer interface{ shut() }

// Dial connects to the first of servers ("host:port") that answers and accepts
// the token. ctx bounds the connecting only. The error wraps ErrUnreachable
// when none answers, and is an *Error with AUTH_FAILED when the token is refused.
//
// Connections that are lost later are made again as they are needed, to
// whichever of the servers answers, or to the leader that one of them names.
func Dial(ctx context.Context, servers []string, opts Options) (*Client, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	if len(servers) == 0 {
		return nil, errors.New("client: no servers given; name at least one as host:port")
	}
	opts = opts.withDefaults()
	d := &dialer{opts: opts, start: time.Now(), log: opts.Logger, servers: append([]string(nil), servers...)}
	c := &Client{d: d, children: make(map[closer]struct{})}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	c.control = newControl(c.ctx, d)
	if err := c.control.ensure(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Ping asks the server for a sign of life.
func (c *Client) Ping(ctx context.Context) error {
	_, err := c.control.do(ctx, codec.OpPing, codec.AppendPing)
	return err
}

// Close ends everything that belongs to the Client: producers as if by Close
// with a context that has ended, consumers as if Run's context had ended. It
// returns when all of it is gone.
func (c *Client) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return ErrClosed
	}
	c.closed = true
	children := c.children
	c.children = nil
	c.mu.Unlock()
	c.cancel(ErrClosed)
	for child := range children {
		child.shut()
	}
	c.control.shut()
	return nil
}

// adopt registers a child for Close.
func (c *Client) adopt(child closer) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	c.children[child] = struct{}{}
	return nil
}

// forget takes a child that has ended off the list.
func (c *Client) forget(child closer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.children, child)
}
