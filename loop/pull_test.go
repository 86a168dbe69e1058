package loop_test

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/mortarmq/mortarmq/codec"
	"github.com/mortarmq/mortarmq/flow"
	"github.com/mortarmq/mortarmq/loop"
	"github.com/valyala/bytebufferpool"
)

// member is a session with one subscription, number 7, on topic 1.
type member struct {
	*peer
	sub *flow.Subscription
}

func join(t testing.TB, s *loop.Server, b *backend) *member {
	t.Helper()
	m := &member{peer: session(t, s)}
	m.send(subTo(1, "g"))
	if !b.automatic {
		b.serveControl(b.next().control)
	}
	r, err := codec.DecodeSubResult(m.ok(codec.OpSub))
	if err != nil {
		t.Fatal(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	m.sub = b.subs[r.MemberID]
	return m
}

func (m *member) own(epochs ...codec.OwnershipEpoch) {
	var owned []flow.Owned
	for i, e := range epochs {
		owned = append(owned, flow.Owned{Partition: codec.Partition(i), Epoch: e})
	}
	m.sub.Owned.Store(&owned)
}

// pull is a valid PULL of the member, changed by f.
func (m *member) pull(f func(p *codec.Pull)) []byte {
	p := codec.Pull{SubscriptionID: 7, MemberID: m.sub.Member, MembershipEpoch: 5, AssignmentEpoch: 9, WaitMs: 60000}
	if f != nil {
		f(&p)
	}
	return codec.AppendPull(nil, &p)
}

// deliver puts a message of size bytes into a PULL, as a shard would.
func deliver(p *flow.Pull, size int) {
	if p.Body == nil {
		p.Body = bytebufferpool.Get()
	}
	p.Body.B = codec.AppendMsg(p.Body.B, &codec.Msg{SubscriptionID: p.Sub.ID, TopicID: 1, Sequence: codec.Sequence(p.Msgs + 1), Value: make([]byte, size)})
	p.Msgs++
	p.Bytes += size
}

func (p *peer) msg(size int) {
	p.t.Helper()
	op, payload := p.next()
	m, err := codec.DecodeMsg(payload)
	if op != codec.OpMsg || err != nil || len(m.Value) != size {
		p.t.Fatalf("want a MSG of %d bytes, got %s (%v)", size, describe(op, payload), err)
	}
}

func TestPullIsJudgedFirst(t *testing.T) {
	s, b := manual(t, loop.Config{})
	m := join(t, s, b)
	m.own(100, 101, 102)
	all := func(es ...codec.OwnershipEpoch) codec.Epochs {
		var out codec.Epochs
		for _, e := range es {
			out = codec.AppendEpoch(out, e)
		}
		return out
	}
	for name, c := range map[string]struct {
		code codec.Code
		f    func(p *codec.Pull)
	}{
		"unknown subscription":  {codec.CodeStaleGeneration, func(p *codec.Pull) { p.SubscriptionID = 8 }},
		"subscription 65535":    {codec.CodeStaleGeneration, func(p *codec.Pull) { p.SubscriptionID = 65535 }},
		"wrong member":          {codec.CodeStaleGeneration, func(p *codec.Pull) { p.MemberID++ }},
		"membership too old":    {codec.CodeStaleGeneration, func(p *codec.Pull) { p.MembershipEpoch = 2 }},
		"membership never told": {codec.CodeStaleGeneration, func(p *codec.Pull) { p.MembershipEpoch = 6 }},
		"assignment too old":    {codec.CodeStaleGeneration, func(p *codec.Pull) { p.AssignmentEpoch = 6 }},
		"assignment never told": {codec.CodeStaleGeneration, func(p *codec.Pull) { p.AssignmentEpoch = 10 }},
		"too few epochs":        {codec.CodeNotOwner, func(p *codec.Pull) { p.OwnershipEpochs = all(100, 101) }},
		"too many epochs":       {codec.CodeNotOwner, func(p *codec.Pull) { p.OwnershipEpochs = all(100, 101, 102, 103) }},
		"another order":         {codec.CodeNotOwner, func(p *codec.Pull) { p.OwnershipEpochs = all(101, 100, 102) }},
		"epochs right":          {0, func(p *codec.Pull) { p.OwnershipEpochs = all(100, 101, 102) }},
		"oldest epochs":         {0, func(p *codec.Pull) { p.MembershipEpoch, p.AssignmentEpoch = 3, 7 }},
	} {
		m.send(m.pull(c.f))
		if c.code != 0 {
			m.err(codec.OpPull, c.code)
			continue
		}
		j := b.next()
		if j.pull == nil {
			t.Fatalf("%s: want a PULL, got %v", name, j)
		}
		b.complete(j.pull.Completion(0))
		m.ok(codec.OpPull)
	}
	m.sub.Alive.Store(false)
	m.send(m.pull(nil))
	m.err(codec.OpPull, codec.CodeStaleGeneration)
}

func TestPullFields(t *testing.T) {
	s, b := manual(t, loop.Config{PollMaxWait: 3 * time.Second})
	m := join(t, s, b)
	m.send(m.pull(nil))
	p := b.next().pull
	if p.MaxMsgs != math.MaxInt || p.MaxBytes != math.MaxInt || p.MinBytes != 0 || p.Wait != 3*time.Second || p.Sub != m.sub {
		t.Errorf("got %+v", p)
	}
	b.complete(p.Completion(0))
	m.ok(codec.OpPull)
	m.send(m.pull(func(p *codec.Pull) { p.MaxMsgs, p.MaxBytes, p.MinBytes, p.WaitMs = 1, 2, 3, 4 }))
	p = b.next().pull
	if p.MaxMsgs != 1 || p.MaxBytes != 2 || p.MinBytes != 3 || p.Wait != 4*time.Millisecond {
		t.Errorf("got %+v", p)
	}
	b.complete(p.Completion(0))
	m.ok(codec.OpPull)
}

// MSG frames stand between the previous answer and the PULL's OK, whether they
// are copied, adopted, or come before their turn.
func TestMessagesStandBeforeTheOK(t *testing.T) {
	s, b := manual(t, loop.Config{})
	m := join(t, s, b)
	for _, size := range []int{0, 10, 5000, 100_000, 3 << 20} {
		for _, early := range []bool{false, true} {
			m.send(pub(1, 0, "x"), ping(), m.pull(nil))
			x, p := b.next(), b.next().pull
			deliver(p, size)
			deliver(p, size)
			done := p.Completion(codec.CodeNoCredit) // OK: something was delivered
			if early {
				b.complete(done, b.answer(x))
			} else {
				b.srv.Complete(x.req.Conn.Loop, []flow.Completion{b.answer(x), done})
			}
			m.ok(codec.OpPub)
			m.ok(codec.OpPing)
			m.msg(size)
			m.msg(size)
			m.ok(codec.OpPull)
		}
	}
	m.send(m.pull(nil))
	b.complete(b.next().pull.Completion(codec.CodeMessageExceedsCredit))
	m.err(codec.OpPull, codec.CodeMessageExceedsCredit)
}

// ACKs staged before a PULL reach the shard before it: they make room for it.
func TestPullFollowsWhatWasStagedBefore(t *testing.T) {
	s, b := manual(t, loop.Config{})
	m := join(t, s, b)
	m.send(codec.AppendAck(nil, &codec.Ack{SubscriptionID: 7, TopicID: 1}), pub(1, 1, "v"), m.pull(nil))
	for _, want := range []codec.Op{codec.OpAck, codec.OpPub} {
		j := b.next()
		if j.req == nil || j.req.Op != want {
			t.Fatalf("want %v, got %v", want, j)
		}
		b.complete(b.answer(j))
	}
	b.complete(b.next().pull.Completion(0))
	m.ok(codec.OpAck)
	m.ok(codec.OpPub)
	m.ok(codec.OpPull)
}

// The next request ends a parked PULL on the spot (V2).
func TestARequestEndsAParkedPull(t *testing.T) {
	s, b := manual(t, loop.Config{})
	m := join(t, s, b)
	for _, next := range [][]byte{ping(), pub(5, 0, ""), declare("x")} {
		m.send(m.pull(nil))
		p := b.next().pull
		deliver(p, 3)
		if !p.Park() {
			t.Fatal("it was cancelled before the next request came")
		}
		// Neither an ERR, nor an OK, nor half a request is one.
		m.send(codec.AppendErr(nil, &codec.Err{}), codec.AppendOK(nil, &codec.OK{RequestOp: codec.OpPub}), next[:len(next)-1])
		m.quiet(10 * time.Millisecond)
		m.send(next[len(next)-1:])
		m.msg(3)
		m.ok(codec.OpPull)
		switch next[4] {
		case byte(codec.OpPing):
			m.ok(codec.OpPing)
		case byte(codec.OpPub):
			m.err(codec.OpPub, codec.CodeUnknownTopic)
		default:
			b.serveControl(b.next().control)
			m.ok(codec.OpDeclare)
		}
		if p.Claim() {
			t.Fatal("the token of an answered PULL can still be claimed")
		}
	}
	if n := s.Stats().WaitingPulls; n != 0 {
		t.Errorf("%d PULLs are still counted", n)
	}
}

// While a shard holds the PULL, requests behind it wait, and are served in order after it.
func TestRequestsWaitBehindAPull(t *testing.T) {
	s, b := manual(t, loop.Config{})
	m := join(t, s, b)
	big := pub(1, 2, strings.Repeat("b", 200_000)) // larger than a chunk
	m.send(m.pull(nil), ping(), pub(1, 1, "one"), m.pull(nil), big, ping(), m.pull(nil), raw(0x55, 0), ping())
	first := b.next().pull
	eventually(t, "the requests behind end its wait", first.Cancelled)
	if len(b.jobs) > 0 {
		t.Fatalf("served before the PULL was answered: %v", <-b.jobs)
	}
	deliver(first, 1)
	b.complete(first.Completion(0))
	one := b.next()
	if one.tail != tailOf(pub(1, 1, "one")) {
		t.Fatalf("got %v", one)
	}
	second := b.next().pull
	eventually(t, "the requests behind end its wait", second.Cancelled)
	if second.Park() {
		t.Fatal("a cancelled PULL can be parked")
	}
	b.complete(second.Completion(0), b.answer(one))
	two := b.next()
	if two.tail != tailOf(big) {
		t.Fatalf("the large PUB came damaged: %d bytes", len(two.tail))
	}
	third := b.next().pull
	eventually(t, "the bad frame behind ends its wait", third.Cancelled)
	b.complete(third.Completion(0), b.answer(two))
	m.msg(1)
	m.ok(codec.OpPull)
	m.ok(codec.OpPing)
	m.ok(codec.OpPub)
	m.ok(codec.OpPull)
	m.ok(codec.OpPub)
	m.ok(codec.OpPing)
	m.ok(codec.OpPull)
	m.refused(0x55, codec.CodeUnknownOp)
	b.nextClosed()
}

// A malformed request that waited behind a PULL ends the session in its turn.
func TestAMalformedRequestBehindAPull(t *testing.T) {
	s, b := manual(t, loop.Config{})
	m := join(t, s, b)
	m.send(m.pull(nil), ping(), raw(7, 1, 0), pub(1, 0, "not served"))
	p := b.next().pull
	eventually(t, "cancelled", p.Cancelled)
	b.complete(p.Completion(0))
	m.ok(codec.OpPull)
	m.ok(codec.OpPing)
	m.refused(codec.OpPing, codec.CodeMalformedPayload)
	b.nextClosed()
}

// What waits behind a PULL counts against S7, and is refused in its turn.
func TestTooMuchBehindAPull(t *testing.T) {
	s, b := manual(t, loop.Config{Limits: loop.Limits{Requests: 4, PubBytes: 1000}})
	m := join(t, s, b)
	m.send(m.pull(nil), ping(), ping(), ping(), ping(), declare("x"))
	p := b.next().pull
	eventually(t, "cancelled", p.Cancelled)
	eventually(t, "all received", func() bool { return s.Stats().Frames[codec.OpDeclare] == 1 })
	b.complete(p.Completion(0))
	m.ok(codec.OpPull)
	for range 3 {
		m.ok(codec.OpPing)
	}
	m.err(codec.OpPing, codec.CodeBackpressure)
	m.err(codec.OpDeclare, codec.CodeBackpressure)

	value := string(make([]byte, 600))
	m.send(m.pull(nil), pub(1, 0, value), pub(1, 0, value), ping())
	p = b.next().pull
	eventually(t, "all received", func() bool { return s.Stats().Frames[codec.OpPing] == 5 })
	b.complete(p.Completion(0))
	m.ok(codec.OpPull)
	b.complete(b.answer(b.next()))
	m.ok(codec.OpPub)
	m.err(codec.OpPub, codec.CodeBackpressure)
	m.ok(codec.OpPing)
	if st := s.Stats(); st.Unfinished != 0 {
		t.Errorf("%d bytes are still held", st.Unfinished)
	}
}

func TestEndlessRequestsBehindAPullAreBounded(t *testing.T) {
	s, b := manual(t, loop.Config{Limits: loop.Limits{Requests: 8, Outbound: 1 << 20}})
	m := join(t, s, b)
	m.send(m.pull(nil))
	p := b.next().pull
	flood := bytes.Repeat(ping(), 10_000)
	go func() {
		for {
			if _, err := m.c.Write(flood); err != nil {
				return
			}
		}
	}()
	m.err(0, codec.CodeSlowConsumer)
	b.nextClosed()
	deliver(p, 100)
	b.complete(p.Completion(0)) // too late: dropped
	eventually(t, "the late answer is accounted for", func() bool { return s.Stats().WaitingPulls == 0 })
}

func TestWaitingPullsAreLimited(t *testing.T) {
	s, b := manual(t, loop.Config{Limits: loop.Limits{WaitingPulls: 2}})
	one, two, three := join(t, s, b), join(t, s, b), join(t, s, b)
	one.send(one.pull(nil))
	first := b.next().pull
	two.send(two.pull(nil))
	second := b.next().pull
	three.send(three.pull(nil))
	three.err(codec.OpPull, codec.CodeMaxWaitingPulls)
	b.complete(first.Completion(0))
	one.ok(codec.OpPull)
	three.send(three.pull(nil))
	third := b.next().pull
	// A connection that ends frees its place, whoever holds the token.
	if !second.Park() {
		t.Fatal("cancelled by nobody")
	}
	two.c.Close()
	b.nextClosed()
	if second.Claim() {
		t.Error("the token of a closed connection's PULL can still be claimed")
	}
	three.c.Close()
	b.nextClosed()
	if n := s.Stats().WaitingPulls; n != 1 {
		t.Errorf("%d PULLs are counted, the shard holds 1", n)
	}
	deliver(third, 10)
	b.complete(third.Completion(0))
	eventually(t, "none is counted", func() bool { return s.Stats().WaitingPulls == 0 })
}
