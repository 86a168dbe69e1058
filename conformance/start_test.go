package conformance

import (
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/mortarmq/mortarmq/broker"
	"github.com/mortarmq/mortarmq/config"
)

// node is one broker under test. This file is the only one that knows how to start it.
type node struct {
	addr  string
	dir   string
	knobs knobs

	stop func() error // closes the broker; again: nothing
}

// settings turns knobs into a configuration; what is not set keeps its default.
func (k knobs) settings() config.Config {
	c := config.Default()
	c.DataDir = k.dir
	c.ListenClient, c.ListenAdmin = "127.0.0.1:0", "127.0.0.1:0"
	if k.listen != "" {
		c.ListenClient = k.listen
	}
	c.AllowAnonymous = k.allowAnonymous
	c.AuthTokenSHA256 = k.tokens
	c.PublishRateLimit = k.rate
	c.Shards = k.shards
	c.SegmentMaxBytes = or(k.segmentBytes, 4<<20)
	c.DeliveryLease = or(k.lease, c.DeliveryLease)
	c.RetryBackoffBase = or(k.backoffBase, c.RetryBackoffBase)
	c.RetryBackoffMax = or(k.backoffMax, c.RetryBackoffMax)
	c.DeliveryMaxAttempts = or(k.maxAttempts, c.DeliveryMaxAttempts)
	c.PollMaxWait = or(k.pollMaxWait, c.PollMaxWait)
	c.PartitionMaxCount = or(k.partitionMax, c.PartitionMaxCount)
	c.ProducerIdleExpiry = or(k.idleExpiry, c.ProducerIdleExpiry)
	if k.flushInterval != 0 {
		c.FlushPolicy, c.FlushInterval = config.FlushInterval, k.flushInterval
	}
	return c
}

func or[T comparable](v, fallback T) T {
	var zero T
	if v == zero {
		return fallback
	}
	return v
}

// start runs a broker in this process.
func start(k knobs) (*node, error) {
	cfg := k.settings()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	level := slog.LevelError
	if os.Getenv("MORTARMQ_CONFORMANCE_LOG") != "" {
		level = slog.LevelDebug
	}
	b, err := broker.Start(cfg, broker.Options{
		Logger:  slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})),
		Version: "conformance",
	})
	if err != nil {
		return nil, err
	}
	stop := sync.OnceValue(func() error {
		closed := make(chan error, 1)
		go func() { closed <- b.Close() }()
		select {
		case err := <-closed:
			return err
		case <-time.After(3 * patience):
			return fmt.Errorf("the broker has not closed after %v", 3*patience)
		}
	})
	return &node{addr: b.ClientAddr(), dir: k.dir, knobs: k, stop: stop}, nil
}
