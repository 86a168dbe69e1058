package loop

import (
	"sync/atomic"

	"github.com/mortarmq/mortarmq/codec"
)

// Stats is what a Server has counted since it started. Counters only grow.
type Stats struct {
	Connections  int64             // open now
	Accepted     uint64            // connections
	Rejected     uint64            // closed at accept: MaxConns
	AcceptErrors uint64            // failed attempts to accept, such as EMFILE
	Closed       map[string]uint64 // connections by cause: peer, refused, auth_timeout, half_frame, keepalive, slow_consumer, memory, deadline, internal, drain
	Errors       map[codec.Code]uint64
	Frames       map[codec.Op]uint64 // whole frames received
	BytesIn      uint64
	BytesOut     uint64 // handed to gnet
	WaitingPulls int64  // under way now
	Unfinished   int64  // bytes held now for frames that are not served yet
	Backlog      int64  // bytes waiting to be written now, as last seen
	Panics       uint64 // while a session was served
}

// Stats returns the counters. Safe to call from any goroutine.
func (s *Server) Stats() Stats {
	out := Stats{
		Connections: s.conns.Load(), WaitingPulls: s.pulls.Load(),
		Unfinished: s.unfinished.Load(), Backlog: s.backlog.Load(),
		Accepted: s.counts.accepted.Load(), Rejected: s.counts.rejected.Load(),
		AcceptErrors: s.counts.acceptErrors.Load(), Panics: s.counts.panics.Load(),
		Closed: map[string]uint64{}, Errors: map[codec.Code]uint64{}, Frames: map[codec.Op]uint64{},
	}
	for c := range causes {
		if n := s.counts.closed[c].Load(); n > 0 {
			out.Closed[c.String()] = n
		}
	}
	for _, row := range codec.Codes() {
		if n := s.counts.errors.load(row.Code); n > 0 {
			out.Errors[row.Code] = n
		}
	}
	for _, r := range s.reactors {
		out.BytesIn += r.counts.bytesIn.Load()
		out.BytesOut += r.counts.bytesOut.Load()
		for op := codec.OpConnect; op.Known(); op++ {
			if n := r.counts.frames[op].Load(); n > 0 {
				out.Frames[op] += n
			}
		}
	}
	return out
}

// serverCounts are counted where nothing is hot.
type serverCounts struct {
	accepted, rejected, acceptErrors, panics atomic.Uint64
	closed                                   [causes]atomic.Uint64
	errors                                   errorCounts
}

// errorCounts counts codes by segment (0x0xxx, 0x2xxx, 0x4xxx, 0x6xxx) and number.
type errorCounts [4][64]atomic.Uint64

func (e *errorCounts) at(c codec.Code) *atomic.Uint64 {
	segment, number := c>>12, c&0xFFF
	if segment%2 != 0 || segment > 6 || int(number) >= len(e[0]) {
		return nil
	}
	return &e[segment/2][number]
}

func (e *errorCounts) add(c codec.Code) {
	if n := e.at(c); n != nil {
		n.Add(1)
	}
}

func (e *errorCounts) load(c codec.Code) uint64 {
	if n := e.at(c); n != nil {
		return n.Load()
	}
	return 0
}

// turnCounts is what one turn counts, without atomics.
type turnCounts struct {
	frames            [16]uint64
	bytesIn, bytesOut uint64
}

// reactorCounts has one writer, its reactor.
type reactorCounts struct {
	frames            [16]atomic.Uint64
	bytesIn, bytesOut atomic.Uint64
}

// add moves a turn's counts over.
func (c *reactorCounts) add(t *turnCounts) {
	for op, n := range t.frames {
		if n > 0 {
			c.frames[op].Add(n)
		}
	}
	if t.bytesIn > 0 {
		c.bytesIn.Add(t.bytesIn)
	}
	if t.bytesOut > 0 {
		c.bytesOut.Add(t.bytesOut)
	}
	*t = turnCounts{}
}
