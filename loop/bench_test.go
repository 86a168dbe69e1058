package loop_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"testing"

	"github.com/mortarmq/mortarmq/codec"
	"github.com/mortarmq/mortarmq/flow"
	"github.com/mortarmq/mortarmq/loop"
)

// echo is a backend that answers whole batches: a shard without work.
type echo struct {
	topics *flow.Topics
	srv    *loop.Server
	mu     sync.Mutex
	box    []flow.Request
	bell   chan struct{}
	quit   chan struct{}
}

func newEcho() *echo {
	return &echo{topics: table(1), bell: make(chan struct{}, 1), quit: make(chan struct{})}
}

func (e *echo) Topics() *flow.Topics                  { return e.topics }
func (e *echo) Pull(*flow.Pull)                       {}
func (e *echo) Control(flow.Control) bool             { return false }
func (e *echo) Closed(*flow.Conn)                     {}
func (e *echo) Refusal(codec.Op) (codec.Code, string) { return 0, "" }
func (e *echo) Submit(_ int, reqs []flow.Request) int {
	e.mu.Lock()
	e.box = append(e.box, reqs...)
	e.mu.Unlock()
	select {
	case e.bell <- struct{}{}:
	default:
	}
	return len(reqs)
}

func (e *echo) run(reactors int) {
	var spare []flow.Request
	out := make([][]flow.Completion, reactors)
	var seq codec.Sequence
	for {
		select {
		case <-e.bell:
		case <-e.quit:
			return
		}
		e.mu.Lock()
		box := e.box
		e.box = spare[:0]
		e.mu.Unlock()
		for i := range box {
			q := &box[i]
			q.Chunk.Release(1)
			seq++
			out[q.Conn.Loop] = append(out[q.Conn.Loop], flow.Completion{Conn: q.Conn, Slot: q.Slot, Op: q.Op,
				Pub: codec.PubResult{Sequence: seq, CommitSeq: seq}})
		}
		for i := range out {
			if len(out[i]) > 0 {
				e.srv.Complete(i, out[i])
				out[i] = out[i][:0]
			}
		}
		spare = box
	}
}

// BenchmarkPublish is PUB → OK without a shard behind it; client and server share
// the machine.
func BenchmarkPublish(b *testing.B) {
	for _, c := range []struct{ size, conns, window int }{{1024, 8, 64}, {1024, 8, 512}, {64, 8, 64}, {64, 8, 512}, {16 << 10, 8, 64}, {1024, 1, 1}} {
		b.Run(fmt.Sprintf("%dB-%dx%d", c.size, c.conns, c.window), func(b *testing.B) {
			e := newEcho()
			s, err := loop.Listen(loop.Config{Listen: "127.0.0.1:0", Reactors: 1}, e)
			if err != nil {
				b.Fatal(err)
			}
			e.srv = s
			go e.run(1)
			defer close(e.quit)
			defer s.Close()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			b.ResetTimer()
			b.SetBytes(int64(c.size))
			var wg sync.WaitGroup
			for range c.conns {
				wg.Add(1)
				go func() {
					defer wg.Done()
					if err := pump(s.Addr().String(), c.size, c.window, b.N/c.conns+1); err != nil {
						b.Error(err)
					}
				}()
			}
			wg.Wait()
			b.StopTimer()
			runtime.ReadMemStats(&after)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msgs/s")
			b.ReportMetric(float64(after.Mallocs-before.Mallocs)/float64(b.N), "allocs/msg")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// pump keeps window PUBs under way until n are answered.
func pump(addr string, size, window, n int) error {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.Write(connect("")); err != nil {
		return err
	}
	answer := make([]byte, 64<<10)
	if _, err := io.ReadFull(c, answer[:10]); err != nil {
		return err
	}
	const okSize = 36
	frame := pub(1, 0, string(make([]byte, size)))
	frames := bytes.Repeat(frame, window)
	sent, got, rest := 0, 0, 0
	for got < n {
		if k := min(window-(sent-got), n-sent); k > 0 {
			if _, err := c.Write(frames[:k*len(frame)]); err != nil {
				return err
			}
			sent += k
		}
		k, err := c.Read(answer)
		if err != nil {
			return err
		}
		rest += k
		got += rest / okSize
		rest %= okSize
	}
	return nil
}
