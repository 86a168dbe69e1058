package shard

import (
	"math/rand/v2"
	"testing"

	"github.com/mortarmq/mortarmq/codec"
)

func TestWindowRules(t *testing.T) {
	var w window
	w.add(500, 1) // the first may carry any number
	for n := codec.ProducerSeq(501); n <= 2500; n++ {
		if v, _ := w.judge(n); v != verdictStore {
			t.Fatalf("number %d: verdict %d, want store", n, v)
		}
		w.add(n, codec.Sequence(n-499))
	}
	tests := []struct {
		n    codec.ProducerSeq
		want verdict
		seq  codec.Sequence
	}{
		{2501, verdictStore, 0},
		{2502, verdictGap, 0},
		{1 << 63, verdictGap, 0},
		{2500, verdictRepeat, 2001},
		{2500 - 1023, verdictRepeat, 2001 - 1023},
		{2500 - 1024, verdictExpired, 0},
		{500, verdictExpired, 0},
		{499, verdictExpired, 0},
		{0, verdictExpired, 0},
	}
	for _, tt := range tests {
		if v, seq := w.judge(tt.n); v != tt.want || seq != tt.seq {
			t.Errorf("number %d: verdict %d sequence %d, want %d and %d", tt.n, v, seq, tt.want, tt.seq)
		}
	}
}

func TestWindowEndsAtTheLargestNumber(t *testing.T) {
	const largest = codec.ProducerSeq(1<<64 - 1)
	var w window
	w.add(largest-1, 1)
	w.add(largest, 2)
	if v, _ := w.judge(0); v != verdictExpired {
		t.Errorf("0 after the largest number: verdict %d, want expired", v)
	}
	if v, seq := w.judge(largest); v != verdictRepeat || seq != 2 {
		t.Errorf("the largest number again: verdict %d sequence %d, want repeat of 2", v, seq)
	}
}

func TestWindowBelowFirstIsExpired(t *testing.T) {
	var w window
	w.add(10, 1)
	w.add(11, 2)
	if v, _ := w.judge(9); v != verdictExpired {
		t.Errorf("a number below the producer's first: verdict %d, want expired", v)
	}
	if v, seq := w.judge(10); v != verdictRepeat || seq != 1 {
		t.Errorf("the first number: verdict %d sequence %d, want repeat of 1", v, seq)
	}
}

// The window against a map, with other producers' messages in between.
func TestWindowMatchesModel(t *testing.T) {
	const seed = 1
	rnd := rand.New(rand.NewPCG(seed, 0))
	var w window
	stored := map[codec.ProducerSeq]codec.Sequence{}
	next, seq := codec.ProducerSeq(rnd.Uint64N(5000)), codec.Sequence(0)
	first := next
	for range 6000 {
		seq += 1 + codec.Sequence(rnd.Uint64N(3))
		w.add(next, seq)
		stored[next] = seq
		last := next
		next++
		probe := first + codec.ProducerSeq(rnd.Uint64N(uint64(next-first)+3))
		v, got := w.judge(probe)
		switch {
		case probe == last+1:
			if v != verdictStore {
				t.Fatalf("seed %d: %d after %d: verdict %d", seed, probe, last, v)
			}
		case probe > last:
			if v != verdictGap {
				t.Fatalf("seed %d: %d after %d: verdict %d", seed, probe, last, v)
			}
		case last-probe >= windowSize:
			if v != verdictExpired {
				t.Fatalf("seed %d: %d after %d: verdict %d", seed, probe, last, v)
			}
		default:
			if v != verdictRepeat || got != stored[probe] {
				t.Fatalf("seed %d: %d after %d: verdict %d sequence %d, want %d", seed, probe, last, v, got, stored[probe])
			}
		}
	}
}
