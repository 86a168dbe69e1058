package shard

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/mortarmq/mortarmq/codec"
	"github.com/mortarmq/mortarmq/flow"
)

func (r *rig) fill(n int) {
	r.t.Helper()
	for range n {
		r.pub(0, 0, 0, "value")
	}
	r.quiet()
}

func TestAckMovesTheFloorAndHolesSurviveRestart(t *testing.T) {
	r := newRig(t, nil)
	r.fill(5)
	sub := r.join(1, 1, codec.StartEarliest, 0)
	got := r.pull(sub)
	wantMsgs(t, got, [2]int{1, 1}, [2]int{2, 1}, [2]int{3, 1}, [2]int{4, 1}, [2]int{5, 1})
	r.ack(sub, got[1], 0)
	r.ack(sub, got[3], 0)
	r.ack(sub, got[3], codec.CodeUnknownDelivery)
	if count, bytes := sub.Credit.Outstanding(); count != 3 || bytes != 3*6 {
		t.Errorf("outstanding %d messages %d bytes, want 3 and 18", count, bytes)
	}
	r.quiet()
	r.restart()
	sub = r.join(1, 1, codec.StartEarliest, 0)
	wantMsgs(t, r.pull(sub)) // the backoff counts from the restart
	r.sleep(2 * time.Second)
	got = r.pull(sub)
	wantMsgs(t, got, [2]int{1, 2}, [2]int{3, 2}, [2]int{5, 2})
	for _, m := range got {
		r.ack(sub, m, 0)
	}
	r.quiet()
	st := r.core.Stats().Parts[0].Groups[0]
	if st.AckFloor != 5 || st.Depth != 0 || st.Acked != 5 || st.InFlight != 0 {
		t.Errorf("stats %+v", st)
	}
}

func TestLeaseExpiryAndLateAck(t *testing.T) {
	r := newRig(t, nil)
	r.fill(2)
	sub := r.join(1, 1, codec.StartEarliest, 0)
	got := r.pull(sub)
	r.sleep(20 * time.Second)
	r.progress(sub, got[0], 0)
	r.sleep(10 * time.Second) // the second's lease is over
	if count, _ := sub.Credit.Outstanding(); count != 1 {
		t.Errorf("outstanding %d, want 1", count)
	}
	r.ack(sub, got[1], 0) // late, but it was not delivered again
	r.sleep(20 * time.Second)
	r.nack(sub, got[0], codec.NackRetry, 0) // after the lease: OK, fails nothing twice
	r.sleep(2 * time.Second)
	got2 := r.pull(sub)
	wantMsgs(t, got2, [2]int{1, 2})
	r.ack(sub, got[0], codec.CodeUnknownDelivery)
	r.ack(sub, got2[0], 0)
}

func TestAttemptsThenDeadLetter(t *testing.T) {
	r := newRig(t, nil)
	r.fill(2)
	sub := r.join(1, 1, codec.StartEarliest, 0)
	for attempt := 1; attempt <= 5; attempt++ {
		got := r.pull(sub)
		if attempt == 1 {
			wantMsgs(t, got, [2]int{1, 1}, [2]int{2, 1})
			r.ack(sub, got[1], 0)
		} else {
			wantMsgs(t, got, [2]int{1, attempt})
		}
		r.nack(sub, got[0], codec.NackRetry, 0)
		r.sleep(40 * time.Second)
	}
	wantMsgs(t, r.pull(sub))
	r.restart()
	sub = r.join(1, 1, codec.StartEarliest, 0)
	r.sleep(time.Minute)
	wantMsgs(t, r.pull(sub))

	twin := r.join(2, 2, codec.StartEarliest, 0)
	got := r.pull(twin)
	wantMsgs(t, got, [2]int{1, 1})
	want := codec.Origin{TopicID: 1, Partition: 0, Sequence: 1, Attempts: 5, Reason: codec.DeadNack}
	o := got[0].Origin
	if string(o.Group) != "grp" || o.TopicID != want.TopicID || o.Sequence != want.Sequence || o.Attempts != want.Attempts || o.Reason != want.Reason {
		t.Errorf("origin %+v", o)
	}
	r.nack(twin, got[0], codec.NackReject, codec.CodeDLQPathOverflow)
	r.sleep(time.Minute)
	wantMsgs(t, r.pull(twin))
	r.restart()
	twin = r.join(2, 2, codec.StartEarliest, 0)
	r.sleep(time.Minute)
	wantMsgs(t, r.pull(twin))
	for _, p := range r.core.Stats().Parts {
		for _, g := range p.Groups {
			if uint64(p.LastSeq) != g.Acked+g.Dead+g.Quarantined+g.Depth {
				t.Errorf("N1 does not hold: %+v of %+v", g, p)
			}
		}
	}
}

func TestReleaseAndRevokeFailNothing(t *testing.T) {
	r := newRig(t, nil)
	r.fill(3)
	sub := r.join(1, 1, codec.StartEarliest, 0)
	got := r.pull(sub)
	r.nack(sub, got[0], codec.NackRelease, 0)
	wantMsgs(t, r.pull(sub))
	r.sleep(100 * time.Millisecond)
	wantMsgs(t, r.pull(sub), [2]int{1, 1})
	r.core.Disown(sub, 0, false)
	r.quiet()
	if count, bytes := sub.Credit.Outstanding(); count != 0 || bytes != 0 {
		t.Errorf("outstanding %d, %d after the loss of ownership", count, bytes)
	}
	r.ack(sub, got[2], codec.CodeStaleOwner)
	next := r.join(1, 1, codec.StartEarliest, 0)
	wantMsgs(t, r.pull(next), [2]int{1, 1}, [2]int{2, 1}, [2]int{3, 1})
	r.core.Disown(next, 0, true) // lost: the attempt fails
	r.sleep(2 * time.Second)
	last := r.join(1, 1, codec.StartEarliest, 0)
	wantMsgs(t, r.pull(last), [2]int{1, 2}, [2]int{2, 2}, [2]int{3, 2})
}

func TestStartLatestAndCursorSurviveRestart(t *testing.T) {
	r := newRig(t, nil)
	r.fill(3)
	sub := r.join(1, 1, codec.StartLatest, 0)
	wantMsgs(t, r.pull(sub))
	r.restart()
	sub = r.join(1, 1, codec.StartLatest, 0)
	r.fill(1)
	wantMsgs(t, r.pull(sub), [2]int{4, 1})
}

// V1: a PULL that waits.
func TestPullWaits(t *testing.T) {
	r := newRig(t, nil)
	sub := r.join(1, 1, codec.StartEarliest, 0, 1)
	p := r.startPull(sub, func(p *flow.Pull) { p.Wait, p.MinBytes = 5*time.Second, 14 })
	r.fill(1) // 6 bytes: not enough
	r.wantUnanswered(p.Slot)
	r.sleep(time.Second)
	r.pub(1, 0, 0, "other") // the other partition counts too
	r.fill(1)
	wantMsgs(t, r.msgs(p), [2]int{1, 1}, [2]int{1, 1}, [2]int{2, 1})

	p = r.startPull(sub, func(p *flow.Pull) { p.Wait = 5 * time.Second })
	r.sleep(4999 * time.Millisecond)
	r.wantUnanswered(p.Slot)
	r.sleep(time.Millisecond)
	wantMsgs(t, r.msgs(p))
	r.wantCode(p.Slot, 0)
}

// V6: one code for each way of not fitting, and nothing is skipped.
func TestPullAndCredit(t *testing.T) {
	r := newRig(t, nil)
	r.fill(3) // 6 bytes each
	sub := r.join(1, 1, codec.StartEarliest, 0)
	sub.Credit.SetWindow(10, 5)
	p := r.startPull(sub, func(p *flow.Pull) { p.Wait = time.Second })
	r.wantCode(p.Slot, codec.CodeMessageExceedsCredit)
	if sub.Credit.Blocked.Load() != 6 {
		t.Errorf("blocked by %d bytes, want 6", sub.Credit.Blocked.Load())
	}
	sub.Credit.SetWindow(10, 13)
	got := r.pull(sub)
	wantMsgs(t, got, [2]int{1, 1}, [2]int{2, 1})
	p = r.startPull(sub, func(p *flow.Pull) { p.Wait = time.Second })
	r.wantCode(p.Slot, codec.CodeNoCredit)
	r.ack(sub, got[0], 0)
	p = r.startPull(sub, func(p *flow.Pull) { p.MaxBytes = 1 }) // larger than max_bytes: alone
	wantMsgs(t, r.msgs(p), [2]int{3, 1})
	sub.Credit.SetWindow(2, 1000)
	p = r.startPull(sub, func(p *flow.Pull) { p.Wait = time.Second })
	r.wantCode(p.Slot, codec.CodeNoCredit)
}

func TestUnsettledSpanIsBounded(t *testing.T) {
	r := newRig(t, nil)
	sub := r.join(1, 1, codec.StartEarliest, 0)
	sub.Credit.SetWindow(65535, 1<<30)
	var first codec.Msg
	delivered := 0
	for delivered < maxUnsettled {
		r.fill(4096)
		for _, m := range r.pull(sub) {
			if delivered == 0 {
				first = m
			} else {
				r.ack(sub, m, 0)
			}
			delivered++
		}
	}
	r.fill(10)
	if got := r.pull(sub); len(got) != 0 || delivered != maxUnsettled {
		t.Fatalf("%d more delivered after %d", len(got), delivered)
	}
	r.ack(sub, first, 0)
	if got := r.pull(sub); len(got) != 10 {
		t.Fatalf("%d delivered after the floor moved, want 10", len(got))
	}
}

// V5: the window never drifts, whatever the mix.
func TestCreditNeverDrifts(t *testing.T) {
	const seed = 42
	rnd := rand.New(rand.NewPCG(seed, 0))
	r := newRig(t, func(c *Config) { c.DeliveryMaxAttempts = 3; c.RetryBackoffBase = 50 * time.Millisecond })
	sub := r.join(1, 1, codec.StartEarliest, 0, 1)
	held := map[codec.DeliveryID]codec.Msg{}
	for round := range 3000 {
		switch rnd.IntN(7) {
		case 0:
			r.pub(codec.Partition(rnd.IntN(2)), 0, 0, "0123456789"[:rnd.IntN(11)])
		case 1:
			r.now += time.Duration(rnd.IntN(200)) * time.Millisecond
			r.quiet()
		case 2:
			for _, m := range r.msgs(r.startPull(sub, func(p *flow.Pull) { p.MaxMsgs = 1 + rnd.IntN(5) })) {
				held[m.DeliveryID] = m
			}
		case 3:
			sub.Credit.SetWindow(uint16(1+rnd.IntN(50)), uint32(20+rnd.IntN(300)))
		default:
			for id, m := range held {
				switch rnd.IntN(4) {
				case 0:
					r.settleRequest(codec.OpNack, sub, m, 0, uint8(rnd.IntN(4)))
				case 1:
					r.settleRequest(codec.OpAck, sub, m, codec.AckProgress, 0)
					continue
				default:
					r.settleRequest(codec.OpAck, sub, m, 0, 0)
				}
				if rnd.IntN(3) > 0 { // else it is settled again
					delete(held, id)
				}
				break
			}
		}
		var count, bytes int64
		for _, p := range r.core.topics[1] {
			for seq := p.ledgers[0].floor + 1; seq <= p.ledgers[0].cursor; seq++ {
				if s := p.ledgers[0].slot(seq); s.state == slotInFlight {
					count++
					bytes += int64(s.size)
				}
			}
		}
		if c, b := sub.Credit.Outstanding(); c != count || b != bytes {
			t.Fatalf("seed %d round %d: outstanding %d, %d bytes; in flight %d, %d bytes", seed, round, c, b, count, bytes)
		}
	}
}
