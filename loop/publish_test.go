package loop_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/mortarmq/mortarmq/codec"
	"github.com/mortarmq/mortarmq/loop"
)

// P1: each refusal beats the ones behind it.
func TestOrderOfChecksOfAPub(t *testing.T) {
	b := newBackend(t, 2)
	b.refuse = func(op codec.Op) (codec.Code, string) {
		if op == codec.OpPub {
			return codec.CodeStaleLeaderEpoch, "leader=10.0.0.1:7188"
		}
		return 0, ""
	}
	s := start(t, loop.Config{PublishRate: 1, Limits: loop.Limits{PubBytes: 1}}, b)
	p := session(t, s)
	odd := func(topic codec.TopicID, part codec.Partition, id codec.ProducerID, seq codec.ProducerSeq) []byte {
		return codec.AppendPub(nil, &codec.Pub{TopicID: topic, Partition: part, ProducerID: id, ProducerSeq: seq, Value: []byte("v")})
	}
	p.send(odd(0, 9, 0, 1), odd(5, 9, 0, 1), odd(6, 9, 0, 1), odd(999, 0, 0, 1), odd(2, 9, 0, 1), odd(1, 4, 0, 1), odd(1, 3, 0, 1), odd(1, 3, 5, 0))
	p.err(codec.OpPub, codec.CodeUnknownTopic)
	p.err(codec.OpPub, codec.CodeUnknownTopic)
	p.err(codec.OpPub, codec.CodeUnknownTopic)
	p.err(codec.OpPub, codec.CodeUnknownTopic)
	p.err(codec.OpPub, codec.CodeInvalidTopic)
	p.err(codec.OpPub, codec.CodeUnknownPartition)
	p.err(codec.OpPub, codec.CodeProducerSeqInvalid)
	if text := p.err(codec.OpPub, codec.CodeStaleLeaderEpoch); text != "leader=10.0.0.1:7188" {
		t.Errorf("the node's text became %q", text)
	}

	b = newBackend(t, 2)
	s = start(t, loop.Config{PublishRate: 1, Limits: loop.Limits{PubBytes: 30}}, b)
	p = session(t, s)
	p.send(odd(1, 0, 0, 0), odd(1, 0, 0, 0))
	b.complete(b.answer(b.next()))
	p.ok(codec.OpPub)
	p.err(codec.OpPub, codec.CodeRateLimited) // before room
}

func TestNodeStateIsSaidToEveryOp(t *testing.T) {
	b := newBackend(t, 1)
	b.refuse = func(op codec.Op) (codec.Code, string) { return codec.CodeCatchupRequired, op.String() }
	s := start(t, loop.Config{}, b)
	p := session(t, s)
	p.alive()
	for _, f := range everyOp() {
		op, _, _, _, err := codec.Cut(f)
		if err != nil || op == codec.OpPing || op == codec.OpErr || op == codec.OpOK {
			continue
		}
		p.send(f)
		if text := p.err(op, codec.CodeCatchupRequired); text != op.String() {
			t.Errorf("%v: got %q", op, text)
		}
	}
}

func TestRate(t *testing.T) {
	h, l := handClock()
	s, _ := automatic(t, loop.Config{Clock: h.clock, Limits: l, PublishRate: 10})
	h.add(time.Second)
	p := session(t, s)
	take := func(want int) {
		t.Helper()
		got := 0
		for range 15 {
			p.send(pub(1, 0, "x"))
			switch op, payload := p.next(); op {
			case codec.OpOK:
				got++
			default:
				if m, err := codec.DecodeErr(payload); err != nil || m.Code != codec.CodeRateLimited {
					t.Fatalf("got %s (%v)", describe(op, payload), err)
				}
			}
		}
		if got != want {
			t.Errorf("%d PUBs were let through, want %d", got, want)
		}
	}
	take(10)
	h.add(500 * time.Millisecond)
	take(5)
	h.add(40 * time.Second) // no more than a second's worth
	take(10)
}

// Every size and every way a PUB can arrive in brings the same bytes to the backend,
// and every chunk goes back.
func TestPubBytesArriveUnchanged(t *testing.T) {
	s, b := manual(t, loop.Config{})
	p := session(t, s)
	var frames [][]byte
	size := func(n int) {
		v := make([]byte, n)
		for i := range v {
			v[i] = byte(i*7 + n)
		}
		frames = append(frames, codec.AppendPub(nil, &codec.Pub{TopicID: 1, ProducerID: 3, ProducerSeq: codec.ProducerSeq(len(frames) + 1), Key: []byte("key"), Value: v}))
	}
	for _, n := range []int{0, 1, 100, 1000, 1000, 5000, 20_000, 60_000, 65_000, 70_000, 130_000, 131_072, 140_000, 1 << 20, 10, 3 << 20} {
		size(n)
	}
	stream := bytes.Join(frames, nil)
	for _, step := range []int{len(stream), 64 << 10, 10_007} {
		go func() {
			for rest := stream; len(rest) > 0; {
				n := min(step, len(rest))
				if _, err := p.c.Write(rest[:n]); err != nil {
					return
				}
				rest = rest[n:]
			}
		}()
		for i, f := range frames {
			j := b.next()
			if j.tail != tailOf(f) {
				t.Fatalf("step %d: PUB %d of %d bytes arrived with %d bytes, changed", step, i, len(f), len(j.tail))
			}
			b.complete(b.answer(j))
		}
		for range frames {
			p.ok(codec.OpPub)
		}
	}
	if st := s.Stats(); st.Unfinished != 0 {
		t.Errorf("%d bytes are held for unfinished frames", st.Unfinished)
	}
}

func TestTheLargestPub(t *testing.T) {
	s, b := manual(t, loop.Config{})
	p := session(t, s)
	f := codec.AppendPub(nil, &codec.Pub{TopicID: 1, Key: bytes.Repeat([]byte("k"), 255), Value: bytes.Repeat([]byte("v"), codec.MaxValueLen)})
	go p.c.Write(append(f, ping()...))
	j := b.next()
	if j.tail != tailOf(f) {
		t.Fatal("it was changed")
	}
	b.complete(b.answer(j))
	p.ok(codec.OpPub)
	p.ok(codec.OpPing)
}

func TestControlRequestsAreCopied(t *testing.T) {
	s, b := manual(t, loop.Config{})
	p := session(t, s)
	p.send(declare("name-1"), subTo(3, "group-1"))
	d, u := b.next().control, b.next().control
	p.send(bytes.Repeat([]byte(ping()), 10_000)) // overwrites the loop's buffer
	b.serveControl(d)
	b.complete(b.subOK(u, b.newSub(u, 1)))
	p.ok(codec.OpDeclare)
	p.ok(codec.OpSub)
	if got := fmt.Sprintf("%s %s %d", d.Declare.Topic, u.Sub.Group, u.Sub.TopicID); got != "name-1 group-1 3" {
		t.Errorf("got %s", got)
	}
}
