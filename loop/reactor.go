package loop

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mortarmq/mortarmq/codec"
	"github.com/mortarmq/mortarmq/flow"
	"github.com/panjf2000/gnet/v2"
)

// reactor is one event loop with its sessions. It is a gnet engine of its own
// with a single loop, so its number is known before its first connection.
type reactor struct {
	gnet.BuiltinEventEngine
	id      int
	srv     *Server
	backend Backend
	limits  *Limits
	log     *slog.Logger
	client  *gnet.Client
	mail    mailbox
	conns   atomic.Int64 // given to it by the acceptor and not closed yet

	drained   chan struct{} // closed once drain was asked for and no session is left
	drainOnce sync.Once

	// From here on, only the reactor's goroutine.

	now      time.Duration // when this turn began
	topics   *flow.Topics  // as of this turn
	asked    uint16        // ops that Refusal was asked about in this turn, one bit each
	refusals [16]refusal
	serving  *session // and
	op       codec.Op // what is served, for the report of a panic
	draining bool

	sessions []*session
	dirty    []*session // to be flushed at the end of the turn
	watched  []*session // to be looked at every pollEvery
	lookedAt []*session // spare of watched
	poll     *time.Timer
	polling  bool

	staged    [][]flow.Request // by shard; submitted at the end of the turn
	stagedAny bool
	chunk     *flow.Chunk // being filled; see chunk.go
	chunkRefs int
	chunkUsed bool

	bufs     buffers
	spare    mail
	offences sparse
	turn     turnCounts
	counts   reactorCounts
}

// refusal is an answer of Backend.Refusal.
type refusal struct {
	code codec.Code
	text string
}

func startReactor(s *Server, id int) (*reactor, error) {
	r := &reactor{
		id: id, srv: s, backend: s.backend, limits: &s.cfg.Limits, log: s.cfg.Logger,
		drained: make(chan struct{}),
	}
	r.poll = time.AfterFunc(time.Hour, func() { r.mail.leave(r, func(in *mail) { in.poll = true }) })
	r.poll.Stop()
	var err error
	r.client, err = gnet.NewClient(r,
		gnet.WithNumEventLoop(1), gnet.WithTicker(true), gnet.WithTCPNoDelay(gnet.TCPNoDelay),
		gnet.WithReadBufferCap(readSize), gnet.WithLogger(gnetLogger{s.cfg.Logger}))
	if err != nil {
		return nil, err
	}
	return r, r.client.Start()
}

// readSize is the most bytes of one read. Larger ones measured no faster.
const readSize = 64 << 10

// stop closes every session and ends the loop.
func (r *reactor) stop() error {
	r.poll.Stop()
	r.mail.close()
	err := r.client.Stop()
	r.dropChunk() // its goroutine has ended
	return err
}

// drain asks the reactor to end its sessions; drained tells when that is done.
func (r *reactor) drain() {
	if r.mail.idle() {
		r.drainOnce.Do(func() { close(r.drained) })
		return
	}
	r.mail.leave(r, func(in *mail) { in.drain = true })
}

// OnOpen implements gnet.EventHandler.
func (r *reactor) OnOpen(c gnet.Conn) ([]byte, gnet.Action) {
	s := c.Context().(*session)
	s.gc = c
	s.index = len(r.sessions)
	if r.sessions = append(r.sessions, s); len(r.sessions) == 1 {
		r.mail.opened(c.EventLoop())
	}
	return nil, gnet.None
}

// OnTraffic implements gnet.EventHandler: one turn for one read.
func (r *reactor) OnTraffic(c gnet.Conn) gnet.Action {
	in, _ := c.Next(-1) // everything there is; fails only for a number
	s, ok := c.Context().(*session)
	if !ok {
		return gnet.None
	}
	r.begin()
	if s.phase > phaseOpen {
		s.drop()
		return gnet.None
	}
	r.turn.bytesIn += uint64(len(in))
	r.read(s, in)
	r.settle()
	return gnet.None
}

// Run implements gnet.Runnable: one turn for a mail.
func (r *reactor) Run(context.Context) error {
	in := r.mail.take(r.spare)
	r.begin()
	r.deliver(&in)
	if in.drain {
		r.drainSessions()
	}
	if in.tick {
		r.scan()
	}
	if in.poll {
		r.lookAgain()
	}
	r.settle()
	r.spare = in.emptied()
	return nil // anything else would be an order to the engine
}

// OnTick implements gnet.EventHandler. It runs on a goroutine of its own.
func (r *reactor) OnTick() (time.Duration, gnet.Action) {
	r.mail.leave(r, func(in *mail) { in.tick = true })
	return r.limits.tick(), gnet.None
}

// OnClose implements gnet.EventHandler. gnet calls it for whatever reason a
// connection ends, also from inside our own Write.
func (r *reactor) OnClose(c gnet.Conn, err error) gnet.Action {
	s, ok := c.Context().(*session)
	if !ok {
		return gnet.None
	}
	s.forget()
	s.phase = phaseGone
	s.dropOut()
	s.noteBacklog(0)
	last := len(r.sessions) - 1
	r.sessions[s.index] = r.sessions[last]
	r.sessions[s.index].index = s.index
	r.sessions[last] = nil
	r.sessions = r.sessions[:last]
	r.conns.Add(-1)
	r.srv.conns.Add(-1)
	r.srv.counts.closed[s.cause].Add(1)
	r.log.Debug("connection closed", "conn", s.conn.ID, "remote", s.conn.Remote, "cause", s.cause, "err", err)
	r.checkDrained()
	return gnet.None
}

// checkDrained tells Drain when nothing is left.
func (r *reactor) checkDrained() {
	if r.draining && len(r.sessions) == 0 {
		r.drainOnce.Do(func() { close(r.drained) })
	}
}

// begin starts a turn.
func (r *reactor) begin() {
	r.now = r.srv.cfg.Clock()
	r.topics = r.backend.Topics()
	r.asked = 0
}

// refusal is what the node's state says to requests of op, asked once per turn.
func (r *reactor) refusal(op codec.Op) (codec.Code, string) {
	f := &r.refusals[op]
	if bit := uint16(1) << op; r.asked&bit == 0 {
		r.asked |= bit
		f.code, f.text = r.backend.Refusal(op)
	}
	return f.code, f.text
}

// stage puts a request among those that reach its shard at the end of the turn.
func (r *reactor) stage(q *flow.Request) {
	shard := r.topics.Shard(q.Topic, q.Partition)
	if shard >= len(r.staged) {
		r.staged = append(r.staged, make([][]flow.Request, shard+1-len(r.staged))...)
	}
	r.staged[shard] = append(r.staged[shard], *q)
	r.stagedAny = true
}

// submit hands the staged requests over.
func (r *reactor) submit() {
	if !r.stagedAny {
		return
	}
	r.stagedAny = false
	r.retainChunk()
	for shard := range r.staged {
		if len(r.staged[shard]) > 0 {
			r.submitTo(shard)
		}
	}
}

func (r *reactor) submitTo(shard int) {
	reqs := r.staged[shard]
	r.staged[shard] = reqs[:0]
	defer r.guard(reqs[0].Conn.Session.(*session))
	n := r.backend.Submit(shard, reqs)
	for i := n; i < len(reqs); i++ {
		r.refuseStaged(&reqs[i])
	}
	clear(reqs)
}

// refuseStaged answers a request that its shard had no room for.
func (r *reactor) refuseStaged(q *flow.Request) {
	if q.Chunk != nil {
		q.Chunk.Release(1)
	}
	s := q.Conn.Session.(*session)
	s.put(&flow.Completion{Slot: q.Slot, Op: q.Op, Code: codec.CodeBackpressure})
}

// touch makes sure that a session is flushed in this turn.
func (r *reactor) touch(s *session) {
	if !s.dirty {
		s.dirty = true
		r.dirty = append(r.dirty, s)
	}
}

// settle ends a turn: requests go to the shards first, then answers to the clients.
// Flushing a session may serve requests that waited behind its PULL.
func (r *reactor) settle() {
	r.submit()
	r.counts.add(&r.turn) // first: who has read an answer finds its request counted
	for i := 0; i < len(r.dirty); i++ {
		s := r.dirty[i]
		r.dirty[i] = nil
		r.flush(s)
		r.submit()
	}
	r.dirty = r.dirty[:0]
	r.counts.add(&r.turn)
}

func (r *reactor) flush(s *session) {
	defer r.guard(s)
	s.flush()
}

// deliver brings answers and notes to their sessions, in the order in which they
// were left.
func (r *reactor) deliver(in *mail) {
	at := 0
	for i := range in.notes {
		n := &in.notes[i]
		r.answerAll(in.completions[at:n.after])
		at = n.after
		r.note(n)
	}
	r.answerAll(in.completions[at:])
}

func (r *reactor) answerAll(batch []flow.Completion) {
	for done := 0; done < len(batch); {
		done += r.answerSome(batch[done:])
	}
}

// answerSome goes on until the end, or until a panic that ends one session; it
// returns how many it has dealt with.
func (r *reactor) answerSome(batch []flow.Completion) (done int) {
	defer func() {
		if p := recover(); p != nil {
			r.panicked(r.serving, p)
			done++
		}
	}()
	for done < len(batch) {
		c := &batch[done]
		r.serving = nil
		s := c.Conn.Session.(*session)
		r.serving, r.op = s, c.Op
		s.answered(c)
		done++
	}
	return done
}

func (r *reactor) note(n *note) {
	s := n.sub.Conn.Session.(*session)
	defer r.guard(s)
	switch {
	case s.phase >= phaseFlush:
	case n.revoked:
		s.unsubscribed(n.sub)
	default:
		s.notice(n.sub, &n.notice)
	}
}
