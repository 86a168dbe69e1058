package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/mortarmq/mortarmq/codec"
)

func TestHandlerErrorsGiveTheMessageBack(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("orders", 1)
	b.fill("orders", 4)
	c := dialFake(t, b)
	in := newInbox()
	var mu sync.Mutex
	attempts := make(map[string][]int)
	r := runConsumer(t, c, ConsumerOptions{Topic: "orders", Group: "workers"}, func(_ context.Context, d *Delivery) error {
		in.add(d)
		mu.Lock()
		defer mu.Unlock()
		v := string(d.Value)
		attempts[v] = append(attempts[v], d.Attempt)
		switch {
		case v == "1" && len(attempts[v]) < 3:
			return errors.New("not yet")
		case v == "2":
			return Reject(errors.New("cannot be read"))
		case v == "3" && len(attempts[v]) < 3:
			return fmt.Errorf("busy: %w", ErrRelease)
		}
		return nil
	})
	until(t, "all settled", func() bool { return b.settledCount("orders", "workers") == 4 })
	r.leave(t)
	if got, want := fmt.Sprint(attempts), "map[0:[1] 1:[1 2 3] 2:[1] 3:[1 1 1]]"; got != want {
		t.Errorf("attempts: %s, want %s", got, want)
	}

	// The rejected one is in the twin, and says where it comes from.
	dead := make(chan Delivery, 1)
	r = runConsumer(t, c, ConsumerOptions{Topic: "orders", Group: "undertaker", DeadLetter: true}, func(_ context.Context, d *Delivery) error {
		origin := *d.Origin
		origin.Group = append([]byte(nil), origin.Group...)
		dead <- Delivery{Topic: d.Topic, DeadLetter: d.DeadLetter, Value: append([]byte(nil), d.Value...), Origin: &origin}
		return nil
	})
	d := <-dead
	r.leave(t)
	if d.Topic != "orders.dlq" || !d.DeadLetter || string(d.Value) != "2" {
		t.Errorf("from the twin: %+v", d)
	}
	if o := d.Origin; o.TopicID != 1 || o.Attempts != 5 || o.Reason != codec.DeadReject || string(o.Group) != "workers" {
		t.Errorf("origin: %+v", o)
	}
}

func TestAckRefusedForWantOfRoomIsSentAgain(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("orders", 1)
	b.fill("orders", 50)
	acks := 0
	b.setHook(func(r *fakeRequest) fault {
		if r.op == codec.OpAck || r.op == codec.OpNack {
			if acks++; acks%3 == 1 {
				return fault{code: codec.CodeBackpressure}
			}
		}
		return fault{}
	})
	var nacked sync.Map
	k := runConsumer(t, dialFake(t, b), ConsumerOptions{Topic: "orders", Group: "workers"}, func(_ context.Context, d *Delivery) error {
		if _, again := nacked.LoadOrStore(d.Sequence, true); !again && d.Sequence%5 == 0 {
			return errors.New("once more")
		}
		return nil
	})
	until(t, "all settled", func() bool { return b.settledCount("orders", "workers") == 50 })
	k.leave(t)
	if s := k.Stats(); s.Acked != 50 || s.Nacked != 10 || s.Refused != 0 || s.Delivered != 60 {
		t.Errorf("%+v", s)
	}
}

// What is in the handler's hands, and what waits for it, keeps its lease.
func TestLeasesAreRenewedWhileTheHandlerWorks(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("orders", 1)
	b.fill("orders", 5)
	inHand := make(chan struct{})
	goOn := make(chan struct{})
	var once sync.Once
	k := runConsumer(t, dialFake(t, b), ConsumerOptions{Topic: "orders", Group: "workers", ProgressEvery: 2 * time.Millisecond}, func(_ context.Context, d *Delivery) error {
		once.Do(func() { close(inHand); <-goOn })
		return nil
	})
	<-inHand
	until(t, "all leases to be renewed", func() bool {
		kept := b.renewals("orders", "workers")
		return len(kept) == 5 && kept[0] >= 3
	})
	close(goOn)
	until(t, "5 settled", func() bool { return b.settledCount("orders", "workers") == 5 })
	k.leave(t)
	if s := k.Stats(); s.Delivered != 5 || s.Acked != 5 {
		t.Errorf("%+v", s)
	}
}

func TestNoAckHandsEverythingBack(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("orders", 2)
	b.fill("orders", 30)
	c := dialFake(t, b)
	in := newInbox()
	k := runConsumer(t, c, ConsumerOptions{Topic: "orders", Group: "workers", NoAck: true, CreditCount: 20, ProgressEvery: 2 * time.Millisecond}, func(_ context.Context, d *Delivery) error {
		in.add(d)
		return errors.New("is not looked at")
	})
	until(t, "20 seen", func() bool { return in.len() == 20 })
	until(t, "all leases to be renewed", func() bool {
		kept := b.renewals("orders", "workers")
		return len(kept) == 20 && kept[0] >= 2
	})
	k.leave(t)
	if in.len() != 20 || b.settledCount("orders", "workers") != 0 {
		t.Errorf("%d seen, %d settled", in.len(), b.settledCount("orders", "workers"))
	}
	in = newInbox()
	k = runConsumer(t, c, ConsumerOptions{Topic: "orders", Group: "workers"}, func(_ context.Context, d *Delivery) error { in.add(d); return nil })
	until(t, "all settled", func() bool { return b.settledCount("orders", "workers") == 30 })
	k.leave(t)
	for _, d := range in.got {
		if d.Attempt != 1 {
			t.Errorf("%+v", d)
		}
	}
}

func TestManualAck(t *testing.T) {
	b := newFakeBroker(t)
	b.retry = time.Millisecond
	b.addTopic("orders", 1)
	b.fill("orders", 6)
	handed := make(chan *Delivery, 10)
	k := runConsumer(t, dialFake(t, b), ConsumerOptions{Topic: "orders", Group: "workers", ManualAck: true}, func(_ context.Context, d *Delivery) error {
		if d.Attempt > 1 || string(d.Value) != "4" {
			handed <- d
			return nil
		}
		return errors.New("given back by the handler")
	})
	ctx := t.Context()
	byValue := make(map[string]*Delivery)
	for range 5 {
		d := <-handed
		byValue[string(d.Value)] = d
	}
	if err := byValue["0"].Ack(ctx); err != nil {
		t.Error(err)
	}
	if err := byValue["0"].Ack(ctx); !errors.Is(err, ErrSettled) {
		t.Errorf("second Ack: %v", err)
	}
	if err := byValue["1"].Nack(ctx, codec.NackRetry); err != nil {
		t.Error(err)
	}
	if err := byValue["2"].Nack(ctx, codec.NackReject); err != nil {
		t.Error(err)
	}
	if err := byValue["3"].Progress(ctx); err != nil {
		t.Error(err)
	}
	if err := byValue["3"].Ack(ctx); err != nil {
		t.Error(err)
	}
	for range 2 { // 1 and 4 again
		d := <-handed
		if d.Attempt != 2 {
			t.Errorf("again: %+v", d)
		}
		if err := d.Ack(ctx); err != nil {
			t.Error(err)
		}
	}
	b.cutAll()
	if err := byValue["5"].Ack(ctx); !errors.Is(err, ErrLostOwnership) {
		t.Errorf("Ack on a lost connection: %v", err)
	}
	d := <-handed
	if err := d.Ack(ctx); err != nil || d.Sequence != 6 || d.Attempt != 2 {
		t.Errorf("after rejoining: %+v, %v", d, err)
	}
	k.leave(t)
	if n := b.settledCount("orders", "workers"); n != 6 {
		t.Errorf("%d settled, want 6", n)
	}
}

// Progress restarts a lease; a lease that ran out leaves nothing to settle.
func TestProgressKeepsALease(t *testing.T) {
	b := newFakeBroker(t)
	b.retry = time.Hour
	b.addTopic("orders", 1)
	b.fill("orders", 2)
	handed := make(chan *Delivery, 2)
	k := runConsumer(t, dialFake(t, b), ConsumerOptions{Topic: "orders", Group: "workers", ManualAck: true, ProgressEvery: time.Millisecond}, func(_ context.Context, d *Delivery) error {
		handed <- d
		return nil
	})
	kept, forgotten := <-handed, <-handed
	progress := func() (first, second int) {
		t.Helper()
		if err := kept.Progress(t.Context()); err != nil {
			t.Error(err)
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		o := b.group("orders", "workers").parts[0]
		return o.flying[1].kept, o.flying[2].kept
	}
	// Nobody but the handler renews what is in its hands.
	first, second := progress() // and everything that was sent before is served
	progress()
	if f, s := progress(); f != first+2 || s != second {
		t.Errorf("renewed %d and %d times, before it was %d and %d", f, s, first, second)
	}
	b.mu.Lock()
	o := b.group("orders", "workers").parts[0]
	o.expire(b, 2, o.flying[2])
	b.mu.Unlock()
	if err := kept.Ack(t.Context()); err != nil {
		t.Error(err)
	}
	if err := forgotten.Ack(t.Context()); !errors.Is(err, ErrLostOwnership) || CodeOf(err) != codec.CodeUnknownDelivery {
		t.Errorf("Ack after the lease: %v", err)
	}
	k.leave(t)
}

// With ManualAck, leaving waits for what is in other hands.
func TestLeavingWaitsForManualAcks(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("orders", 1)
	b.fill("orders", 1)
	handed := make(chan *Delivery, 1)
	k := runConsumer(t, dialFake(t, b), ConsumerOptions{Topic: "orders", Group: "workers", ManualAck: true}, func(_ context.Context, d *Delivery) error {
		handed <- d
		return nil
	})
	d := <-handed
	k.stop()
	if err := d.Ack(t.Context()); err != nil {
		t.Error(err)
	}
	<-k.done
	if k.err != nil || b.settledCount("orders", "workers") != 1 {
		t.Errorf("Run: %v, %d settled", k.err, b.settledCount("orders", "workers"))
	}
}
