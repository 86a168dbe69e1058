package client

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/mortarmq/mortarmq/codec"
)

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

// Run that is told to end while it joins leaves what it has joined.
func TestEndingWhileJoiningLeavesInOrder(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("orders", 1)
	b.fill("orders", 5)
	c := dialFake(t, b)
	for range 20 {
		k, err := c.NewConsumer(t.Context(), ConsumerOptions{Topic: "orders", Group: "workers"})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		left := 0
		b.setHook(func(r *fakeRequest) fault {
			switch r.op {
			case codec.OpSub:
				cancel()
			case codec.OpHeartbeat:
				left++
			}
			return fault{}
		})
		if err := k.Run(ctx, func(context.Context, *Delivery) error { return nil }); err != nil {
			t.Errorf("Run: %v", err)
		}
		b.mu.Lock()
		if left != 1 {
			t.Errorf("%d LEAVEs", left)
		}
		b.mu.Unlock()
	}
}
