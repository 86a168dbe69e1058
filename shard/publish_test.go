package shard

import (
	"fmt"
	"testing"
	"time"

	"github.com/mortarmq/mortarmq/codec"
)

func TestPublishIsAnsweredAfterTheWrite(t *testing.T) {
	r := newRig(t, nil)
	slot := r.pub(0, 0, 0, "a")
	r.turn()
	if _, ok := r.got[slot]; ok {
		t.Fatal("answered before the write was reported")
	}
	r.quiet()
	r.wantPub(slot, 1, 0)
	if a := r.answer(slot); a.Pub.Durability != codec.DurableDisk || a.Pub.LeaderEpoch == 0 {
		t.Errorf("result %+v", a.Pub)
	}
}

// P4 in one producer's life, across a restart.
func TestPublishDeduplicates(t *testing.T) {
	r := newRig(t, nil)
	first := r.pub(0, 7, 100, "a")
	repeat := r.pub(0, 7, 100, "a") // before the commit
	second := r.pub(0, 7, 101, "b")
	gap := r.pub(0, 7, 103, "d")
	below := r.pub(0, 7, 99, "z")
	other := r.pub(0, 8, 1, "x")
	r.wantUnanswered(repeat)
	r.quiet()
	r.wantPub(first, 1, 0)
	r.wantPub(repeat, 1, codec.PubDeduped)
	r.wantPub(second, 2, 0)
	r.wantCode(gap, codec.CodeSeqGap)
	r.wantCode(below, codec.CodeSeqExpired)
	r.wantPub(other, 3, 0)

	r.restart()
	again := r.pub(0, 7, 101, "b")
	next := r.pub(0, 7, 102, "c")
	r.quiet()
	r.wantPub(again, 2, codec.PubDeduped)
	r.wantPub(next, 4, 0)
}

func (r *rig) wantUnanswered(slot uint64) {
	r.t.Helper()
	r.turn()
	if a, ok := r.got[slot]; ok {
		r.t.Fatalf("slot %d was answered before its commit: %+v", slot, a)
	}
}

func TestPublishOrderAcrossBatchesAndPartitions(t *testing.T) {
	r := newRig(t, nil)
	var slots [2][]uint64
	for i := range 500 {
		p := codec.Partition(i % 2)
		slots[p] = append(slots[p], r.pub(p, 9, codec.ProducerSeq(i/2+1), fmt.Sprint(i)))
		if i%37 == 0 {
			r.turn()
		}
	}
	r.quiet()
	for p := range slots {
		for i, slot := range slots[p] {
			r.wantPub(slot, codec.Sequence(i+1), 0)
		}
	}
	sub := r.join(1, 1, codec.StartEarliest, 0, 1)
	sub.Credit.SetWindow(1000, 2<<20)
	next := [2]int{}
	for _, m := range r.pull(sub) {
		want := fmt.Sprint(next[m.Partition]*2 + int(m.Partition))
		if string(m.Value) != want || int(m.Sequence) != next[m.Partition]+1 {
			t.Fatalf("partition %d sequence %d holds %q, want %q", m.Partition, m.Sequence, m.Value, want)
		}
		next[m.Partition]++
	}
	if next != [2]int{250, 250} {
		t.Errorf("delivered %v", next)
	}
}

func TestProducerIsForgottenAfterIdling(t *testing.T) {
	r := newRig(t, nil)
	r.pub(0, 7, 5, "a")
	r.quiet()
	r.sleep(59 * time.Minute)
	gap := r.pub(0, 7, 7, "c")
	r.quiet()
	r.wantCode(gap, codec.CodeSeqGap)
	r.sleep(3 * time.Minute)
	anew := r.pub(0, 7, 1, "b") // any number, as for an unknown one
	r.quiet()
	r.wantPub(anew, 2, 0)
	r.restart()
	r.now = 0 // the monotonic clock starts again; the age clock goes on
	repeat := r.pub(0, 7, 1, "b")
	r.quiet()
	r.wantPub(repeat, 2, codec.PubDeduped)
}

func TestDroppedTopicRefusesWhatWasStaged(t *testing.T) {
	r := newRig(t, nil)
	a := r.pub(0, 0, 0, "a")
	r.core.DropTopic(1)
	b := r.pub(0, 0, 0, "b")
	r.quiet()
	r.wantCode(a, codec.CodeUnknownTopic)
	r.wantCode(b, codec.CodeUnknownTopic)
}
