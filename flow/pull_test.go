package flow

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mortarmq/mortarmq/codec"
)

// A PULL has one holder at a time and is completed once, whoever has news, parks
// it or cancels it at the same moment.
func TestPullIsCompletedOnce(t *testing.T) {
	for range 2000 {
		p := &Pull{}
		var held, completed atomic.Int32
		hold := func(f func()) {
			if held.Add(1) != 1 {
				t.Error("two hold the token")
			}
			f()
		}
		// go on until it is parked, or answered because it was cancelled
		serve := func() {
			for {
				if p.Cancelled() {
					completed.Add(1)
					return // the token is never given up again
				}
				p.TakeNews()
				held.Add(-1)
				if p.Park() {
					return
				}
				held.Add(1)
			}
		}
		var wg sync.WaitGroup
		wg.Go(func() { hold(serve) })
		for range 2 {
			wg.Go(func() {
				for range 5 {
					if p.News() {
						hold(serve)
					}
				}
			})
		}
		wg.Go(func() {
			if p.Cancel() {
				hold(func() { completed.Add(1) })
			}
		})
		wg.Wait()
		if completed.Load() != 1 {
			t.Fatalf("completed %d times", completed.Load())
		}
	}
}

func TestChunkReturnsWithTheLastReference(t *testing.T) {
	c := NewChunk()
	c.Retain(3)
	c.Release(1)
	c.Release(2)
	if c.Buf == nil {
		t.Fatal("the buffer is gone while a reference is left")
	}
	c.Release(1)
	if c.Buf != nil {
		t.Fatal("the buffer was not given back")
	}
	defer func() {
		if recover() == nil {
			t.Error("a reference too many was given back without a word")
		}
	}()
	c.Release(1)
}

func TestShardOfKeepsTwinsTogether(t *testing.T) {
	for shards := 1; shards <= 8; shards++ {
		for id := 1; id < 100; id += 2 {
			for part := range 16 {
				a, b := ShardOf(codec.TopicID(id), codec.Partition(part), shards), ShardOf(codec.TopicID(id+1), codec.Partition(part), shards)
				if a != b || a < 0 || a >= shards {
					t.Fatalf("topic %d partition %d of %d shards: %d, its twin %d", id, part, shards, a, b)
				}
			}
		}
	}
}
