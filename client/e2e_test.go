package client_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mortarmq/mortarmq/broker"
	"github.com/mortarmq/mortarmq/client"
	"github.com/mortarmq/mortarmq/codec"
	"github.com/mortarmq/mortarmq/config"
)

// startBroker runs a broker of its own in a directory of its own.
func startBroker(tb testing.TB, dir, listen string) *broker.Broker {
	tb.Helper()
	cfg := config.Default()
	cfg.DataDir = dir
	cfg.ListenClient, cfg.ListenAdmin = listen, "127.0.0.1:0"
	cfg.RetryBackoffBase = 20 * time.Millisecond
	b, err := broker.Start(cfg, broker.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// A broker that stops and starts again under load: everything is stored once, in
// order, and everything is handled; nothing but what was in flight is handled twice.
func TestRestartsOfTheBrokerUnderLoad(t *testing.T) {
	dir := t.TempDir()
	br := startBroker(t, dir, "127.0.0.1:0")
	addr := br.ClientAddr()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	o := client.Options{RetryBackoffMin: time.Millisecond, RetryBackoffMax: 50 * time.Millisecond}
	c, err := client.Dial(ctx, []string{addr}, o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.DeclareTopic(ctx, "orders", 4); err != nil {
		t.Fatal(err)
	}
	const total, restarts = 10000, 3
	p, err := c.NewProducer(ctx, "orders", client.ProducerOptions{MaxInFlight: 200})
	if err != nil {
		t.Fatal(err)
	}
	var published, reported atomic.Int64
	go func() {
		for i := range total {
			key := fmt.Appendf(nil, "key %d", i%7)
			p.PublishAsync(ctx, client.Message{Key: key, Value: fmt.Append(nil, i), Tag: uint64(i)}, func(r client.Receipt, err error) {
				if err != nil {
					t.Errorf("message %d: %v", r.Tag, err)
				}
				reported.Add(1)
			})
			published.Add(1)
		}
	}()

	var mu sync.Mutex
	handled := make([]int, total)
	type place struct {
		part codec.Partition
		seq  codec.Sequence
	}
	stored := make(map[place]int) // what is where
	distinct := 0
	kctx, stop := context.WithCancel(ctx)
	defer stop()
	var wg sync.WaitGroup
	for range 2 {
		k, err := c.NewConsumer(ctx, client.ConsumerOptions{Topic: "orders", Group: "workers"})
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			err := k.Run(kctx, func(_ context.Context, d *client.Delivery) error {
				var n int
				if _, err := fmt.Sscan(string(d.Value), &n); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				if handled[n]++; handled[n] == 1 {
					if distinct++; distinct == total {
						stop()
					}
				}
				at := place{d.Partition, d.Sequence}
				if before, ok := stored[at]; ok && before != n {
					t.Errorf("%+v is message %d, and was %d", at, n, before)
				}
				stored[at] = n
				return nil
			})
			if err != nil {
				t.Errorf("Run: %v", err)
			}
		})
	}

	for i := range restarts {
		for published.Load() < int64((i+1)*total/(restarts+2)) && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		if err := br.Close(); err != nil {
			t.Fatal(err)
		}
		br = startBroker(t, dir, addr)
	}
	defer func() { br.Close() }()
	if err := p.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	if ctx.Err() != nil || distinct != total {
		t.Fatalf("%d of %d handled, %d reported, %v", distinct, total, reported.Load(), ctx.Err())
	}
	twice := 0
	for n, times := range handled {
		if times > 1 {
			twice++
		}
		if times > 2*(restarts+1) {
			t.Errorf("message %d was handled %d times", n, times)
		}
	}
	t.Logf("%d of %d were handled more than once, %+v", twice, total, p.Stats())
	if s := p.Stats(); s.Stored+s.Duplicates != total || s.Connects < 2 {
		t.Errorf("%+v", s)
	}
	// Each partition holds its messages in the order of publishing, without a hole.
	for part := range codec.Partition(4) {
		last := -1
		for seq := codec.Sequence(1); ; seq++ {
			n, ok := stored[place{part, seq}]
			if !ok {
				break
			}
			if n <= last {
				t.Errorf("partition %d: message %d behind %d", part, n, last)
			}
			last = n
			delete(stored, place{part, seq})
		}
	}
	for at, n := range stored {
		t.Errorf("message %d is behind a hole at %+v", n, at)
	}
	// Stored once each: another group counts.
	if n := count(ctx, t, c, total); n != total {
		t.Errorf("%d messages are stored, want %d", n, total)
	}
}

// count consumes a topic with a group of its own until nothing comes any more.
func count(ctx context.Context, t *testing.T, c *client.Client, want int) int {
	t.Helper()
	k, err := c.NewConsumer(ctx, client.ConsumerOptions{Topic: "orders", Group: "counter", CreditCount: 4000})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	n := 0
	idle := time.AfterFunc(5*time.Second, stop)
	if err := k.Run(ctx, func(context.Context, *client.Delivery) error {
		if n++; n == want {
			idle.Reset(200 * time.Millisecond) // for what is there twice
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	return n
}

func BenchmarkBroker(b *testing.B) {
	br := startBroker(b, b.TempDir(), "127.0.0.1:0")
	defer br.Close()
	ctx := context.Background()
	c, err := client.Dial(ctx, []string{br.ClientAddr()}, client.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	if _, err := c.DeclareTopic(ctx, "bench", 8); err != nil {
		b.Fatal(err)
	}
	const conns = 8
	stored := 0
	for _, window := range []int{64, 512} {
		b.Run(fmt.Sprintf("publish/8x%d", window), func(b *testing.B) {
			var failed atomic.Int64
			var ps []*client.Producer
			for range conns {
				p, err := c.NewProducer(ctx, "bench", client.ProducerOptions{MaxInFlight: window})
				if err != nil {
					b.Fatal(err)
				}
				ps = append(ps, p)
			}
			value := make([]byte, 1024)
			report := func(_ client.Receipt, err error) {
				if err != nil {
					failed.Add(1)
				}
			}
			b.ResetTimer()
			var wg sync.WaitGroup
			for _, p := range ps {
				wg.Go(func() {
					for range b.N/conns + 1 {
						p.PublishAsync(ctx, client.Message{Value: value}, report)
					}
					p.Close(ctx)
				})
			}
			wg.Wait()
			b.StopTimer()
			stored += conns * (b.N/conns + 1)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
			if failed.Load() > 0 {
				b.Fatal(failed.Load(), "failed")
			}
		})
	}
	b.Run("consume/8", func(b *testing.B) {
		var n atomic.Int64
		var ks []*client.Consumer
		for range conns {
			k, err := c.NewConsumer(ctx, client.ConsumerOptions{Topic: "bench", Group: fmt.Sprint("g", b.N)})
			if err != nil {
				b.Fatal(err)
			}
			ks = append(ks, k)
		}
		ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
		defer cancel()
		want := int64(min(stored, b.N))
		var wg sync.WaitGroup
		b.ResetTimer()
		for _, k := range ks {
			wg.Go(func() {
				if err := k.Run(ctx, func(context.Context, *client.Delivery) error {
					if n.Add(1) >= want {
						cancel()
					}
					return nil
				}); err != nil {
					b.Error(err)
				}
				if s := k.Stats(); s.Refused > 0 {
					b.Errorf("%+v", s)
				}
			})
		}
		wg.Wait()
		b.StopTimer()
		b.ReportMetric(float64(n.Load())/b.Elapsed().Seconds(), "msg/s")
	})
}
