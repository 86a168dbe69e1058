package flow

import (
	"sync/atomic"
	"time"

	"github.com/mortarmq/mortarmq/codec"
	"github.com/valyala/bytebufferpool"
)

// Pull is one PULL that is being served. The partitions of a member may live
// in several shards, so a Pull is a token: exactly one party holds it at a time and
// only the holder touches its plain fields.
//
//	held ──Park──► parked ──Claim──► held ──► completed (once)
//
// The loop creates it held and hands it to a shard. A shard that finds nothing
// passes it on; after a whole round it parks it. A parked Pull is claimed by
// whoever has a reason to go on: a shard with news, a shard's timer, or the
// loop when the next request stands behind it (V2).
type Pull struct {
	Conn *Conn
	Slot uint64
	Sub  *Subscription

	MaxMsgs  int           // messages; no limit is math.MaxInt
	MaxBytes int           // value and key bytes; no limit is math.MaxInt
	MinBytes int           // 0 and 1: any message will do
	Wait     time.Duration // from arrival; already capped at poll_max_wait_ms
	Deadline time.Duration // on the broker's monotonic clock; 0 until the first shard sets it

	// Body holds the MSG frames gathered so far; nil until there is one.
	Body  *bytebufferpool.ByteBuffer
	Msgs  int
	Bytes int // as counted by MinBytes: value and key, an empty message counts 1
	Hops  int // shards visited in this round
	// Verdict is why a shard could deliver nothing although it had a message
	// (0x4005, 0x4006); the answer when the round ends with nothing delivered.
	Verdict codec.Code

	state     atomic.Uint32
	news      atomic.Bool
	cancelled atomic.Bool
}

const (
	pullHeld   uint32 = 0
	pullParked uint32 = 1
)

// Park gives the token up. It reports false when there is already a reason to
// go on (news or a cancellation that came in the meantime): then the caller still holds it.
func (p *Pull) Park() bool {
	p.state.Store(pullParked)
	if p.news.Load() || p.cancelled.Load() {
		return !p.Claim()
	}
	return true
}

// Claim takes the token of a parked Pull. It reports whether the caller now holds it.
func (p *Pull) Claim() bool {
	return p.state.CompareAndSwap(pullParked, pullHeld)
}

// News says that a shard has something new for the Pull and reports whether the
// caller now holds it. If another party does, that one goes another round.
func (p *Pull) News() bool {
	p.news.Store(true)
	return p.Claim()
}

// TakeNews reports and clears the news flag. Only the holder calls it.
func (p *Pull) TakeNews() bool { return p.news.Swap(false) }

// Cancel ends the wait: the Pull is answered with what is there. It reports
// whether the caller now holds it and has to complete it.
func (p *Pull) Cancel() bool {
	p.cancelled.Store(true)
	return p.Claim()
}

// Cancelled reports whether the wait was ended from outside.
func (p *Pull) Cancelled() bool { return p.cancelled.Load() }

// Completion is the answer to the Pull with what it has gathered, or with the
// code when there is nothing: what was delivered ends in OK, the ERR comes with the next PULL (V6).
func (p *Pull) Completion(code codec.Code) Completion {
	if p.Msgs > 0 {
		code = 0
	}
	return Completion{Conn: p.Conn, Slot: p.Slot, Op: codec.OpPull, Code: code, Pull: p}
}
