package loop

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"github.com/mortarmq/mortarmq/codec"
	"github.com/mortarmq/mortarmq/flow"
	"golang.org/x/sys/unix"
)

// Backend is the rest of the broker as the loop sees it. Every method is called
// from reactor goroutines, several at once, and must not block.
type Backend interface {
	// Topics returns the current table of topics.
	Topics() *flow.Topics
	// Submit hands PUB, ACK and NACK requests to a shard, in order. It copies
	// those that find room and returns how many; the loop answers the rest 0x4001.
	Submit(shard int, reqs []flow.Request) (accepted int)
	// Pull hands over the token of a PULL.
	Pull(p *flow.Pull)
	// Control hands a DECLARE, SUB, LEAVE or CONTROL_ACK to the control plane.
	// false: there is no room, the loop answers 0x4001.
	Control(c flow.Control) bool
	// Closed tells that a connection is gone: nothing can be sent to it any
	// more. It follows every request of the connection.
	Closed(c *flow.Conn)
	// Refusal says whether the state of the node lets requests of an op be
	// served: 0, or a code with its text ("" stands for the code's own). It is asked
	// once per op and turn.
	Refusal(op codec.Op) (codec.Code, string)
}

// Config is what a Server needs to know.
type Config struct {
	Listen   string // HOST:PORT; port 0 picks a free one
	Reactors int    // event loops; 0: half the CPUs, at least 1

	// Tokens are the SHA-256 digests of the tokens that may connect; none:
	// every token may (S9).
	Tokens [][32]byte

	// MaxConns bounds the connections; 0: what RLIMIT_NOFILE allows when 256 files
	// are kept for the log and the rest of the process.
	MaxConns int

	PollMaxWait time.Duration // cap of PULL.wait_ms; 0: 5 s
	PublishRate int           // PUBs per second and connection; 0: no limit

	Logger *slog.Logger         // nil discards
	Clock  func() time.Duration // monotonic; nil: since Listen
	Limits Limits
}

// Limits are the numbers of the S rules. Zero means the default: only tests
// have a reason to set one.
type Limits struct {
	AuthTimeout time.Duration // from accept to a successful CONNECT: 10 s (0x0007)
	AuthDelay   time.Duration // before 0x0006 is sent: 100 ms
	HalfFrame   time.Duration // since the last byte of an unfinished frame: 10 s (S5)
	Keepalive   time.Duration // without a complete frame: 45 s (S5)

	Requests int // unanswered requests per connection: 4,096 (S7)
	PubBytes int // unanswered PUB bytes per connection: 32 MiB (S7)
	Outbound int // bytes that may wait to be written to a connection: 64 MiB (S8)

	// Unfinished bounds the memory for what arrived and cannot be served yet,
	// over all connections: 1 GiB. The connection that needs more is closed (S8).
	Unfinished int64
	// Backlog bounds what may wait to be written over all connections once a crowd of
	// them has something waiting: 32 MiB. Above it a connection that needs more is a
	// slow consumer already when it has more than its share and its peer has taken
	// nothing for Stall (100 ms). Peers that read are never hit, and a few may each use up
	// their Outbound.
	Backlog int64
	Stall   time.Duration

	WaitingPulls int // PULLs under way on this broker: 10,000 (0x0027)

	// Closing is how long a connection may take from its last request to
	// the moment everything is in the kernel: 5 s. Linger is how much longer its socket
	// stays open for the peer to read, when the peer does not close it: 1 s.
	Closing time.Duration
	Linger  time.Duration
}

// crowd is how many connections must have something waiting before Backlog counts: fewer cannot
// hold more than 4 times Outbound.
const crowd = 4

// reservedFiles are kept from connections: segments, snapshots, peers, admin pages.
const reservedFiles = 256

// most connections that are ever allowed without being configured; a file limit
// of "infinity" says nothing about memory.
const defaultMostConns = 1 << 20

func orElse[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// withDefaults returns c with every zero replaced by its default.
func (c Config) withDefaults() (Config, error) {
	orElse(&c.Reactors, max(1, runtime.NumCPU()/2))
	orElse(&c.PollMaxWait, 5*time.Second)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Clock == nil {
		start := time.Now()
		c.Clock = func() time.Duration { return time.Since(start) }
	}
	if c.MaxConns == 0 {
		var files unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
			return c, fmt.Errorf("loop: the limit of open files cannot be read: %w", err)
		}
		n := int(min(files.Cur, defaultMostConns))
		c.MaxConns = max(n-reservedFiles, n/2)
	}
	c.Limits.fill()
	return c, c.validate()
}

func (l *Limits) fill() {
	orElse(&l.AuthTimeout, 10*time.Second)
	orElse(&l.AuthDelay, 100*time.Millisecond)
	orElse(&l.HalfFrame, 10*time.Second)
	orElse(&l.Keepalive, 45*time.Second)
	orElse(&l.Requests, 4096)
	orElse(&l.PubBytes, 32<<20)
	orElse(&l.Outbound, 64<<20)
	orElse(&l.Unfinished, 1<<30)
	orElse(&l.Backlog, 32<<20)
	orElse(&l.Stall, 100*time.Millisecond)
	orElse(&l.WaitingPulls, 10_000)
	orElse(&l.Closing, 5*time.Second)
	orElse(&l.Linger, time.Second)
}

func (c *Config) validate() error {
	var errs []error
	positive := func(name string, n int64) {
		if n <= 0 {
			errs = append(errs, fmt.Errorf("loop: %s is %d, it must be at least 1", name, n))
		}
	}
	l := &c.Limits
	positive("Reactors", int64(c.Reactors))
	positive("MaxConns", int64(c.MaxConns))
	positive("PollMaxWait", int64(c.PollMaxWait))
	positive("AuthTimeout", int64(l.AuthTimeout))
	positive("AuthDelay", int64(l.AuthDelay))
	positive("HalfFrame", int64(l.HalfFrame))
	positive("Keepalive", int64(l.Keepalive))
	positive("Requests", int64(l.Requests))
	positive("PubBytes", int64(l.PubBytes))
	positive("Outbound", int64(l.Outbound))
	positive("Unfinished", l.Unfinished)
	positive("Backlog", l.Backlog)
	positive("Stall", int64(l.Stall))
	positive("WaitingPulls", int64(l.WaitingPulls))
	positive("Closing", int64(l.Closing))
	positive("Linger", int64(l.Linger))
	if c.PublishRate < 0 {
		errs = append(errs, fmt.Errorf("loop: PublishRate is %d, it must not be negative", c.PublishRate))
	}
	return errors.Join(errs...)
}

// tick is how often the timers are looked at: each is acted on within 1 s (S5), and
// within a twentieth of itself when a test makes it short.
func (l *Limits) tick() time.Duration {
	shortest := min(l.AuthTimeout, l.HalfFrame, l.Keepalive, 2*l.Closing, 10*l.Linger)
	return min(max(shortest/20, 5*time.Millisecond), 500*time.Millisecond)
}
