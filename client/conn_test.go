package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/mortarmq/mortarmq/codec"
)

// dripConn reads in pieces of random sizes, as networks do.
type dripConn struct {
	net.Conn
	rnd *rand.Rand
}

func (d *dripConn) Read(p []byte) (int, error) {
	most := []int{1, 7, 100, 5000, 1 << 20}[d.rnd.Intn(5)]
	return d.Conn.Read(p[:min(len(p), most)])
}

// pattern returns size bytes that no other message has.
func pattern(n, size int) []byte {
	return bytes.Repeat(fmt.Appendf(nil, "%d.", n), size/2+1)[:size]
}

// Messages of all sizes through reads of all sizes: the views that handlers get
// are whole while they have them, and buffers are used again.
func TestBytesArriveWholeWhateverTheReadsAre(t *testing.T) {
	for seed := range int64(2) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			b := newFakeBroker(t)
			b.addTopic("orders", 2)
			sizes := rand.New(rand.NewSource(seed))
			o := fast()
			seeds := seed * 1000
			o.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
				nc, err := (&net.Dialer{}).DialContext(ctx, network, addr)
				seeds++
				return &dripConn{nc, rand.New(rand.NewSource(seeds))}, err
			}
			c, err := Dial(t.Context(), []string{b.addr}, o)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			p := newProducer(t, c, "orders", ProducerOptions{})
			const total = 150
			want := make([]int, total)
			for i := range want {
				want[i] = []int{0, 10, 1000, 60_000, 300_000}[sizes.Intn(5)]
				p.PublishAsync(t.Context(), Message{Key: fmt.Append(nil, i), Value: pattern(i, want[i])}, func(_ Receipt, err error) {
					if err != nil {
						t.Error(err)
					}
				})
			}
			closed(t, p)
			got := 0
			k := runConsumer(t, c, ConsumerOptions{Topic: "orders", Group: "workers"}, func(_ context.Context, d *Delivery) error {
				var n int
				if _, err := fmt.Sscan(string(d.Key), &n); err != nil || !bytes.Equal(d.Value, pattern(n, want[n])) {
					t.Errorf("message %q has %d bytes, or others than were sent", d.Key, len(d.Value))
				}
				got++
				return nil
			})
			until(t, "all settled", func() bool { return b.settledCount("orders", "workers") == total })
			k.leave(t)
			if got != total {
				t.Errorf("%d deliveries, want %d", got, total)
			}
		})
	}
}

func TestTheLargestMessageGoesThrough(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("orders", 1)
	c := dialFake(t, b)
	p := newProducer(t, c, "orders", ProducerOptions{MaxInFlightBytes: 1 << 20})
	m := Message{Key: bytes.Repeat([]byte("k"), codec.MaxKeyLen), Value: pattern(1, codec.MaxValueLen)}
	if _, err := p.Publish(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	k := runConsumer(t, c, ConsumerOptions{Topic: "orders", Group: "workers"}, func(_ context.Context, d *Delivery) error {
		if !bytes.Equal(d.Key, m.Key) || !bytes.Equal(d.Value, m.Value) {
			t.Error("other bytes than were sent")
		}
		return nil
	})
	until(t, "settled", func() bool { return b.settledCount("orders", "workers") == 1 })
	k.leave(t)
}

// With ManualAck the bytes stay until the delivery is settled, however much arrives meanwhile.
func TestManualDeliveriesKeepTheirBytes(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("orders", 1)
	c := dialFake(t, b)
	p := newProducer(t, c, "orders", ProducerOptions{})
	const total = 600
	for i := range total {
		p.PublishAsync(t.Context(), Message{Value: pattern(i, 5000)}, nil)
	}
	closed(t, p)
	handed := make(chan *Delivery, total)
	k := runConsumer(t, c, ConsumerOptions{Topic: "orders", Group: "workers", ManualAck: true}, func(_ context.Context, d *Delivery) error {
		handed <- d
		return nil
	})
	var held []*Delivery
	for i := range total {
		held = append(held, <-handed)
		if len(held) < 100 && i < total-1 {
			continue
		}
		for _, d := range held {
			if !bytes.Equal(d.Value, pattern(int(d.Sequence)-1, 5000)) {
				t.Errorf("sequence %d has other bytes than were sent", d.Sequence)
			}
			if err := d.Ack(t.Context()); err != nil {
				t.Error(err)
			}
		}
		held = nil
	}
	k.leave(t)
}

// The broker's last words are heard although writing fails already.
func TestTheReasonIsHeardAfterAFailedWrite(t *testing.T) {
	ours, theirs := net.Pipe()
	heard := make(chan error, 1)
	o := &lostOnly{heard: heard}
	d := &dialer{opts: Options{}.withDefaults(), start: time.Now()}
	c := newConn(&failingWriter{ours}, "there", d, &o.mu, o)
	c.start()
	o.mu.Lock()
	c.out = codec.AppendPing(c.out)
	c.flush()
	o.mu.Unlock()
	if _, err := theirs.Write(codec.AppendErrCode(nil, codec.CodeSlowConsumer, 0, "")); err != nil {
		t.Fatal(err)
	}
	if err := <-heard; CodeOf(err) != codec.CodeSlowConsumer {
		t.Errorf("lost: %v", err)
	}
	c.wait()

	ours, _ = net.Pipe()
	c = newConn(&failingWriter{ours}, "there", d, &o.mu, o)
	c.start()
	o.mu.Lock()
	c.out = codec.AppendPing(c.out)
	c.flush()
	o.mu.Unlock()
	if err := <-heard; !errors.Is(err, net.ErrClosed) {
		t.Errorf("lost, without last words: %v", err)
	}
	c.wait()
}

// failingWriter is a connection on which nothing can be written.
type failingWriter struct{ net.Conn }

func (failingWriter) Write([]byte) (int, error) { return 0, net.ErrClosed }

// lostOnly is an owner that waits for the end of its connection.
type lostOnly struct {
	mu    sync.Mutex
	heard chan error
}

func (l *lostOnly) receive(f *frames) error {
	for {
		op, payload, ok := f.next()
		if !ok {
			return nil
		}
		if op == codec.OpErr {
			m, err := codec.DecodeErr(payload)
			if err != nil {
				return err
			}
			return &Error{Code: m.Code}
		}
	}
}

func (l *lostOnly) lost(err error) { l.heard <- err }
