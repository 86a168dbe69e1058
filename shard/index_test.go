package shard

import (
	"math/rand/v2"
	"testing"

	"github.com/mortarmq/mortarmq/codec"
	mlog "github.com/mortarmq/mortarmq/log"
)

// The index against a plain list of runs.
func TestIndexMatchesModel(t *testing.T) {
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		var x seqIndex
		var model []run
		seq, index := codec.Sequence(1), mlog.Index(0)
		for range rnd.IntN(1000) {
			index += 1 + mlog.Index(rnd.IntN(300))
			r := run{seq, index, rnd.IntN(1 << 22)}
			model = append(model, r)
			x.add(r.first, r.index, r.off)
			seq += 1 + codec.Sequence(rnd.IntN(200))
		}
		last := seq - 1
		for i, r := range model {
			end := last
			if i+1 < len(model) {
				end = model[i+1].first - 1
			}
			probe := r.first + codec.Sequence(rnd.Uint64N(uint64(end-r.first)+1))
			got, ok := x.find(probe, last)
			if want := (readPos{r.first, end, r.index, r.off}); !ok || got != want {
				t.Fatalf("seed %d: find(%d) = %+v %t, want %+v", seed, probe, got, ok, want)
			}
		}
		if _, ok := x.find(last+1, last); ok {
			t.Fatalf("seed %d: found a sequence above the last", seed)
		}
		if _, ok := x.find(0, last); ok {
			t.Fatalf("seed %d: found sequence 0", seed)
		}
	}
}

func BenchmarkIndexFind(b *testing.B) {
	var x seqIndex
	for i := range 1_000_000 {
		x.add(codec.Sequence(i*64+1), mlog.Index(i+1), 1000)
	}
	n := 0
	for _, c := range x.chunks {
		n += cap(c.more)
	}
	for i := 0; b.Loop(); i++ {
		if _, ok := x.find(codec.Sequence(i*7919%64_000_000+1), 64_000_000); !ok {
			b.Fatal("not found")
		}
	}
	b.ReportMetric(float64(n)/1e6, "B/run")
}
