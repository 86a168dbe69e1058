package loop_test

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mortarmq/mortarmq/codec"
	"github.com/mortarmq/mortarmq/flow"
	"github.com/mortarmq/mortarmq/loop"
)

// job is one thing the loop handed to the backend.
type job struct {
	req     *flow.Request // its Tail is a copy, its chunk is released
	tail    string
	pull    *flow.Pull
	control *flow.Control
	closed  *flow.Conn
}

func (j job) String() string {
	switch {
	case j.req != nil:
		return fmt.Sprintf("%v slot %d %q", j.req.Op, j.req.Slot, j.tail)
	case j.pull != nil:
		return fmt.Sprintf("PULL slot %d", j.pull.Slot)
	case j.control != nil:
		return fmt.Sprintf("%v slot %d", j.control.Op, j.control.Slot)
	}
	return fmt.Sprintf("closed %d", j.closed.ID)
}

// backend stands in for shards and control plane. In automatic mode its own
// goroutine answers what comes; otherwise the test takes the jobs.
type backend struct {
	t      testing.TB
	srv    *loop.Server
	topics atomic.Pointer[flow.Topics]
	jobs   chan job
	room   atomic.Int64 // requests that Submit still accepts; negative: all
	noRoom atomic.Bool  // Control refuses

	automatic bool

	refuse func(op codec.Op) (codec.Code, string) // nil: nothing is refused
	bomb   func(j job)                            // called first, on the reactor; may panic

	mu     sync.Mutex
	chunks map[*flow.Chunk]bool
	seqs   map[[2]uint16]codec.Sequence
	member codec.MemberID
	subs   map[codec.MemberID]*flow.Subscription

	stop chan struct{}
	done chan struct{}
}

// table: topic 1 with 4 partitions and its twin 2, topic 3 with 1 and its twin 4, topic 5 was deleted.
func table(shards int) *flow.Topics {
	return &flow.Topics{Shards: shards, ByID: []flow.Topic{
		{}, {Exists: true, Name: "a", Partitions: 4}, {Exists: true, Name: "a.dlq", Partitions: 4},
		{Exists: true, Name: "b", Partitions: 1}, {Exists: true, Name: "b.dlq", Partitions: 1}, {}, {},
	}}
}

func newBackend(t testing.TB, shards int) *backend {
	b := &backend{
		t: t, jobs: make(chan job, 1<<17), chunks: map[*flow.Chunk]bool{}, seqs: map[[2]uint16]codec.Sequence{}, subs: map[codec.MemberID]*flow.Subscription{},
		stop: make(chan struct{}), done: make(chan struct{}),
	}
	b.topics.Store(table(shards))
	b.room.Store(-1)
	return b
}

func (b *backend) Topics() *flow.Topics { return b.topics.Load() }

func (b *backend) leave(j job) {
	if b.bomb != nil {
		b.bomb(j)
	}
	select {
	case b.jobs <- j:
	default:
		panic("the test's queue is full")
	}
}

func (b *backend) Submit(shard int, reqs []flow.Request) int {
	for i := range reqs {
		if b.room.Load() == 0 {
			return i
		}
		b.room.Add(-1)
		q := reqs[i]
		if s := b.topics.Load().Shard(q.Topic, q.Partition); s != shard {
			b.t.Errorf("a request of shard %d was submitted to shard %d", s, shard)
		}
		j := job{req: &q, tail: string(q.Tail)}
		if q.Chunk != nil {
			b.mu.Lock()
			b.chunks[q.Chunk] = true
			b.mu.Unlock()
			q.Chunk.Release(1)
			q.Chunk, q.Tail = nil, nil
		}
		b.leave(j)
	}
	return len(reqs)
}

func (b *backend) Pull(p *flow.Pull) { b.leave(job{pull: p}) }

func (b *backend) Control(c flow.Control) bool {
	if b.noRoom.Load() {
		return false
	}
	b.leave(job{control: &c})
	return true
}

func (b *backend) Closed(c *flow.Conn) {
	if !c.Gone.Load() {
		b.t.Errorf("connection %d: Closed came before Gone", c.ID)
	}
	b.leave(job{closed: c})
}

func (b *backend) Refusal(op codec.Op) (codec.Code, string) {
	if b.refuse != nil {
		return b.refuse(op)
	}
	return 0, ""
}

// auto starts the goroutine that answers everything.
func (b *backend) auto() {
	b.automatic = true
	go func() {
		defer close(b.done)
		for {
			select {
			case j := <-b.jobs:
				b.serve(j)
			case <-b.stop:
				return
			}
		}
	}()
}

// serve answers one job as a good broker would.
func (b *backend) serve(j job) {
	switch {
	case j.req != nil:
		b.complete(b.answer(j))
	case j.pull != nil:
		if j.pull.MaxBytes < math.MaxInt { // exactly so much is there
			deliver(j.pull, j.pull.MaxBytes)
		}
		b.complete(j.pull.Completion(j.pull.Verdict))
	case j.control != nil:
		b.serveControl(j.control)
	}
}

// answer is the OK to a request.
func (b *backend) answer(j job) flow.Completion {
	c := flow.Completion{Conn: j.req.Conn, Slot: j.req.Slot, Op: j.req.Op}
	if j.req.Op == codec.OpPub {
		key := [2]uint16{uint16(j.req.Topic), uint16(j.req.Partition)}
		b.mu.Lock()
		b.seqs[key]++
		c.Pub = codec.PubResult{Sequence: b.seqs[key], CommitSeq: b.seqs[key], Durability: codec.DurableDisk}
		b.mu.Unlock()
	}
	return c
}

func (b *backend) serveControl(c *flow.Control) {
	switch c.Op {
	case codec.OpSub:
		sub := b.newSub(c, 7)
		done := b.subOK(c, sub)
		b.complete(done)
	case codec.OpHeartbeat:
		b.complete(flow.Completion{Conn: c.Conn, Slot: c.Slot, Op: c.Op, Unsubscribed: c.Leave})
	case codec.OpDeclare:
		b.complete(flow.Completion{Conn: c.Conn, Slot: c.Slot, Op: c.Op,
			Result: codec.AppendDeclareResult(nil, &codec.DeclareResult{TopicID: 1, PartitionCount: 4, Created: 1})})
	default:
		b.complete(flow.Completion{Conn: c.Conn, Slot: c.Slot, Op: c.Op})
	}
}

// newSub makes a live subscription of a SUB: membership epochs 3 to 5, assignment epochs 7 to 9.
func (b *backend) newSub(c *flow.Control, id codec.SubscriptionID) *flow.Subscription {
	b.mu.Lock()
	b.member++
	member := b.member
	b.mu.Unlock()
	sub := &flow.Subscription{
		Conn: c.Conn, Slot: c.Slot, ID: id, Topic: c.Sub.TopicID, Group: 9,
		GroupName: string(c.Sub.Group), Member: member,
	}
	b.mu.Lock()
	b.subs[member] = sub
	b.mu.Unlock()
	sub.Alive.Store(true)
	sub.Membership.Set(3, 5)
	sub.Assignment.Set(7, 9)
	sub.Credit.SetWindow(256, 2<<20)
	return sub
}

func (b *backend) subOK(c *flow.Control, sub *flow.Subscription) flow.Completion {
	return flow.Completion{Conn: c.Conn, Slot: c.Slot, Op: codec.OpSub, Subscribed: sub,
		Result: codec.AppendSubResult(nil, &codec.SubResult{
			SubscriptionID: sub.ID, MemberID: sub.Member, MembershipEpoch: 5, AssignmentEpoch: 9})}
}

func (b *backend) complete(cs ...flow.Completion) {
	for _, c := range cs {
		b.srv.Complete(c.Conn.Loop, []flow.Completion{c})
	}
}

// next is the next job, for tests that serve by hand.
func (b *backend) next() job {
	b.t.Helper()
	select {
	case j := <-b.jobs:
		return j
	case <-timeout():
		b.t.Fatal("nothing reached the backend")
		panic("unreachable")
	}
}

// nextClosed waits until a connection is reported gone.
func (b *backend) nextClosed() *flow.Conn {
	b.t.Helper()
	for {
		if j := b.next(); j.closed != nil {
			return j.closed
		}
	}
}

// chunksReturned checks, after the server has ended, that every chunk went back to the pool.
func (b *backend) chunksReturned() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.chunks {
		if c.Buf != nil {
			b.t.Errorf("a chunk of %d bytes was not released", len(c.Buf.B))
		}
	}
}

// deadSub is a subscription that no table has.
func (b *backend) deadSub(c *flow.Conn) *flow.Subscription { return &flow.Subscription{Conn: c, ID: 3} }
