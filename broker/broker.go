package broker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mortarmq/mortarmq/admin"
	"github.com/mortarmq/mortarmq/codec"
	"github.com/mortarmq/mortarmq/config"
	"github.com/mortarmq/mortarmq/env"
	"github.com/mortarmq/mortarmq/flow"
	mlog "github.com/mortarmq/mortarmq/log"
	"github.com/mortarmq/mortarmq/loop"
	"github.com/mortarmq/mortarmq/shard"
)

// drainTimeout bounds how long Close waits for connections to take their answers.
const drainTimeout = 5 * time.Second

// Options are what Start needs besides the configuration.
type Options struct {
	Logger  *slog.Logger // nil discards
	Version string       // shown in /stats
}

// Broker is a running node.
type Broker struct {
	cfg     config.Config
	opts    Options
	log     *slog.Logger
	fs      env.FS
	clock   env.Clock
	node    nodeFile
	lock    io.Closer
	started time.Time

	topics  atomic.Pointer[flow.Topics]
	control *control
	shards  []*shard.Shard
	server  *loop.Server
	admin   *admin.Server
	state   nodeState
	metrics *metricSet

	fatal     chan error // the first fault that ends serving
	closeOnce sync.Once
	closeErr  error
	quit      chan struct{}
	listening chan struct{} // closed once server is set
	watchers  sync.WaitGroup
}

// Start opens the data directory, replays every log, and serves. It returns once
// connections are accepted. On an error everything that was opened is closed again.
func Start(cfg config.Config, opts Options) (*Broker, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	b := &Broker{
		cfg: cfg, opts: opts, log: opts.Logger,
		fs: env.OS(), clock: env.SystemClock(), started: time.Now(),
		fatal: make(chan error, 1), quit: make(chan struct{}), listening: make(chan struct{}),
	}
	b.topics.Store(&flow.Topics{Shards: 1})
	b.metrics = newMetricSet()
	if err := b.start(); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

func (b *Broker) start() error {
	shards := b.cfg.Shards
	if shards == 0 {
		shards = max(1, runtime.NumCPU()/4)
	}
	node, lock, err := openDataDir(b.fs, b.cfg, shards)
	if err != nil {
		return err
	}
	b.node, b.lock = node, lock
	if b.cfg.Shards != 0 && b.cfg.Shards != node.Shards {
		return fmt.Errorf("%w %s: it was made with %d shards and keeps them; set shards to %d or 0",
			ErrDataDir, b.cfg.DataDir, node.Shards, node.Shards)
	}
	b.topics.Store(&flow.Topics{Shards: node.Shards})
	if err := b.replayMeta(); err != nil {
		return err
	}
	for id := range node.Shards {
		s, err := shard.Open(b.shardOptions(id))
		if err != nil {
			return fmt.Errorf("%w %s: shard %d: %w", ErrDataDir, b.cfg.DataDir, id, err)
		}
		b.shards = append(b.shards, s)
	}
	if err := b.replayShards(); err != nil {
		return err
	}
	b.watchDisk()
	b.watchers.Add(1)
	go b.disks()
	if b.server, err = loop.Listen(b.loopConfig(), b); err != nil {
		return fmt.Errorf("listen_client %s: %w", b.cfg.ListenClient, err)
	}
	close(b.listening)
	b.admin, err = admin.Listen(admin.Options{
		Listen: b.cfg.ListenAdmin, Source: b, Metrics: b.cfg.MetricsEnabled, Logger: b.log,
	})
	if err != nil {
		return err
	}
	b.state.ready.Store(true)
	return nil
}

// replayMeta brings the control plane up: it knows all topics and groups afterwards.
func (b *Broker) replayMeta() error {
	ct, err := openControl(b)
	if err != nil {
		return fmt.Errorf("%w %s: meta: %w", ErrDataDir, b.cfg.DataDir, err)
	}
	b.control = ct
	ct.run()
	return b.waitReady("meta", ct.ready, ct.done)
}

// replayShards tells the shards which topics and groups there are and waits until
// their logs are applied.
func (b *Broker) replayShards() error {
	begin := b.clock.Now()
	topics, names := map[codec.TopicID]uint16{}, map[codec.GroupID]string{}
	b.control.ask(func(ct *control) {
		for t := range ct.core.Topics() {
			topics[t.ID] = t.Partitions
		}
		for g := range ct.core.Groups() {
			names[g.ID] = g.Name
		}
	})
	for _, s := range b.shards {
		s.Do(func(c *shard.Core) { c.Prepare(topics, names) })
		s.Run()
	}
	for id, s := range b.shards {
		if err := b.waitReady(fmt.Sprintf("shard %d", id), s.Ready(), s.Done()); err != nil {
			return err
		}
	}
	b.log.Info("logs replayed", "shards", len(b.shards), "topics", b.topics.Load().Sources(), "took", b.clock.Now()-begin)
	return nil
}

// waitReady shows progress while a long log is read.
func (b *Broker) waitReady(what string, ready, done <-chan struct{}) error {
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ready:
			return nil
		case <-done:
			select {
			case err := <-b.fatal:
				return err
			default:
				return fmt.Errorf("%s ended while it was reading its log", what)
			}
		case <-tick.C:
			b.log.Info("replaying the log", "of", what)
		}
	}
}

func (b *Broker) logOptions(name string) mlog.Options {
	o := mlog.Options{
		Dir: filepath.Join(b.cfg.DataDir, name), FS: b.fs, Clock: b.clock,
		Logger: b.log, SegmentMaxBytes: b.cfg.SegmentMaxBytes,
		SyncInterval: b.cfg.FlushInterval, OnSync: b.metrics.onSync,
	}
	if b.cfg.FlushPolicy == config.FlushInterval {
		o.Policy = mlog.SyncInterval
	}
	return o
}

func (b *Broker) shardOptions(id int) shard.Options {
	durability := codec.DurableDisk
	if b.cfg.FlushPolicy == config.FlushInterval {
		durability = codec.DurableMemory
	}
	return shard.Options{
		Config: shard.Config{
			ID: id, Shards: b.node.Shards,
			DeliveryLease:       b.cfg.DeliveryLease,
			DeliveryMaxAttempts: b.cfg.DeliveryMaxAttempts,
			RetryBackoffBase:    b.cfg.RetryBackoffBase,
			RetryBackoffMax:     b.cfg.RetryBackoffMax,
			ProducerIdle:        b.cfg.ProducerIdleExpiry,
			Durability:          durability,
			Seed:                uint64(b.started.UnixNano()),
			Logger:              b.log,
		},
		Reactors: b.reactors(),
		Clock:    b.clock,
		Log:      b.logOptions(fmt.Sprintf("shard-%04d", id)),
		Replies:  replies{b},
		Forward:  func(to int, p *flow.Pull) { b.shards[to].Pull(p) },
		Failed:   func(id int, err error) { b.fail(fmt.Sprintf("shard %d", id), err) },
	}
}

func (b *Broker) reactors() int {
	if b.cfg.Reactors > 0 {
		return b.cfg.Reactors
	}
	return max(1, runtime.NumCPU()/2)
}

// fail is told about a fault after which a part of the node serves no longer.
// The process lives on to say so.
func (b *Broker) fail(what string, err error) {
	err = fmt.Errorf("%s: %w", what, err)
	b.state.fail(err)
	b.log.Error("the node serves no longer; fix the cause and restart it", "part", what, "err", err)
	select {
	case b.fatal <- err:
	default:
	}
}

// ClientAddr returns the address clients connect to, HOST:PORT.
func (b *Broker) ClientAddr() string { return b.server.Addr().String() }

// AdminAddr returns the address of the admin pages, HOST:PORT.
func (b *Broker) AdminAddr() string { return b.admin.Addr().String() }

// Failed delivers the first fault after which the node serves no longer.
func (b *Broker) Failed() <-chan error { return b.fatal }

// Close drains and stops: no new connections, pending requests answered, what is
// in flight handed back, every log closed. Safe to call more than once.
func (b *Broker) Close() error {
	b.closeOnce.Do(func() { b.closeErr = b.close() })
	return b.closeErr
}

func (b *Broker) close() error {
	b.state.ready.Store(false)
	close(b.quit)
	b.watchers.Wait()
	var errs []error
	if b.server != nil {
		ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
		if err := b.server.Drain(ctx); err != nil {
			b.log.Warn("some connections did not take their answers in time", "err", err)
		}
		cancel()
	}
	if b.control != nil {
		errs = append(errs, b.control.stop())
	}
	for _, s := range b.shards {
		errs = append(errs, s.Stop())
	}
	if b.server != nil {
		errs = append(errs, b.server.Close())
	}
	if b.admin != nil {
		errs = append(errs, b.admin.Close())
	}
	if b.lock != nil {
		errs = append(errs, b.lock.Close())
	}
	return errors.Join(errs...)
}
