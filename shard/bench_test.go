package shard

import (
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/mortarmq/mortarmq/codec"
	"github.com/mortarmq/mortarmq/env"
	"github.com/mortarmq/mortarmq/flow"
	mlog "github.com/mortarmq/mortarmq/log"
)

// echoReplies stands for the loop: each answer makes its connection send the next PUB.
type echoReplies struct {
	mu   sync.Mutex
	in   []flow.Completion
	bell chan struct{}
}

func (e *echoReplies) Complete(_ int, batch []flow.Completion) {
	e.mu.Lock()
	e.in = append(e.in, batch...)
	e.mu.Unlock()
	select {
	case e.bell <- struct{}{}:
	default:
	}
}
func (e *echoReplies) Notify(int, []flow.Notice)  {}
func (e *echoReplies) Revoked(*flow.Subscription) {}

// A shard with its log on disk and a fixed number of PUBs in flight: what the
// broker could do if the network cost nothing.
func BenchmarkPublish(b *testing.B) {
	for _, load := range []struct{ inFlight, size int }{{512, 1024}, {4096, 1024}, {512, 64}, {4096, 64}} {
		b.Run(fmt.Sprintf("inflight=%d/size=%d", load.inFlight, load.size), func(b *testing.B) {
			benchPublish(b, load.inFlight, load.size)
		})
	}
}

func benchPublish(b *testing.B, inFlight, size int) {
	e := &echoReplies{bell: make(chan struct{}, 1)}
	s, err := Open(Options{
		Config: Config{Shards: 1, DeliveryLease: time.Second, DeliveryMaxAttempts: 5, Durability: 1, Logger: slog.New(slog.DiscardHandler)},
		Log:    mlog.Options{Dir: b.TempDir(), FS: env.OS()}, Clock: env.SystemClock(), Reactors: 1, Replies: e,
		Failed: func(_ int, err error) { b.Error(err) },
	})
	if err != nil {
		b.Fatal(err)
	}
	s.Do(func(c *Core) { c.AddTopic(1, 4) })
	s.Run()
	<-s.Ready()
	frame := codec.AppendPub(nil, &codec.Pub{TopicID: 1, ProducerID: 7, ProducerSeq: 1, Value: make([]byte, size)})
	conn := &flow.Conn{ID: 1}
	seqs := [4]codec.ProducerSeq{}
	sent, slot := 0, uint64(0)
	var reqs []flow.Request
	send := func(n int) {
		n = min(n, b.N-sent)
		if n == 0 {
			return
		}
		sent += n
		chunk := flow.NewChunk()
		chunk.Buf.Write(frame)
		m, _ := codec.DecodePub(chunk.Buf.B[codec.HeaderLen:])
		chunk.Retain(n - 1)
		reqs = reqs[:0]
		for range n {
			part := codec.Partition(slot % 4)
			seqs[part]++
			slot++
			reqs = append(reqs, flow.Request{Conn: conn, Slot: slot, Op: codec.OpPub, Topic: 1, Partition: part, ProducerID: 7, ProducerSeq: seqs[part], Tail: m.Tail, Chunk: chunk})
		}
		if s.Submit(reqs) != n {
			b.Error("the mailbox is full")
		}
	}
	b.SetBytes(int64(size))
	b.ReportAllocs()
	b.ResetTimer()
	send(inFlight)
	var batch []flow.Completion
	for done := 0; done < b.N; {
		<-e.bell
		e.mu.Lock()
		batch, e.in = e.in, batch[:0]
		e.mu.Unlock()
		for i := range batch {
			if batch[i].Code != 0 {
				b.Fatal(batch[i].Code)
			}
		}
		done += len(batch)
		send(len(batch))
	}
	b.StopTimer()
	var st Stats
	s.Ask(func(c *Core) { st = c.Stats() })
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
	b.ReportMetric(float64(st.Log.Syncs)/b.Elapsed().Seconds(), "fsync/s")
	b.ReportMetric(float64(st.Log.SyncedBytes)/float64(st.Log.Syncs), "B/fsync")
	if err := s.Stop(); err != nil {
		b.Fatal(err)
	}
}
