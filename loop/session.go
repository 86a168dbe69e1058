package loop

import (
	"time"

	"github.com/mortarmq/mortarmq/codec"
	"github.com/mortarmq/mortarmq/flow"
	"github.com/panjf2000/gnet/v2"
	"github.com/valyala/bytebufferpool"
)

// phase is how far a session's life has come. It only grows.
type phase uint8

const (
	phaseAuth   phase = iota // no CONNECT was served yet
	phaseOpen                // serving
	phaseLast                // nothing more is read; the last word waits for the answers before it
	phaseFlush               // everything is said and on its way to the kernel
	phaseLinger              // our side is shut; the peer may still read what is in the kernels
	phaseGone                // closed
)

// session is one connection. An idle one holds this struct and nothing else:
// every buffer is taken when it is needed and given back.
type session struct {
	conn  flow.Conn // the return address; its Session is this struct
	r     *reactor
	gc    gnet.Conn
	index int // in reactor.sessions
	phase phase
	// connected says that a CONNECT was served; it outlives phaseOpen.
	connected bool
	dirty     bool // stands in reactor.dirty
	watched   bool // stands in reactor.watched
	replaying bool // what waited behind a PULL is being served
	cause     cause

	born      time.Duration // accepted
	lastByte  time.Duration // of input
	lastFrame time.Duration // that was complete
	part      []byte        // an unfinished frame; from reactor.room

	// Requests are numbered from 0. Those below head are answered in out or
	// further; those from next on have not come yet. See ring.go.
	head, next uint64
	ring       []answer
	parked     int // answers in ring
	late       []lateAnswer
	marks      marks // PUB bytes unanswered

	pull   *flow.Pull // under way: what arrives waits in behind
	behind behind

	subs []*flow.Subscription // by id
	held []heldNotice         // for subscriptions whose SUB is not answered in the stream yet

	out     []byte                     // whole frames to be written
	outBody *bytebufferpool.ByteBuffer // where out comes from, when not from reactor.bufs
	pieces  int                        // writes since the backlog was empty
	backlog int                        // bytes in gnet's outbound buffer when last seen
	moved   time.Duration              // when the peer was last seen to take bytes

	rate rate
	end  lastWord
}

func newSession(r *reactor, id uint64, remote string) *session {
	now := r.srv.cfg.Clock()
	s := &session{r: r, born: now, lastByte: now, lastFrame: now, moved: now}
	s.conn = flow.Conn{ID: id, Loop: r.id, Session: s, Remote: remote}
	return s
}

// full reports whether the limit of unanswered requests is reached (S7).
func (s *session) full() bool { return s.next-s.head >= uint64(s.r.limits.Requests) }

// sub returns a live subscription of this connection, or nil, and notes that a frame named it (G3).
func (s *session) sub(id codec.SubscriptionID) *flow.Subscription {
	if int(id) >= len(s.subs) {
		return nil
	}
	sub := s.subs[id]
	if sub == nil || !sub.Alive.Load() {
		return nil
	}
	s.r.seen(sub)
	return sub
}

// seen notes that a frame named a subscription. One store per turn: the value is the turn's time.
func (r *reactor) seen(sub *flow.Subscription) {
	if now := int64(r.now); sub.LastSeen.Load() != now {
		sub.LastSeen.Store(now)
	}
}

func (s *session) subscribed(sub *flow.Subscription) {
	if n := int(sub.ID) + 1; n > len(s.subs) {
		s.subs = append(s.subs, make([]*flow.Subscription, n-len(s.subs))...)
	}
	s.subs[sub.ID] = sub
	s.r.seen(sub)
}

func (s *session) unsubscribed(sub *flow.Subscription) {
	if int(sub.ID) >= len(s.subs) || s.subs[sub.ID] != sub {
		return
	}
	s.subs[sub.ID] = nil
	for n := len(s.subs); n > 0 && s.subs[n-1] == nil; n-- {
		s.subs = s.subs[:n-1]
	}
	if len(s.subs) == 0 {
		s.subs = nil
	}
}

// forget ends what others may still do for the session: nothing is sent to it any
// more. Its socket may live on until everything is in the kernel.
func (s *session) forget() {
	if s.conn.Gone.Swap(true) {
		return
	}
	if p := s.pull; p != nil && p.Cancel() {
		s.r.srv.pulls.Add(-1)
		releaseBody(p)
	}
	s.pull = nil
	s.dropPart()
	s.behind.clear(s.r)
	s.ring, s.parked, s.late, s.marks = nil, 0, nil, marks{}
	s.subs, s.held = nil, nil
	s.r.backend.Closed(&s.conn)
}

// shrink gives back what an idle session holds.
func (s *session) shrink() {
	if s.head == s.next && s.r.now-s.lastFrame >= time.Second {
		s.ring, s.late, s.marks = nil, nil, marks{}
	}
}

func releaseBody(p *flow.Pull) {
	if p.Body != nil {
		bytebufferpool.Put(p.Body)
		p.Body = nil
	}
}
