package shard

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/mortarmq/mortarmq/codec"
	"github.com/mortarmq/mortarmq/flow"
)

// replayed returns a Core that has seen nothing but the log.
func (r *rig) replayed() *Core {
	r.t.Helper()
	c := NewCore(r.cfg, r.log, r.group, 1)
	c.AddTopic(1, 2)
	entries, err := r.log.Entries(1, r.log.LastIndex()+1, 1<<30)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, e := range entries {
		if len(e.Data) > 0 {
			if err := c.replay(e); err != nil {
				r.t.Fatal(err)
			}
		}
	}
	return c
}

// chaos does something at random to a rig with two topics' worth of groups.
type chaos struct {
	r    *rig
	rnd  *rand.Rand
	subs []*flow.Subscription
	held []codec.Msg
	seqs [2][3]codec.ProducerSeq
}

func (x *chaos) step() {
	r, rnd := x.r, x.rnd
	sub := x.subs[rnd.IntN(len(x.subs))]
	switch n := rnd.IntN(20); {
	case n < 6:
		part, id := codec.Partition(rnd.IntN(2)), rnd.IntN(3)
		x.seqs[part][id]++
		r.pub(part, codec.ProducerID(id), map[bool]codec.ProducerSeq{true: x.seqs[part][id]}[id > 0], fmt.Sprint(rnd.IntN(1000)))
	case n < 7:
		r.now += time.Duration(rnd.IntN(3000)) * time.Millisecond
		r.turn()
	case n < 8:
		r.quiet()
	case n < 11:
		x.held = append(x.held, r.msgs(r.startPull(sub, func(p *flow.Pull) { p.MaxMsgs = 1 + rnd.IntN(8) }))...)
	case n < 12:
		part := codec.Partition(rnd.IntN(2))
		r.core.Disown(sub, part, rnd.IntN(2) == 0)
		r.term++
		if err := r.core.Own(sub, part, codec.OwnershipEpoch(r.term)); err != nil {
			r.t.Fatal(err)
		}
	default:
		if len(x.held) == 0 {
			return
		}
		i := rnd.IntN(len(x.held))
		m := x.held[i]
		x.held = append(x.held[:i], x.held[i+1:]...)
		for _, s := range x.subs {
			if s.Topic == m.TopicID {
				op, flags := codec.OpAck, uint16(0)
				if rnd.IntN(3) == 0 {
					op = codec.OpNack
				} else if rnd.IntN(8) == 0 {
					flags = codec.AckProgress
				}
				r.settleRequest(op, s, m, flags, uint8(rnd.IntN(3)))
				return
			}
		}
	}
}

func newChaos(r *rig, seed uint64) *chaos {
	return &chaos{r: r, rnd: rand.New(rand.NewPCG(seed, 1)), subs: []*flow.Subscription{
		r.join(1, 1, codec.StartEarliest, 0, 1), r.join(2, 2, codec.StartEarliest, 0, 1),
	}}
}

// What a leader holds in memory is what its log says, and a snapshot is both.
func TestSnapshotEqualsReplay(t *testing.T) {
	for seed := range uint64(30) {
		r := newRig(t, func(c *Config) {
			c.DeliveryMaxAttempts, c.RetryBackoffBase, c.DeliveryLease = 3, 50*time.Millisecond, 2*time.Second
		})
		x := newChaos(r, seed)
		for range 400 {
			x.step()
		}
		r.quiet()
		live := r.core.Snapshot()
		replay := r.replayed()
		replay.now = 0
		replay.replayedAge = r.core.age() // the log knows it up to its last entry only
		if got := replay.Snapshot(); !bytes.Equal(got, live) {
			t.Fatalf("seed %d: replaying the log gives another state\n got %x\nwant %x", seed, got, live)
		}
		restored := NewCore(r.cfg, r.log, r.group, 1)
		if err := restored.restore(live); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if got := restored.Snapshot(); !bytes.Equal(got, live) {
			t.Fatalf("seed %d: the restored state differs\n got %x\nwant %x", seed, got, live)
		}
	}
}

func TestSnapshotIsRefusedWhenCutOrLonger(t *testing.T) {
	r := newRig(t, nil)
	x := newChaos(r, 1)
	for range 300 {
		x.step()
	}
	r.quiet()
	whole := r.core.Snapshot()
	for n := range whole {
		if err := NewCore(r.cfg, r.log, r.group, 1).restore(whole[:n]); err == nil {
			t.Fatalf("a snapshot cut at %d of %d was taken", n, len(whole))
		}
	}
	if err := NewCore(r.cfg, r.log, r.group, 1).restore(append(whole, 0)); err == nil {
		t.Fatal("a snapshot with a byte too many was taken")
	}
}

func FuzzRestore(f *testing.F) {
	f.Add([]byte{snapshotVersion, 0, 1, 0, 3, 0, 1, 5, 1, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		_ = NewCore(Config{Shards: 1}, nil, nil, 1).restore(b) // an error is fine, a panic is not
	})
}
