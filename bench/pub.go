package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/mortarmq/mortarmq/client"
)

// PubConfig describes a publishing run at saturation: every connection keeps
// InFlight messages unanswered.
type PubConfig struct {
	Servers     []string
	Token       string
	Topic       string        // must exist
	Connections int           // producers, one connection each
	InFlight    int           // messages without an answer, per connection
	Size        int           // value bytes; incompressible
	Warmup      time.Duration // not counted
	Duration    time.Duration // counted
	Progress    io.Writer     // one line a second; nil: none
}

// Validate returns all faults at once, or nil.
func (c PubConfig) Validate() error {
	var faults []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	check(c.Topic != "", "name the topic to publish to")
	check(c.Connections >= 1 && c.Connections <= 10_000, "connections is %d; set 1 to 10,000", c.Connections)
	check(c.InFlight >= 1 && c.InFlight <= 4000, "in flight is %d; set 1 to 4,000 (the broker takes 4,096 per connection)", c.InFlight)
	check(c.Size >= 0 && c.Size <= 16<<20-1<<10, "size is %d; set 0 to 16,776,192 bytes", c.Size)
	check(c.Duration > 0, "duration is %v; set more than 0", c.Duration)
	check(c.Warmup >= 0, "warm-up is %v; it must not be negative", c.Warmup)
	return errors.Join(faults...)
}

// Latencies are kept from 1 us to 1 min with three digits.
const (
	minLatency = 1
	maxLatency = int64(time.Minute / time.Microsecond)
	digits     = 3
)

// worker is one producer and what it measured. Reports of one producer come one
// after the other, so its histogram needs no lock.
type worker struct {
	producer *client.Producer
	hist     *hdrhistogram.Histogram
	ok       atomic.Int64 // in the counted time
	failed   atomic.Int64
	lastErr  atomic.Pointer[error]
}

// Pub runs the load and returns what it measured. Cancelling ctx ends it early; the
// report then covers the time there was.
func Pub(ctx context.Context, cfg PubConfig) (*Report, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cl, err := client.Dial(ctx, cfg.Servers, client.Options{Token: cfg.Token})
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	workers := make([]*worker, cfg.Connections)
	for i := range workers {
		p, err := cl.NewProducer(ctx, cfg.Topic, client.ProducerOptions{MaxInFlight: cfg.InFlight, MaxInFlightBytes: min(32<<20, max(1, cfg.InFlight*(cfg.Size+64)))})
		if err != nil {
			return nil, err
		}
		workers[i] = &worker{producer: p, hist: hdrhistogram.New(minLatency, maxLatency, digits)}
	}
	return run(ctx, cfg, workers)
}

func run(ctx context.Context, cfg PubConfig, workers []*worker) (*Report, error) {
	value := make([]byte, cfg.Size)
	for i := range value {
		value[i] = byte(rand.Uint32())
	}
	start := time.Now()
	from, to := start.Add(cfg.Warmup), start.Add(cfg.Warmup+cfg.Duration)
	ctx, cancel := context.WithDeadline(ctx, to)
	defer cancel()
	var wg sync.WaitGroup
	for _, w := range workers {
		wg.Go(func() { w.drive(ctx, value, start, from, to) })
	}
	stop := progress(cfg, workers)
	wg.Wait()
	end := time.Now()
	stop()
	drain, done := context.WithTimeout(context.Background(), 30*time.Second)
	defer done()
	var errs []error
	for _, w := range workers {
		errs = append(errs, w.producer.Close(drain))
	}
	r := &Report{Config: cfg, Elapsed: max(min(end.Sub(from), cfg.Duration), 0), Latency: hdrhistogram.New(minLatency, maxLatency, digits)}
	for _, w := range workers {
		r.Latency.Merge(w.hist)
		r.OK += w.ok.Load()
		r.Failed += w.failed.Load()
		if e := w.lastErr.Load(); e != nil {
			r.LastErr = *e
		}
	}
	return r, errors.Join(errs...)
}

// drive keeps the window full until ctx ends.
func (w *worker) drive(ctx context.Context, value []byte, start, from, to time.Time) {
	report := func(r client.Receipt, err error) {
		now := time.Now()
		switch {
		case err != nil:
			if ctx.Err() == nil {
				w.failed.Add(1)
				w.lastErr.Store(&err)
			}
		case !now.Before(from) && now.Before(to):
			w.ok.Add(1)
			sent := start.Add(time.Duration(r.Tag))
			// Beyond the histogram's end is recorded at its end.
			_ = w.hist.RecordValue(min(now.Sub(sent).Microseconds(), maxLatency))
		}
	}
	for ctx.Err() == nil {
		w.producer.PublishAsync(ctx, client.Message{Value: value, Tag: uint64(time.Since(start))}, report)
	}
}

// progress prints a line a second until the returned function is called.
func progress(cfg PubConfig, workers []*worker) (stop func()) {
	if cfg.Progress == nil {
		return func() {}
	}
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		var last int64
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
				var ok, failed int64
				for _, w := range workers {
					ok += w.ok.Load()
					failed += w.failed.Load()
				}
				fmt.Fprintf(cfg.Progress, "%d/s, %d failed\n", ok-last, failed)
				last = ok
			}
		}
	}()
	return func() { close(quit); <-ended }
}
