package loop_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/mortarmq/mortarmq/codec"
	"github.com/mortarmq/mortarmq/flow"
	"github.com/mortarmq/mortarmq/loop"
)

func TestAThousandRequestsInOneWrite(t *testing.T) {
	s, _ := automatic(t, loop.Config{})
	p := session(t, s)
	var all []byte
	rounds := 0
	for ; rounds*10 < 1000; rounds++ {
		all = append(all, bytes.Join(everyOp(), nil)...)
	}
	p.send(all)
	for range rounds {
		p.expectEveryOp()
	}
	p.quiet(20 * time.Millisecond)
}

// Answers come back in request order whatever order they are completed in, also
// past the limit of unanswered requests.
func TestAnswersInRequestOrder(t *testing.T) {
	for _, limit := range []int{1, 3, 64, 4096} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			seed := rand.Uint64()
			rnd := rand.New(rand.NewPCG(seed, 0))
			defer func() {
				if t.Failed() {
					t.Logf("seed %d", seed)
				}
			}()
			s, b := manual(t, loop.Config{Limits: loop.Limits{Requests: limit}})
			for range 5 {
				n := 2*min(limit, 600) + rnd.IntN(50)
				randomOrder(t, session(t, s), b, rnd, n, limit)
			}
		})
	}
}

// randomOrder sends n requests, some of which the loop answers itself, and answers
// the others in random order: stored, refused, with results and with messages.
func randomOrder(t *testing.T, p *peer, b *backend, rnd *rand.Rand, n, limit int) {
	var stream []byte
	kinds := make([]int, n)
	for i := range kinds {
		kinds[i] = rnd.IntN(6)
	}
	// The first request that needs the backend holds up all that follow.
	first := slices.IndexFunc(kinds, func(k int) bool { return k > 1 })
	over := func(i int) bool { return first >= 0 && i-first >= limit }
	pubs := 0
	for i, kind := range kinds {
		switch kind {
		case 0:
			stream = append(stream, ping()...)
		case 1:
			stream = append(stream, pub(5, 0, "")...) // deleted topic
		default:
			stream = append(stream, pub(1, codec.Partition(i%4), "v")...)
			if !over(i) {
				pubs++
			}
		}
	}
	// All slots are taken before the first answer: what exceeds the limit is known.
	p.send(stream)
	jobs := make([]job, pubs)
	for i := range jobs {
		jobs[i] = b.next()
	}
	rnd.Shuffle(len(jobs), func(i, j int) { jobs[i], jobs[j] = jobs[j], jobs[i] })
	var batch []flow.Completion
	for _, j := range jobs {
		c := b.answer(j)
		i := j.req.Slot - 1 // CONNECT was 0
		switch kinds[i] {
		case 2:
			c.Code, c.Message = codec.CodeSeqGap, fmt.Sprint(i)
		case 3:
			c.Code = codec.CodeQuorumLost
		default:
			c.Pub.Sequence = codec.Sequence(i)
		}
		batch = append(batch, c)
		if rnd.IntN(3) == 0 {
			b.srv.Complete(c.Conn.Loop, batch)
			batch = batch[:0]
		}
	}
	if len(batch) > 0 {
		b.srv.Complete(batch[0].Conn.Loop, batch)
	}
	for i, kind := range kinds {
		p.answerTo(i, kind, over(i))
	}
	p.alive()
}

func (p *peer) answerTo(i, kind int, over bool) {
	p.t.Helper()
	switch {
	case kind == 1:
		p.err(codec.OpPub, codec.CodeUnknownTopic) // P1: before room
	case over && kind == 0:
		p.err(codec.OpPing, codec.CodeBackpressure)
	case over:
		p.err(codec.OpPub, codec.CodeBackpressure)
	case kind == 0:
		p.ok(codec.OpPing)
	case kind == 2:
		if text := p.err(codec.OpPub, codec.CodeSeqGap); text != fmt.Sprint(i) {
			p.t.Fatalf("answer %d is that of slot %s", i, text)
		}
	case kind == 3:
		p.err(codec.OpPub, codec.CodeQuorumLost)
	default:
		r, err := codec.DecodePubResult(p.ok(codec.OpPub))
		if err != nil || r.Sequence != codec.Sequence(i) {
			p.t.Fatalf("answer %d is %+v (%v)", i, r, err)
		}
	}
}

// What is unanswered and what is refused are counted together: a client that overruns
// the limit all the time is refused until it has read up.
func TestTooManyUnansweredRequests(t *testing.T) {
	s, b := manual(t, loop.Config{Limits: loop.Limits{Requests: 4}})
	p := session(t, s)
	var all []byte
	for range 4 {
		all = append(all, pub(1, 0, "x")...)
	}
	all = append(all, bytes.Join([][]byte{ping(), pub(1, 0, "over"), declare("over"), subTo(1, "over"), pub(5, 0, "")}, nil)...)
	p.send(all)
	var jobs []job
	for range 4 {
		jobs = append(jobs, b.next())
	}
	slices.Reverse(jobs)
	for _, j := range jobs {
		b.complete(b.answer(j))
	}
	for range 4 {
		p.ok(codec.OpPub)
	}
	p.err(codec.OpPing, codec.CodeBackpressure)
	p.err(codec.OpPub, codec.CodeBackpressure)
	p.err(codec.OpDeclare, codec.CodeBackpressure)
	p.err(codec.OpSub, codec.CodeBackpressure)
	p.err(codec.OpPub, codec.CodeUnknownTopic) // P1: room comes last
	p.alive()
	if len(b.jobs) != 0 {
		t.Errorf("a refused request reached the backend: %v", <-b.jobs)
	}
}

func TestTooManyUnansweredBytes(t *testing.T) {
	s, b := manual(t, loop.Config{Limits: loop.Limits{PubBytes: 1000}})
	p := session(t, s)
	f := pub(1, 0, string(make([]byte, 300)))
	p.send(f, f, f, f)
	var jobs []job
	for range 3 {
		jobs = append(jobs, b.next())
	}
	for _, j := range jobs {
		b.complete(b.answer(j))
		p.ok(codec.OpPub)
	}
	p.err(codec.OpPub, codec.CodeBackpressure)
	for range 10 { // the bytes are free again
		p.send(f)
		b.complete(b.answer(b.next()))
		p.ok(codec.OpPub)
	}
}

// A client that sends for ever and whose requests are never answered is closed
// before it costs more than S8 allows.
func TestEndlessRefusalsAreBounded(t *testing.T) {
	s, b := manual(t, loop.Config{Limits: loop.Limits{Requests: 8, Outbound: 1 << 20}})
	p := session(t, s)
	p.send(pub(1, 0, "never answered"))
	b.next()
	flood := bytes.Repeat(ping(), 10_000)
	go func() {
		for {
			if _, err := p.c.Write(flood); err != nil {
				return
			}
		}
	}()
	p.err(0, codec.CodeSlowConsumer)
	b.nextClosed()
	if st := s.Stats(); st.Closed["slow_consumer"] == 0 {
		eventually(t, "closed as a slow consumer", func() bool { return s.Stats().Closed["slow_consumer"] == 1 })
	}
}

// The shard's refusal keeps its place.
func TestAFullShardRefusesInTurn(t *testing.T) {
	s, b := manual(t, loop.Config{})
	p := session(t, s)
	b.room.Store(2)
	p.send(pub(3, 0, "a"), pub(3, 0, "b"), pub(3, 0, "c"), ping(), pub(3, 0, "d"))
	x, y := b.next(), b.next()
	b.complete(b.answer(y), b.answer(x))
	p.ok(codec.OpPub)
	p.ok(codec.OpPub)
	p.err(codec.OpPub, codec.CodeBackpressure)
	p.ok(codec.OpPing)
	p.err(codec.OpPub, codec.CodeBackpressure)
	b.noRoom.Store(true)
	p.send(declare("x"), ping())
	p.err(codec.OpDeclare, codec.CodeBackpressure)
	p.ok(codec.OpPing)
}

// A second answer to one request is a bug of the broker: the session ends, the
// others do not notice.
func TestASecondAnswerEndsTheSession(t *testing.T) {
	s, b := manual(t, loop.Config{Reactors: 1})
	for _, late := range []bool{false, true} {
		p, q := session(t, s), session(t, s)
		p.send(pub(1, 0, "x"), pub(1, 0, "y"))
		x, y := b.next(), b.next()
		if late {
			b.complete(b.answer(x), b.answer(x))
			p.ok(codec.OpPub)
		} else {
			b.complete(b.answer(y), b.answer(y))
		}
		// The missing answer never comes; the deadline would end it.
		if late {
			b.complete(b.answer(y))
			p.ok(codec.OpPub)
			p.refused(codec.OpPub, codec.CodeInternal)
		} else {
			b.complete(b.answer(x))
			p.ok(codec.OpPub)
			p.ok(codec.OpPub)
			p.refused(codec.OpPub, codec.CodeInternal)
		}
		q.alive()
		b.nextClosed()
	}
}
