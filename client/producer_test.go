package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"sync"
	"testing"
	"time"

	"github.com/mortarmq/mortarmq/codec"
)

// fast are options with which retries take milliseconds.
func fast() Options {
	return Options{RetryBackoffMin: time.Millisecond, RetryBackoffMax: 10 * time.Millisecond, RequestTimeout: 5 * time.Second}
}

func dialFake(t testing.TB, b *fakeBroker) *Client {
	t.Helper()
	c, err := Dial(t.Context(), []string{b.addr}, fast())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil && !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	})
	return c
}

func newProducer(t testing.TB, c *Client, topic string, o ProducerOptions) *Producer {
	t.Helper()
	p, err := c.NewProducer(t.Context(), topic, o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func flushed(t testing.TB, p *Producer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := p.Flush(ctx); err != nil {
		t.Fatalf("Flush: %v", err)
	}
}

func closed(t testing.TB, p *Producer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := p.Close(ctx); err != nil {
		t.Fatalf("Close: %v", err)
	}
}

// onNth has the faults happen to the PUBs of these numbers, counting all PUBs from 1.
func onNth(faults map[int]fault) func(r *fakeRequest) fault {
	n := 0
	return func(r *fakeRequest) fault {
		if r.op != codec.OpPub {
			return fault{}
		}
		n++
		return faults[n]
	}
}

func TestProducerRecoversFromFaults(t *testing.T) {
	cases := map[string]struct {
		hook   func(r *fakeRequest) fault
		failed int  // messages that must be reported with an error
		lossy  bool // a cut may swallow the refusal: then fewer fail
	}{
		"nothing goes wrong":              {hook: nil},
		"first message of all refused":    {hook: onNth(map[int]fault{1: {code: codec.CodeBackpressure}})},
		"refused in the middle":           {hook: onNth(map[int]fault{100: {code: codec.CodeBackpressure}})},
		"refused again and again":         {hook: onNth(map[int]fault{100: {code: codec.CodeRateLimited}, 130: {code: codec.CodeStorageHighWatermark}, 300: {code: codec.CodeReadOnlyDegraded}, 301: {code: codec.CodeReadOnlyDegraded}})},
		"cut before the first answer":     {hook: onNth(map[int]fault{1: {cutBefore: true}})},
		"cut after the first":             {hook: onNth(map[int]fault{1: {cutAfter: true}})},
		"cut before serving":              {hook: onNth(map[int]fault{200: {cutBefore: true}})},
		"cut before answering":            {hook: onNth(map[int]fault{200: {cutAfter: true}, 250: {cutAfter: true}, 251: {cutAfter: true}})},
		"old requests are served late":    {hook: onNth(map[int]fault{70: {late: 20 * time.Millisecond}, 400: {late: 5 * time.Millisecond}})},
		"a final refusal, then late":      {hook: onNth(map[int]fault{100: {code: codec.CodeMutationNotPackable}, 102: {late: 20 * time.Millisecond}}), failed: 1, lossy: true},
		"quorum lost":                     {hook: onNth(map[int]fault{77: {code: codec.CodeQuorumLost}, 78: {code: codec.CodeLeaseExpired}})},
		"internal once":                   {hook: onNth(map[int]fault{50: {code: codec.CodeInternal}})},
		"a final refusal":                 {hook: onNth(map[int]fault{100: {code: codec.CodeMutationNotPackable}}), failed: 1},
		"final refusals, also of the 1st": {hook: onNth(map[int]fault{1: {code: codec.CodeInvalidTopic}, 2: {code: codec.CodeInvalidTopic}, 120: {code: codec.CodeInvalidTopic}, 160: {code: codec.CodeInvalidTopic}}), failed: 4},
		"a final refusal, then a cut":     {hook: onNth(map[int]fault{100: {code: codec.CodeMutationNotPackable}, 104: {cutAfter: true}}), failed: 1, lossy: true},
		"a closing refusal":               {hook: onNth(map[int]fault{100: {code: codec.CodeMalformedPayload}, 101: {cutBefore: true}}), failed: 1, lossy: true},
		"an error that answers nothing":   {hook: onNth(map[int]fault{100: {raw: codec.AppendErrCode(nil, codec.CodeSlowConsumer, 0, "")}})},
		"an answer to something else":     {hook: onNth(map[int]fault{100: {raw: codec.AppendEmptyOK(nil, codec.OpAck)}})},
		"no frame at all":                 {hook: onNth(map[int]fault{100: {raw: []byte("HTTP/1.1 400 Bad Request\r\n\r\n")}})},
		"a malformed result":              {hook: onNth(map[int]fault{100: {raw: codec.AppendEmptyOK(nil, codec.OpPub)}})},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newFakeBroker(t)
			b.addTopic("orders", 3)
			p := newProducer(t, dialFake(t, b), "orders", ProducerOptions{MaxInFlight: 64})
			b.setHook(c.hook)
			j := newJudge(t)
			for i := range 600 {
				m, report := j.next(codec.Partition(i % 3))
				p.PublishAsync(t.Context(), m, report)
			}
			flushed(t, p)
			_, failed := j.check(b, "orders", true)
			if failed != c.failed && !(c.lossy && failed < c.failed) {
				t.Errorf("%d messages failed, want %d; first: %v", failed, c.failed, j.firstError())
			}
			closed(t, p)
		})
	}
}

// Random faults, one seed after the other: whatever happens, the judge agrees.
func TestProducerUnderRandomFaults(t *testing.T) {
	for seed := range int64(12) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewSource(seed))
			b := newFakeBroker(t)
			b.addTopic("orders", 4)
			window := []int{1, 8, 64, 3000}[seed%4]
			p := newProducer(t, dialFake(t, b), "orders", ProducerOptions{MaxInFlight: window, MaxInFlightBytes: 20_000})
			codes := []codec.Code{
				codec.CodeBackpressure, codec.CodeRateLimited, codec.CodeQuorumLost, codec.CodeInternal,
				codec.CodeMutationNotPackable, codec.CodeReadOnlyDegraded, codec.CodeUnknownPartition,
			}
			b.setHook(func(r *fakeRequest) fault {
				if r.op != codec.OpPub || rnd.Intn(40) != 0 {
					return fault{}
				}
				switch rnd.Intn(5) {
				case 0:
					return fault{cutBefore: true}
				case 1:
					return fault{cutAfter: true}
				case 2:
					return fault{late: time.Duration(1+rnd.Intn(10)) * time.Millisecond}
				default:
					return fault{code: codes[rnd.Intn(len(codes))]}
				}
			})
			j := newJudge(t)
			for i := range 1500 {
				m, report := j.next(codec.Partition(i % 4))
				p.PublishAsync(t.Context(), m, report)
			}
			flushed(t, p)
			stored, failed := j.check(b, "orders", true)
			if stored == 0 {
				t.Errorf("nothing was stored, %d failed; first: %v", failed, j.firstError())
			}
			closed(t, p)
		})
	}
}

// The caller's numbers: a broken run is started again from its beginning.
func TestProducerWithIDRepeatsARun(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("lines", 2)
	c := dialFake(t, b)
	const total = 5000
	run := func(upTo int) (stored, duplicates, repeats, failed int) {
		p := newProducer(t, c, "lines", ProducerOptions{ProducerID: 42, MaxInFlight: 3000})
		var mu sync.Mutex
		for i := range upTo {
			part := codec.Partition(i % 2)
			m := Message{Value: fmt.Appendf(nil, "line %d", i)}
			p.PublishSeq(t.Context(), part, codec.ProducerSeq(i/2+1), m, func(r Receipt, err error) {
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil && r.Duplicate:
					duplicates++
				case err == nil:
					stored++
				case errors.Is(err, ErrRepeat):
					repeats++
				default:
					failed++
					t.Error(err)
				}
			})
		}
		closed(t, p)
		return
	}
	if stored, _, _, _ := run(3000); stored != 3000 {
		t.Fatalf("the first run stored %d", stored)
	}
	b.setHook(onNth(map[int]fault{1000: {cutAfter: true}, 3500: {code: codec.CodeBackpressure}}))
	stored, duplicates, repeats, failed := run(total)
	if stored+duplicates+repeats != total || failed != 0 {
		t.Errorf("the second run reported %d stored, %d duplicates, %d repeats, %d failed", stored, duplicates, repeats, failed)
	}
	for part := range 2 {
		log := b.stored("lines", part)
		if len(log) != total/2 {
			t.Errorf("partition %d holds %d lines, want %d", part, len(log), total/2)
		}
		for i, m := range log {
			if want := fmt.Sprintf("line %d", 2*i+part); m.value != want {
				t.Fatalf("partition %d, sequence %d is %q, want %q", part, i+1, m.value, want)
			}
		}
	}
}

// More messages of one partition than the broker's dedup window remembers must
// never be unanswered at a time: else a repeat could not be recognised.
func TestInFlightOfAPartitionStaysWithinTheDedupWindow(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("orders", 1)
	p := newProducer(t, dialFake(t, b), "orders", ProducerOptions{MaxInFlight: 3000})
	if _, err := p.Publish(t.Context(), Message{}); err != nil {
		t.Fatal(err)
	}
	served := 0
	b.setHook(func(r *fakeRequest) fault {
		if r.op == codec.OpPub {
			served++
			return fault{silent: true}
		}
		return fault{}
	})
	j := newJudge(t)
	for range 3000 {
		m, report := j.next(0)
		p.PublishAsync(t.Context(), m, report)
	}
	until(t, "a full dedup window", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return served >= dedupWindow
	})
	p.mu.Lock()
	sent := p.wire.n
	p.mu.Unlock()
	if sent != dedupWindow {
		t.Errorf("%d messages are unanswered, want %d", sent, dedupWindow)
	}
	b.setHook(nil)
	b.cutAll()
	flushed(t, p)
	for _, reports := range j.reports {
		if len(reports) != 1 || reports[0].err != nil {
			t.Fatalf("reports: %v", reports)
		}
	}
	if n := len(b.stored("orders", 0)); n != 3001 {
		t.Errorf("%d messages are stored, want 3001", n)
	}
}

func TestPublishNumbersCallsWhenTheIDIsTheCallers(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("orders", 1)
	c := dialFake(t, b)
	for round := range 2 {
		p := newProducer(t, c, "orders", ProducerOptions{ProducerID: 7})
		for i := range 3 {
			r, err := p.Publish(t.Context(), Message{Value: []byte{byte('a' + i)}})
			if err != nil || r.ProducerSeq != codec.ProducerSeq(i+1) || r.ProducerID != 7 || r.Duplicate != (round == 1) {
				t.Errorf("round %d, call %d: %+v, %v", round, i, r, err)
			}
		}
		closed(t, p)
	}
	if n := len(b.stored("orders", 0)); n != 3 {
		t.Errorf("%d messages are stored, want 3", n)
	}
}

// A hole in the caller's numbers is the caller's: the message fails, and is no
// consequence of anything.
func TestPublishSeqReportsAGap(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("orders", 1)
	p := newProducer(t, dialFake(t, b), "orders", ProducerOptions{ProducerID: 7})
	results := make(map[codec.ProducerSeq]error)
	var mu sync.Mutex
	for _, seq := range []codec.ProducerSeq{1, 2, 4, 3, 4} {
		p.PublishSeq(t.Context(), 0, seq, Message{Value: []byte("x")}, func(r Receipt, err error) {
			mu.Lock()
			defer mu.Unlock()
			results[r.ProducerSeq] = errors.Join(results[r.ProducerSeq], err)
		})
	}
	flushed(t, p)
	if CodeOf(results[4]) != codec.CodeSeqGap {
		t.Errorf("number 4 before 3: %v", results[4])
	}
	if err := errors.Join(results[1], results[2], results[3]); err != nil {
		t.Error(err)
	}
	if n := len(b.stored("orders", 0)); n != 4 {
		t.Errorf("%d messages are stored, want 4", n)
	}
}

func TestNonIdempotentNeverResendsWhatMayBeStored(t *testing.T) {
	for _, f := range []fault{{cutAfter: true}, {cutBefore: true}, {code: codec.CodeQuorumLost}, {code: codec.CodeInternal}} {
		b := newFakeBroker(t)
		b.addTopic("orders", 2)
		p := newProducer(t, dialFake(t, b), "orders", ProducerOptions{NonIdempotent: true, MaxInFlight: 32})
		b.setHook(onNth(map[int]fault{50: f, 80: {code: codec.CodeBackpressure}}))
		j := newJudge(t)
		for i := range 300 {
			m, report := j.next(codec.Partition(i % 2))
			p.PublishAsync(t.Context(), m, report)
		}
		flushed(t, p)
		stored, failed := j.check(b, "orders", false)
		if failed == 0 || stored < 200 {
			t.Errorf("%+v: %d stored, %d failed", f, stored, failed)
		}
		if err := j.firstError(); !errors.Is(err, ErrOutcomeUnknown) {
			t.Errorf("%+v: reported %v", f, err)
		}
		for _, m := range b.stored("orders", 0) {
			if m.id != 0 || m.seq != 0 {
				t.Errorf("stored with producer %d, number %d", m.id, m.seq)
			}
		}
		closed(t, p)
	}
}

func TestProducerRidesOutAnOutage(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("orders", 3)
	p := newProducer(t, dialFake(t, b), "orders", ProducerOptions{MaxInFlight: 50})
	j := newJudge(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 500 {
			m, report := j.next(codec.Partition(i % 3))
			p.PublishAsync(t.Context(), m, report)
			if i%100 == 50 {
				b.setDown(true)
				time.AfterFunc(30*time.Millisecond, func() { b.setDown(false) })
			}
		}
	}()
	<-done
	flushed(t, p)
	if stored, _ := j.check(b, "orders", true); stored != 500 {
		t.Errorf("%d of 500 stored; first error: %v", stored, j.firstError())
	}
	closed(t, p)
}

func TestProducerGivesUpAfterRetryTimeout(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("orders", 1)
	p := newProducer(t, dialFake(t, b), "orders", ProducerOptions{RetryTimeout: 400 * time.Millisecond})
	if _, err := p.Publish(t.Context(), Message{Value: []byte("in time")}); err != nil {
		t.Fatal(err)
	}

	b.setHook(func(r *fakeRequest) fault { return fault{code: codec.CodeBackpressure} })
	_, err := p.Publish(t.Context(), Message{Value: []byte("refused")})
	if !errors.Is(err, ErrRetryTimeout) || errors.Is(err, ErrOutcomeUnknown) || CodeOf(err) != codec.CodeBackpressure {
		t.Errorf("refused all the time: %v", err)
	}

	b.setHook(func(r *fakeRequest) fault { return fault{mute: true} })
	_, err = p.Publish(t.Context(), Message{Value: []byte("unanswered")})
	if !errors.Is(err, ErrRetryTimeout) || !errors.Is(err, ErrOutcomeUnknown) {
		t.Errorf("never answered: %v", err)
	}

	b.setHook(nil)
	b.setDown(true)
	_, err = p.Publish(t.Context(), Message{Value: []byte("nobody there")})
	if !errors.Is(err, ErrRetryTimeout) || errors.Is(err, ErrOutcomeUnknown) {
		t.Errorf("broker down: %v", err)
	}

	b.setDown(false)
	if _, err := p.Publish(t.Context(), Message{Value: []byte("well again")}); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	closed(t, p)
	var got []string
	for _, m := range b.stored("orders", 0) {
		got = append(got, m.value)
	}
	if fmt.Sprint(got) != "[in time well again]" {
		t.Errorf("stored: %q", got)
	}
}

func TestProducerSwitchesConnectionWhenTheBrokerFallsSilent(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("orders", 1)
	o := fast()
	o.SilenceTimeout = 80 * time.Millisecond
	c, err := Dial(t.Context(), []string{b.addr}, o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	p := newProducer(t, c, "orders", ProducerOptions{})
	b.setHook(onNth(map[int]fault{1: {mute: true}}))
	if _, err := p.Publish(t.Context(), Message{Value: []byte("x")}); err != nil {
		t.Error(err)
	}
	if n := p.Stats().Connects; n < 2 {
		t.Errorf("%d connections were made, want 2", n)
	}
}

func TestProducerKeepsAnIdleConnectionAlive(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("orders", 1)
	o := fast()
	o.KeepAlive = 5 * time.Millisecond
	c, err := Dial(t.Context(), []string{b.addr}, o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	pings := make(chan struct{}, 1000)
	b.setHook(func(r *fakeRequest) fault {
		if r.op == codec.OpPing {
			pings <- struct{}{}
		}
		return fault{}
	})
	p := newProducer(t, c, "orders", ProducerOptions{})
	for range 3 {
		<-pings
	}
	if _, err := p.Publish(t.Context(), Message{Value: []byte("x")}); err != nil {
		t.Error(err)
	}
	if n := p.Stats().Connects; n != 1 {
		t.Errorf("%d connections were made, want 1", n)
	}
}

func TestProducerFollowsTheLeader(t *testing.T) {
	leader, follower := newFakeBroker(t), newFakeBroker(t)
	leader.addTopic("orders", 2)
	follower.addTopic("orders", 2)
	var mu sync.Mutex
	moved := false
	follower.setHook(func(r *fakeRequest) fault {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case r.op == codec.OpPub && moved:
			return fault{code: codec.CodeProducerEpochStale, message: "not the leader any more: leader=" + leader.addr}
		case r.op == codec.OpDeclare && moved:
			return fault{code: codec.CodeStaleLeaderEpoch, message: "ask leader=" + leader.addr}
		}
		return fault{}
	})
	c, err := Dial(t.Context(), []string{follower.addr, "127.0.0.1:1"}, fast())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	p := newProducer(t, c, "orders", ProducerOptions{})
	mu.Lock()
	moved = true
	mu.Unlock()
	j := newJudge(t)
	for i := range 100 {
		m, report := j.next(codec.Partition(i % 2))
		p.PublishAsync(t.Context(), m, report)
	}
	flushed(t, p)
	if stored, _ := j.check(leader, "orders", true); stored != 100 {
		t.Errorf("%d of 100 stored at the leader; first error: %v", stored, j.firstError())
	}
	if topic, err := c.DeclareTopic(t.Context(), "fresh", 1); err != nil || !topic.Created {
		t.Errorf("DeclareTopic: %+v, %v", topic, err)
	}
	leader.mu.Lock()
	defer leader.mu.Unlock()
	if leader.byName["fresh"] == nil {
		t.Error("the topic was not declared at the leader")
	}
}

func TestMessagesThatCannotBeSentUseNoNumber(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("orders", 2)
	p := newProducer(t, dialFake(t, b), "orders", ProducerOptions{
		Partitioner: func(m *Message, n int) codec.Partition { return codec.Partition(len(m.Key)) },
	})
	seven := codec.Partition(7)
	for name, m := range map[string]Message{
		"key":         {Key: make([]byte, 256)},
		"value":       {Value: make([]byte, codec.MaxValueLen+1)},
		"partition":   {Partition: &seven},
		"partitioner": {Key: []byte("ab")},
	} {
		_, err := p.Publish(t.Context(), m)
		switch name {
		case "key", "value":
			if !errors.Is(err, ErrTooLarge) {
				t.Errorf("%s: %v", name, err)
			}
		default:
			if CodeOf(err) != codec.CodeUnknownPartition {
				t.Errorf("%s: %v", name, err)
			}
		}
		reported := 0
		p.PublishAsync(t.Context(), m, func(_ Receipt, err error) {
			if err == nil {
				t.Errorf("%s: reported as stored", name)
			}
			reported++
		})
		if reported != 1 {
			t.Errorf("%s: reported %d times before PublishAsync returned", name, reported)
		}
	}
	r, err := p.Publish(t.Context(), Message{Key: []byte("k"), Value: make([]byte, codec.MaxValueLen)})
	if err != nil || r.ProducerSeq != 1 || r.Partition != 1 {
		t.Errorf("the largest message: %+v, %v", r, err)
	}
}

func TestPartitionsOfKeysAndTurns(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("orders", 5)
	p := newProducer(t, dialFake(t, b), "orders", ProducerOptions{})
	for i := range 20 {
		key := fmt.Appendf(nil, "key %d", i)
		r, err := p.Publish(t.Context(), Message{Key: key})
		if want := codec.PartitionFor(key, 5); err != nil || r.Partition != want {
			t.Errorf("key %q went to %d, want %d (%v)", key, r.Partition, want, err)
		}
	}
	for i := range 12 {
		r, err := p.Publish(t.Context(), Message{})
		if err != nil || int(r.Partition) != i%5 {
			t.Errorf("message %d without a key went to %d (%v)", i, r.Partition, err)
		}
	}
}

func TestTheWindowBlocksAndContextsEndTheWait(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("orders", 1)
	p := newProducer(t, dialFake(t, b), "orders", ProducerOptions{MaxInFlight: 2})
	b.setHook(func(r *fakeRequest) fault { return fault{mute: true} })
	var mu sync.Mutex
	var late []error
	for range 2 {
		p.PublishAsync(t.Context(), Message{}, func(_ Receipt, err error) {
			mu.Lock()
			defer mu.Unlock()
			late = append(late, err)
		})
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	var got error
	over, end := context.WithCancel(t.Context())
	end()
	if _, err := p.Publish(over, Message{}); !errors.Is(err, context.Canceled) || errors.Is(err, ErrOutcomeUnknown) {
		t.Errorf("with a context that is over: %v", err)
	}
	p.PublishAsync(ctx, Message{}, func(_ Receipt, err error) { got = err })
	if !errors.Is(got, context.DeadlineExceeded) || errors.Is(got, ErrOutcomeUnknown) {
		t.Errorf("with a full window: %v", got)
	}
	if err := p.Flush(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Flush: %v", err)
	}
	blocked := make(chan error, 3)
	for range 3 {
		go p.PublishAsync(context.Background(), Message{}, func(_ Receipt, err error) { blocked <- err })
	}
	if err := p.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Close: %v", err)
	}
	for range 3 {
		if err := <-blocked; !errors.Is(err, ErrClosed) {
			t.Errorf("waiting while closed: %v", err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(late) != 2 || !errors.Is(late[0], ErrClosed) || !errors.Is(late[0], ErrOutcomeUnknown) {
		t.Errorf("in flight while closed: %v", late)
	}
	if err := p.Close(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("second Close: %v", err)
	}
	if _, err := p.Publish(t.Context(), Message{}); !errors.Is(err, ErrClosed) {
		t.Errorf("Publish after Close: %v", err)
	}
}

// A Publish whose context ends leaves the message on its way, from a copy: the
// caller may use its buffer again.
func TestAbandonedPublishKeepsItsBytes(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("orders", 1)
	p := newProducer(t, dialFake(t, b), "orders", ProducerOptions{})
	b.setDown(true)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	value := []byte("original")
	_, err := p.Publish(ctx, Message{Value: value})
	if !errors.Is(err, ErrOutcomeUnknown) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Publish: %v", err)
	}
	copy(value, "changed!")
	b.setDown(false)
	flushed(t, p)
	if log := b.stored("orders", 0); len(log) != 1 || log[0].value != "original" {
		t.Errorf("stored: %v", log)
	}
}

// Many publishers on one producer: nothing is lost, nothing blocks for ever.
func TestConcurrentPublishers(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("orders", 4)
	p := newProducer(t, dialFake(t, b), "orders", ProducerOptions{MaxInFlight: 5})
	b.setHook(onNth(map[int]fault{300: {cutAfter: true}, 700: {code: codec.CodeBackpressure}}))
	var wg sync.WaitGroup
	for range 16 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for range 60 {
				if _, err := p.Publish(t.Context(), Message{Value: []byte("v")}); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	wg.Wait()
	total := 0
	for part := range 4 {
		total += len(b.stored("orders", part))
	}
	if total != 16*60 {
		t.Errorf("%d messages are stored, want %d", total, 16*60)
	}
}

func TestProducerSurvivesATopicThatIsDeleted(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("orders", 1)
	c := dialFake(t, b)
	p := newProducer(t, c, "orders", ProducerOptions{MaxInFlight: 8})
	if err := c.DeleteTopic(t.Context(), "orders"); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	failed := 0
	for range 50 {
		p.PublishAsync(t.Context(), Message{}, func(_ Receipt, err error) {
			mu.Lock()
			defer mu.Unlock()
			if errors.Is(err, ErrUnknownTopic) {
				failed++
			}
		})
	}
	closed(t, p)
	if failed != 50 {
		t.Errorf("%d of 50 messages failed with ErrUnknownTopic", failed)
	}
	if _, err := c.NewProducer(t.Context(), "orders", ProducerOptions{}); !errors.Is(err, ErrUnknownTopic) {
		t.Errorf("NewProducer: %v", err)
	}
}
