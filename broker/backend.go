package broker

import (
	"sync/atomic"

	"github.com/mortarmq/mortarmq/codec"
	"github.com/mortarmq/mortarmq/flow"
	"github.com/mortarmq/mortarmq/loop"
)

// Topics implements loop.Backend.
func (b *Broker) Topics() *flow.Topics { return b.topics.Load() }

// Submit implements loop.Backend.
func (b *Broker) Submit(shard int, reqs []flow.Request) int { return b.shards[shard].Submit(reqs) }

// Pull implements loop.Backend. Successive PULLs of a connection begin at
// different shards, so that none is always asked last.
func (b *Broker) Pull(p *flow.Pull) { b.shards[int(p.Slot)%len(b.shards)].Pull(p) }

// Control implements loop.Backend.
func (b *Broker) Control(c flow.Control) bool {
	return b.control.do(func(ct *control) { ct.request(&c) })
}

// Closed implements loop.Backend.
func (b *Broker) Closed(c *flow.Conn) {
	b.control.box.force(func(ct *control) { ct.closed(c) }) // never refused: its members must go
}

// Refusal implements loop.Backend: what the state of the node says to a request, before
// anything is done for it.
func (b *Broker) Refusal(op codec.Op) (codec.Code, string) {
	if err := b.state.failed.Load(); err != nil {
		return codec.CodeInternal, "this node has a failed disk or log and serves no longer (diagnostic id " +
			b.state.failID() + "): see its log and /readyz, fix the cause and restart it"
	}
	if op == codec.OpPub && b.state.diskLow.Load() { // DECLARE: see control.lowDisk
		return codec.CodeStorageHighWatermark, ""
	}
	return 0, ""
}

// replies passes answers on to the loop. The loop is made after the shards, and a
// connection may be served before Start has stored it: listening is closed then.
type replies struct{ b *Broker }

func (r replies) server() flow.Replies {
	<-r.b.listening
	return r.b.server
}

func (r replies) Complete(loop int, batch []flow.Completion) { r.server().Complete(loop, batch) }
func (r replies) Notify(loop int, batch []flow.Notice)       { r.server().Notify(loop, batch) }
func (r replies) Revoked(sub *flow.Subscription)             { r.server().Revoked(sub) }

// nodeState is what the reactors and the admin pages ask about without a lock.
type nodeState struct {
	ready   atomic.Bool
	diskLow atomic.Bool
	failed  atomic.Pointer[failure]
}

type failure struct {
	err error
	id  string
}

func (s *nodeState) fail(err error) {
	s.failed.CompareAndSwap(nil, &failure{err, diagnosticID()})
}

func (s *nodeState) failID() string { return s.failed.Load().id }

func (b *Broker) loopConfig() loop.Config {
	return loop.Config{
		Listen: b.cfg.ListenClient, Reactors: b.reactors(), Tokens: b.cfg.AuthTokenSHA256,
		PollMaxWait: b.cfg.PollMaxWait, PublishRate: b.cfg.PublishRateLimit,
		Logger: b.log, Clock: b.clock.Now,
	}
}
