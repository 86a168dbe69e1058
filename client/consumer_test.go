package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"sync"
	"testing"
	"time"

	"github.com/mortarmq/mortarmq/codec"
)

// fill stores messages "0", "1", … in a topic, in turn over its partitions.
func (b *fakeBroker) fill(topic string, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.byName[topic]
	for i := range n {
		p := t.parts[i%len(t.parts)]
		p.log = append(p.log, fakeMessage{value: fmt.Sprint(i)})
	}
	b.servePulls()
}

// until waits for a condition that other goroutines bring about.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("waited too long: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

// running is a consumer whose Run runs.
type running struct {
	*Consumer
	stop context.CancelFunc
	done chan struct{}
	err  error
}

func runConsumer(t testing.TB, c *Client, o ConsumerOptions, h Handler) *running {
	t.Helper()
	k, err := c.NewConsumer(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{Consumer: k, stop: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.err = k.Run(ctx, h)
	}()
	t.Cleanup(func() { cancel(); <-r.done })
	return r
}

// leave ends Run, which must go well.
func (r *running) leave(t testing.TB) {
	t.Helper()
	r.stop()
	<-r.done
	if r.err != nil {
		t.Errorf("Run: %v", r.err)
	}
}

// inbox notes what handlers get.
type inbox struct {
	mu  sync.Mutex
	got []Delivery // copies, without bytes
	by  map[string]int
}

func newInbox() *inbox { return &inbox{by: make(map[string]int)} }

func (i *inbox) add(d *Delivery) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.got = append(i.got, Delivery{Topic: d.Topic, Partition: d.Partition, Sequence: d.Sequence, Attempt: d.Attempt})
	i.by[string(d.Value)]++
	return len(i.got)
}

func (i *inbox) len() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.got)
}

// inOrder checks that first attempts of a partition come in sequence order.
func (i *inbox) inOrder(t testing.TB) {
	t.Helper()
	last := make(map[codec.Partition]codec.Sequence)
	for _, d := range i.got {
		if d.Attempt == 1 && d.Sequence <= last[d.Partition] {
			t.Errorf("partition %d: sequence %d after %d", d.Partition, d.Sequence, last[d.Partition])
		}
		last[d.Partition] = d.Sequence
	}
}

func TestConsumerHandlesEverythingInOrder(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("orders", 4)
	b.fill("orders", 2000)
	in := newInbox()
	r := runConsumer(t, dialFake(t, b), ConsumerOptions{Topic: "orders", Group: "workers"}, func(_ context.Context, d *Delivery) error {
		if d.Topic != "orders" || d.Attempt != 1 || d.DeadLetter {
			t.Errorf("delivered: %+v", d)
		}
		in.add(d)
		return nil
	})
	until(t, "2000 settled", func() bool { return b.settledCount("orders", "workers") == 2000 })
	b.fill("orders", 100) // while a PULL waits
	until(t, "100 more settled", func() bool { return b.settledCount("orders", "workers") == 2100 })
	r.leave(t)
	in.inOrder(t)
	if s := r.Stats(); s.Delivered != 2100 || s.Acked != 2100 || s.Joins != 1 || s.Refused != 0 || s.Nacked != 0 {
		t.Errorf("%+v", s)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := len(b.group("orders", "workers").members); n != 0 {
		t.Errorf("%d members are left", n)
	}
}

func TestConsumerStartsAtTheLatest(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("orders", 1)
	b.fill("orders", 10)
	in := newInbox()
	assigned := make(chan struct{}, 1)
	o := ConsumerOptions{Topic: "orders", Group: "workers", Start: Latest, OnRebalance: func(r Rebalance) {
		if r.Assigned {
			assigned <- struct{}{}
		}
	}}
	r := runConsumer(t, dialFake(t, b), o, func(_ context.Context, d *Delivery) error { in.add(d); return nil })
	<-assigned
	b.fill("orders", 3)
	until(t, "3 handled", func() bool { return in.len() == 3 })
	r.leave(t)
	if in.got[0].Sequence != 11 {
		t.Errorf("first: %+v", in.got[0])
	}
}

func TestConsumerRejoinsAfterALoss(t *testing.T) {
	for name, f := range map[string]fault{
		"cut before": {cutBefore: true}, "cut after": {cutAfter: true},
		"stale generation":  {code: codec.CodeStaleGeneration},
		"not owner":         {code: codec.CodeNotOwner},
		"not the leader":    {code: codec.CodeStaleLeaderEpoch},
		"internal":          {code: codec.CodeInternal},
		"waits for ever":    {mute: true},
		"wrong answer":      {raw: codec.AppendEmptyOK(nil, codec.OpDeclare)},
		"slow consumer":     {raw: codec.AppendErrCode(nil, codec.CodeSlowConsumer, 0, "")},
		"garbage":           {raw: []byte{0, 0, 0, 3, 10, 1, 2}},
		"broken connection": {raw: []byte{0, 0, 0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newFakeBroker(t)
			b.addTopic("orders", 2)
			b.fill("orders", 100)
			o := fast()
			o.SilenceTimeout = 1200 * time.Millisecond
			if name != "waits for ever" {
				o.SilenceTimeout = 0
			}
			c, err := Dial(t.Context(), []string{b.addr}, o)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			pulls := 0
			b.setHook(func(r *fakeRequest) fault {
				if r.op != codec.OpPull {
					return fault{}
				}
				if pulls++; pulls == 3 || pulls == 6 {
					return f
				}
				return fault{}
			})
			in := newInbox()
			k := runConsumer(t, c, ConsumerOptions{Topic: "orders", Group: "workers", CreditCount: 10, MaxWait: 100 * time.Millisecond}, func(_ context.Context, d *Delivery) error {
				in.add(d)
				return nil
			})
			until(t, "all settled", func() bool { return b.settledCount("orders", "workers") == 100 })
			k.leave(t)
			if s := k.Stats(); s.Joins < 2 {
				t.Errorf("joined %d times", s.Joins)
			}
		})
	}
}

func TestPullRefusalsThatPass(t *testing.T) {
	for _, code := range []codec.Code{codec.CodeBackpressure, codec.CodeMaxWaitingPulls, codec.CodeNoCredit, codec.CodeCatchupRequired} {
		b := newFakeBroker(t)
		b.addTopic("orders", 1)
		b.fill("orders", 50)
		pulls := 0
		b.setHook(func(r *fakeRequest) fault {
			if r.op == codec.OpPull {
				if pulls++; pulls%2 == 1 {
					return fault{code: code}
				}
			}
			return fault{}
		})
		k := runConsumer(t, dialFake(t, b), ConsumerOptions{Topic: "orders", Group: "workers", CreditCount: 5}, func(context.Context, *Delivery) error { return nil })
		until(t, code.Name(), func() bool { return b.settledCount("orders", "workers") == 50 })
		k.leave(t)
		if s := k.Stats(); s.Joins != 1 {
			t.Errorf("%v: joined %d times", code, s.Joins)
		}
	}
}

func TestConsumerEnlargesCreditForALargeMessage(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("orders", 1)
	large := string(make([]byte, 5000))
	b.mu.Lock()
	b.byName["orders"].parts[0].log = []fakeMessage{{value: "small"}, {value: large}, {value: "small"}}
	b.mu.Unlock()
	c := dialFake(t, b)
	in := newInbox()
	k := runConsumer(t, c, ConsumerOptions{Topic: "orders", Group: "workers", CreditBytes: 1000}, func(_ context.Context, d *Delivery) error {
		in.add(d)
		return nil
	})
	until(t, "3 settled", func() bool { return b.settledCount("orders", "workers") == 3 })
	k.leave(t)
	if in.by[large] != 1 {
		t.Error("the large message was not delivered whole")
	}

	k = runConsumer(t, c, ConsumerOptions{Topic: "orders", Group: "strict", CreditBytes: 1000, FixedCredit: true}, func(context.Context, *Delivery) error { return nil })
	<-k.done
	if CodeOf(k.err) != codec.CodeMessageExceedsCredit {
		t.Errorf("with FixedCredit: %v", k.err)
	}
}

// A message that is in hand when Run is told to end is finished; the others are
// handed back unharmed.
func TestLeavingIsGraceful(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("orders", 1)
	b.fill("orders", 10)
	c := dialFake(t, b)
	k, err := c.NewConsumer(t.Context(), ConsumerOptions{Topic: "orders", Group: "workers"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	err = k.Run(ctx, func(hctx context.Context, d *Delivery) error {
		if n++; n == 3 {
			cancel()
			if hctx.Err() != nil {
				t.Error("the handler's context ended with Run's")
			}
		}
		return nil
	})
	if err != nil || n != 3 {
		t.Errorf("Run: %v after %d messages", err, n)
	}
	if got := b.settledCount("orders", "workers"); got != 3 {
		t.Errorf("%d settled, want 3", got)
	}
	in := newInbox()
	r := runConsumer(t, c, ConsumerOptions{Topic: "orders", Group: "workers"}, func(_ context.Context, d *Delivery) error { in.add(d); return nil })
	until(t, "the rest", func() bool { return b.settledCount("orders", "workers") == 10 })
	r.leave(t)
	for i, d := range in.got {
		if d.Attempt != 1 || int(d.Sequence) != i+4 {
			t.Errorf("delivery %d: %+v", i, d)
		}
	}
}

func TestHandlerIsToldToGiveUpAfterLeaveTimeout(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("orders", 1)
	b.fill("orders", 1)
	started := make(chan struct{})
	k := runConsumer(t, dialFake(t, b), ConsumerOptions{Topic: "orders", Group: "workers", LeaveTimeout: 20 * time.Millisecond}, func(ctx context.Context, d *Delivery) error {
		close(started)
		<-ctx.Done()
		return ctx.Err()
	})
	<-started
	k.leave(t)
}

func TestSilentMemberSendsHeartbeats(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("orders", 1)
	b.fill("orders", 1)
	o := fast()
	o.KeepAlive = 5 * time.Millisecond
	c, err := Dial(t.Context(), []string{b.addr}, o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	goOn := make(chan struct{})
	k := runConsumer(t, c, ConsumerOptions{Topic: "orders", Group: "workers", CreditCount: 1}, func(context.Context, *Delivery) error {
		<-goOn
		return nil
	})
	until(t, "3 heartbeats", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		g := b.group("orders", "workers")
		return g != nil && len(g.members) == 1 && g.members[0].beats >= 3
	})
	close(goOn)
	until(t, "settled", func() bool { return b.settledCount("orders", "workers") == 1 })
	k.leave(t)
}

// A PULL waits at the broker; an idle member does not ask again and again.
func TestIdleMemberIsQuiet(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("orders", 1)
	k := runConsumer(t, dialFake(t, b), ConsumerOptions{Topic: "orders", Group: "workers", MaxWait: 50 * time.Millisecond}, func(context.Context, *Delivery) error { return nil })
	pulled := func() int {
		b.mu.Lock()
		defer b.mu.Unlock()
		g := b.group("orders", "workers")
		if g == nil || len(g.members) == 0 {
			return 0
		}
		return g.members[0].pulled
	}
	until(t, "the first PULLs", func() bool { return pulled() > 1 })
	before, start := pulled(), time.Now()
	time.Sleep(200 * time.Millisecond)
	most := int(time.Since(start)/(50*time.Millisecond)) + 2
	if n := pulled() - before; n > most {
		t.Errorf("%d PULLs in %v with a wait of 50ms", n, time.Since(start))
	}
	k.leave(t)
}

func TestBrokerThatAnswersPullsAtOnceIsNotFlooded(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("orders", 1)
	pulls := 0
	b.setHook(func(r *fakeRequest) fault {
		if r.op == codec.OpPull {
			pulls++
			return fault{raw: codec.AppendEmptyOK(nil, codec.OpPull)}
		}
		return fault{}
	})
	k := runConsumer(t, dialFake(t, b), ConsumerOptions{Topic: "orders", Group: "workers"}, func(context.Context, *Delivery) error { return nil })
	start := time.Now()
	time.Sleep(100 * time.Millisecond)
	k.leave(t)
	b.mu.Lock()
	defer b.mu.Unlock()
	// The first ones come at once, the others with pauses up to 10 ms.
	if most := 15 + int(time.Since(start)/(8*time.Millisecond)); pulls > most {
		t.Errorf("%d PULLs in %v", pulls, time.Since(start))
	}
}

func TestJoiningIsRefused(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("orders", 1)
	c := dialFake(t, b)
	never := func(context.Context, *Delivery) error { return nil }
	if _, err := c.NewConsumer(t.Context(), ConsumerOptions{Topic: "nothing", Group: "workers"}); !errors.Is(err, ErrUnknownTopic) {
		t.Errorf("unknown topic: %v", err)
	}
	first := runConsumer(t, c, ConsumerOptions{Topic: "orders", Group: "workers"}, never)
	until(t, "joined", func() bool { return first.Stats().Joins == 1 })
	for want, o := range map[codec.Code]ConsumerOptions{
		codec.CodeUnknownGroup:        {Topic: "orders", Group: "others", NoCreate: true},
		codec.CodeGroupExistsMismatch: {Topic: "orders", Group: "workers", Start: Latest},
	} {
		k := runConsumer(t, c, o, never)
		<-k.done
		if CodeOf(k.err) != want {
			t.Errorf("%v: %v", want, k.err)
		}
	}
	var more []*running
	for range 9 {
		more = append(more, runConsumer(t, c, ConsumerOptions{Topic: "orders", Group: "workers"}, never))
	}
	until(t, "10 members", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return len(b.group("orders", "workers").members) == 10
	})
	k := runConsumer(t, c, ConsumerOptions{Topic: "orders", Group: "workers"}, never)
	<-k.done
	if CodeOf(k.err) != codec.CodeGroupMemberLimit {
		t.Errorf("eleventh member: %v", k.err)
	}
	if err := first.Run(t.Context(), never); err == nil {
		t.Error("a Consumer ran twice at a time")
	}
	for _, r := range more {
		r.leave(t)
	}
	first.leave(t)
}

func TestDeletedTopicEndsRun(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("orders", 2)
	c := dialFake(t, b)
	k := runConsumer(t, c, ConsumerOptions{Topic: "orders", Group: "workers", MaxWait: 20 * time.Millisecond}, func(context.Context, *Delivery) error { return nil })
	until(t, "joined", func() bool { return k.Stats().Joins == 1 })
	if err := c.DeleteTopic(t.Context(), "orders"); err != nil {
		t.Fatal(err)
	}
	<-k.done
	if !errors.Is(k.err, ErrUnknownTopic) {
		t.Errorf("Run: %v", k.err)
	}
}

func TestRunGivesUpAfterRetryTimeout(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("orders", 1)
	k := runConsumer(t, dialFake(t, b), ConsumerOptions{Topic: "orders", Group: "workers", RetryTimeout: 50 * time.Millisecond}, func(context.Context, *Delivery) error { return nil })
	until(t, "joined", func() bool { return k.Stats().Joins == 1 })
	b.setDown(true)
	<-k.done
	if !errors.Is(k.err, ErrRetryTimeout) || !errors.Is(k.err, ErrUnreachable) {
		t.Errorf("Run: %v", k.err)
	}
}

// Random cuts and refusals under publishers and members that come and go:
// everything that was stored is settled in the end, and was handled at least once.
func TestConsumersUnderRandomFaults(t *testing.T) {
	for seed := range int64(6) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewSource(seed))
			b := newFakeBroker(t)
			b.addTopic("orders", 5)
			c := dialFake(t, b)
			codes := []codec.Code{codec.CodeBackpressure, codec.CodeInternal, codec.CodeStaleGeneration}
			b.setHook(func(r *fakeRequest) fault {
				if r.op == codec.OpDeclare || r.op == codec.OpSub || rnd.Intn(60) != 0 {
					return fault{}
				}
				switch rnd.Intn(3) {
				case 0:
					return fault{cutBefore: true}
				case 1:
					return fault{cutAfter: true}
				}
				if r.op == codec.OpAck || r.op == codec.OpNack || r.op == codec.OpPull {
					return fault{code: codes[rnd.Intn(len(codes))]}
				}
				return fault{}
			})
			in := newInbox()
			handler := func(_ context.Context, d *Delivery) error {
				if n := in.add(d); n%37 == 0 {
					return errors.New("once more")
				}
				return nil
			}
			o := ConsumerOptions{Topic: "orders", Group: "workers", CreditCount: 1 + rnd.Intn(50)}
			members := []*running{runConsumer(t, c, o, handler), runConsumer(t, c, o, handler)}
			p := newProducer(t, c, "orders", ProducerOptions{MaxInFlight: 20})
			for i := range 600 {
				p.PublishAsync(t.Context(), Message{Key: fmt.Append(nil, i%17), Value: fmt.Append(nil, i)}, func(_ Receipt, err error) {
					if err != nil {
						t.Error(err)
					}
				})
				if i%150 == 60 {
					members = append(members, runConsumer(t, c, o, handler))
				}
			}
			closed(t, p)
			members[0].stop()
			until(t, "all settled", func() bool { return b.settledCount("orders", "workers") == 600 })
			for _, m := range members {
				m.stop()
				<-m.done
			}
			for i := range 600 {
				if in.by[fmt.Sprint(i)] == 0 {
					t.Errorf("message %d was never handled", i)
				}
			}
		})
	}
}
