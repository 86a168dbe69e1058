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

// Members come and go; every message is handled, none by two who own it at once.
func TestMembersShareAndHandOver(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("orders", 6)
	c := dialFake(t, b)
	in := newInbox()
	owners := make(map[codec.Partition]int)
	var mu sync.Mutex
	start := func(who int) *running {
		o := ConsumerOptions{Topic: "orders", Group: "workers", CreditCount: 10, OnRebalance: func(r Rebalance) {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case r.Assigned && owners[r.Partition] != 0:
				t.Errorf("partition %d was given to member %d while member %d has it", r.Partition, who, owners[r.Partition])
			case r.Assigned:
				owners[r.Partition] = who
			case owners[r.Partition] != who || r.Lost:
				t.Errorf("%+v at member %d, owner is %d", r, who, owners[r.Partition])
			default:
				owners[r.Partition] = 0
			}
		}}
		return runConsumer(t, c, o, func(_ context.Context, d *Delivery) error {
			mu.Lock()
			if owners[d.Partition] != who {
				t.Errorf("member %d got a message of partition %d, owner is %d", who, d.Partition, owners[d.Partition])
			}
			mu.Unlock()
			in.add(d)
			return nil
		})
	}
	members := []*running{start(1)}
	for round := range 6 {
		b.fill("orders", 300)
		members = append(members, start(round+2))
		if round%2 == 1 {
			members[0].leave(t)
			members = members[1:]
		}
	}
	until(t, "all settled", func() bool { return b.settledCount("orders", "workers") == 1800 })
	for _, m := range members {
		m.leave(t)
	}
	for v, n := range in.by {
		if n != 6 { // each of the 300 values was stored 6 times
			t.Errorf("%q was handled %d times, want 6", v, n)
		}
	}
	in.inOrder(t)
}

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

func TestLeasesAreRenewedWhileTheHandlerWorks(t *testing.T) {
	b := newFakeBroker(t)
	b.lease = 60 * time.Millisecond
	b.addTopic("orders", 1)
	b.fill("orders", 5)
	in := newInbox()
	k := runConsumer(t, dialFake(t, b), ConsumerOptions{Topic: "orders", Group: "workers", ProgressEvery: 10 * time.Millisecond}, func(_ context.Context, d *Delivery) error {
		time.Sleep(80 * time.Millisecond) // the work: longer than a lease
		in.add(d)
		return nil
	})
	until(t, "5 settled", func() bool { return b.settledCount("orders", "workers") == 5 })
	k.leave(t)
	for _, d := range in.got {
		if d.Attempt != 1 {
			t.Errorf("%+v", d)
		}
	}
	if len(in.got) != 5 {
		t.Errorf("%d deliveries, want 5", len(in.got))
	}
}

func TestRevokeWaitsForTheHandler(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("orders", 2)
	b.fill("orders", 20)
	c := dialFake(t, b)
	inHand := make(chan codec.Partition)
	goOn := make(chan struct{})
	var revokes []Rebalance
	var mu sync.Mutex
	slow := ConsumerOptions{Topic: "orders", Group: "workers", OnRebalance: func(r Rebalance) {
		mu.Lock()
		defer mu.Unlock()
		if !r.Assigned {
			revokes = append(revokes, r)
		}
	}}
	first := true
	a := runConsumer(t, c, slow, func(_ context.Context, d *Delivery) error {
		if d.Partition == 1 && first {
			first = false
			inHand <- d.Partition
			<-goOn
		}
		return nil
	})
	<-inHand // a message of partition 1, which the second member is about to get
	other := newInbox()
	z := runConsumer(t, c, ConsumerOptions{Topic: "orders", Group: "workers"}, func(_ context.Context, d *Delivery) error {
		other.add(d)
		return nil
	})
	until(t, "REVOKE is on its way", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		n := b.group("orders", "workers").parts[1].notice
		return n != nil && n.Kind == codec.NoticeRevoke
	})
	if n := other.len(); n != 0 {
		t.Errorf("the new member got %d messages while the old one had one in hand", n)
	}
	close(goOn)
	until(t, "all settled", func() bool { return b.settledCount("orders", "workers") == 20 })
	a.leave(t)
	z.leave(t)
	if s := a.Stats(); s.Refused != 0 {
		t.Errorf("the message in hand could not be settled: %+v", s)
	}
	for _, d := range other.got {
		if d.Partition == 1 && (d.Attempt != 1 || d.Sequence == 1) {
			t.Errorf("handed over: %+v", d)
		}
	}
	if len(revokes) == 0 || revokes[0].Lost || revokes[0].Partition != 1 {
		t.Errorf("told: %+v", revokes)
	}
}

func TestRevokeDoesNotWaitForEver(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("orders", 2)
	b.fill("orders", 2)
	c := dialFake(t, b)
	inHand := make(chan struct{})
	goOn := make(chan struct{})
	var once sync.Once
	a := runConsumer(t, c, ConsumerOptions{Topic: "orders", Group: "workers", RevokeTimeout: 30 * time.Millisecond}, func(_ context.Context, d *Delivery) error {
		if d.Partition == 1 {
			once.Do(func() { close(inHand); <-goOn })
		}
		return nil
	})
	<-inHand
	other := newInbox()
	z := runConsumer(t, c, ConsumerOptions{Topic: "orders", Group: "workers"}, func(_ context.Context, d *Delivery) error {
		other.add(d)
		return nil
	})
	until(t, "the new member has it", func() bool { return other.len() == 1 })
	close(goOn)
	until(t, "all settled", func() bool { return b.settledCount("orders", "workers") == 2 })
	a.leave(t)
	z.leave(t)
	if other.got[0].Attempt != 1 {
		t.Errorf("handed over: %+v", other.got[0])
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

func TestNoAckHandsEverythingBack(t *testing.T) {
	b := newFakeBroker(t)
	b.lease = 50 * time.Millisecond
	b.addTopic("orders", 2)
	b.fill("orders", 30)
	c := dialFake(t, b)
	in := newInbox()
	k := runConsumer(t, c, ConsumerOptions{Topic: "orders", Group: "workers", NoAck: true, CreditCount: 20, ProgressEvery: 10 * time.Millisecond}, func(_ context.Context, d *Delivery) error {
		in.add(d)
		return errors.New("is not looked at")
	})
	until(t, "20 seen", func() bool { return in.len() == 20 })
	time.Sleep(120 * time.Millisecond) // more than two leases
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

// A lease that nobody renews runs out; Progress restarts it.
func TestProgressKeepsALease(t *testing.T) {
	b := newFakeBroker(t)
	b.lease, b.retry = 150*time.Millisecond, time.Hour
	b.addTopic("orders", 1)
	b.fill("orders", 2)
	handed := make(chan *Delivery, 2)
	k := runConsumer(t, dialFake(t, b), ConsumerOptions{Topic: "orders", Group: "workers", ManualAck: true}, func(_ context.Context, d *Delivery) error {
		handed <- d
		return nil
	})
	kept, forgotten := <-handed, <-handed
	for range 8 {
		time.Sleep(b.lease / 5)
		if err := kept.Progress(t.Context()); err != nil {
			t.Error(err)
		}
	}
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
	time.Sleep(100 * time.Millisecond)
	k.leave(t)
	b.mu.Lock()
	defer b.mu.Unlock()
	if pulls > 60 { // 10 ms of pause make 10, jitter and the first ones some more
		t.Errorf("%d PULLs in 100 ms", pulls)
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
	for seed := range int64(8) {
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
			for i := range 1000 {
				p.PublishAsync(t.Context(), Message{Key: fmt.Append(nil, i%17), Value: fmt.Append(nil, i)}, func(_ Receipt, err error) {
					if err != nil {
						t.Error(err)
					}
				})
				if i%250 == 100 {
					members = append(members, runConsumer(t, c, o, handler))
				}
			}
			closed(t, p)
			members[0].stop()
			until(t, "all settled", func() bool { return b.settledCount("orders", "workers") == 1000 })
			for _, m := range members {
				m.stop()
				<-m.done
			}
			for i := range 1000 {
				if in.by[fmt.Sprint(i)] == 0 {
					t.Errorf("message %d was never handled", i)
				}
			}
		})
	}
}
