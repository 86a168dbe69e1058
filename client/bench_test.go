package client

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"

	"github.com/mortarmq/mortarmq/codec"
)

// echo is a server that answers every PUB as stored at once, and is as fast as
// a loop over one buffer can be: what remains is the client's cost.
type echo struct {
	ln net.Listener
	wg sync.WaitGroup
}

func newEcho(tb testing.TB) *echo {
	tb.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	e := &echo{ln: ln}
	e.wg.Add(1)
	go func() {
		defer e.wg.Done()
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			e.wg.Add(1)
			go func() {
				defer e.wg.Done()
				defer nc.Close()
				e.serve(nc)
			}()
		}
	}()
	tb.Cleanup(func() { ln.Close(); e.wg.Wait() })
	return e
}

func (e *echo) serve(nc net.Conn) {
	in, have := make([]byte, 256<<10), 0
	var out []byte
	var seq codec.Sequence
	for {
		n, err := nc.Read(in[have:])
		if err != nil {
			return
		}
		have += n
		used := 0
		out = out[:0]
		for {
			op, payload, n, _, _ := codec.Cut(in[used:have])
			if n == 0 {
				break
			}
			used += n
			switch op {
			case codec.OpPub:
				seq++
				out = codec.AppendPubOK(out, &codec.PubResult{Sequence: seq, Durability: 1, CommitSeq: seq})
			case codec.OpDeclare:
				d, _ := codec.DecodeDeclare(payload)
				if d.PartitionCount == neverCount {
					out = codec.AppendErrCode(out, codec.CodeTopicExistsMismatch, uint8(op), "")
					continue
				}
				result := codec.AppendDeclareResult(nil, &codec.DeclareResult{TopicID: 1, PartitionCount: 8, Created: codec.CreatedExisted})
				out = codec.AppendOK(out, &codec.OK{RequestOp: op, Result: result})
			default:
				out = codec.AppendEmptyOK(out, op)
			}
		}
		have = copy(in, in[used:have])
		if _, err := nc.Write(out); err != nil {
			return
		}
	}
}

// One publisher, pipelined, against a server that answers at once.
func BenchmarkPublishAsync(b *testing.B) {
	for _, size := range []int{64, 1024, 16 << 10} {
		for _, window := range []int{64, 512} {
			b.Run(fmt.Sprintf("size=%d/window=%d", size, window), func(b *testing.B) {
				c, err := Dial(context.Background(), []string{newEcho(b).ln.Addr().String()}, Options{})
				if err != nil {
					b.Fatal(err)
				}
				defer c.Close()
				p := newProducer(b, c, "orders", ProducerOptions{MaxInFlight: window})
				failed := 0
				report := func(_ Receipt, err error) {
					if err != nil {
						failed++
					}
				}
				m := Message{Value: make([]byte, size)}
				ctx := context.Background()
				p.PublishAsync(ctx, m, report)
				flushed(b, p)
				b.SetBytes(int64(size))
				b.ReportAllocs()
				b.ResetTimer()
				for range b.N {
					p.PublishAsync(ctx, m, report)
				}
				flushed(b, p)
				b.StopTimer()
				if failed > 0 {
					b.Fatalf("%d failed", failed)
				}
			})
		}
	}
}

// The path from a message to its frame and from its answer to its report,
// without a network.
func BenchmarkEncodePath(b *testing.B) {
	p, c, ok := encodePath(1024)
	b.ReportAllocs()
	for range b.N {
		p.PublishAsync(context.Background(), Message{Value: ok.value}, ok.report)
		ok.answer(p, c)
	}
}

// encodeRig is a producer whose connection is never started.
type encodeRig struct {
	value  []byte
	frame  []byte
	report func(Receipt, error)
	link   *producerLink
	chunk  *chunk
}

func encodePath(size int) (*Producer, *conn, *encodeRig) {
	d := &dialer{opts: Options{}.withDefaults()}
	p := &Producer{
		d: d, opts: ProducerOptions{}.withDefaults(), auto: true,
		topic: Topic{ID: 1, Partitions: 1},
		win:   newWindow(64, 1<<20), lanes: []lane{{head: none, tail: none, unsent: none, id: 7}},
		room: make(chan struct{}, 1), wake: make(chan struct{}, 1),
	}
	c := newConn(nil, "", d, &p.mu, nil)
	p.conn = c
	rig := &encodeRig{
		value: make([]byte, size), chunk: &chunk{}, link: &producerLink{p: p, conn: c},
		frame:  codec.AppendPubOK(nil, &codec.PubResult{Sequence: 1, CommitSeq: 1}),
		report: func(Receipt, error) {},
	}
	return p, c, rig
}

// answer has the broker's OK arrive and the written bytes be taken.
func (r *encodeRig) answer(p *Producer, c *conn) {
	c.out = c.out[:0]
	f := frames{buf: r.frame, chunk: r.chunk}
	if err := r.link.receive(&f); err != nil {
		panic(err)
	}
}

func TestPublishingAllocatesNothingPerMessage(t *testing.T) {
	p, c, rig := encodePath(1024)
	n := testing.AllocsPerRun(1000, func() {
		p.PublishAsync(context.Background(), Message{Value: rig.value}, rig.report)
		rig.answer(p, c)
	})
	if n > 0 {
		t.Errorf("%v allocations per message", n)
	}
}
