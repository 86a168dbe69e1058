package flow

import (
	"sync/atomic"

	"github.com/mortarmq/mortarmq/codec"
)

// Conn is the return address of a client connection. The loop makes it at
// accept; every other floor only passes it along.
type Conn struct {
	ID   uint64 // never 0, never reused by this process
	Loop int    // the reactor that serves the connection
	// Session is the loop's own state. Only the reactor Loop may touch it.
	Session any
	// Gone is set by the loop once the connection is closed: work for it may
	// be dropped, completions for it are.
	Gone atomic.Bool
	// Remote is the peer's address, for logs.
	Remote string
}

// Completion is the answer to one request.
type Completion struct {
	Conn *Conn
	Slot uint64   // the request's number on its connection, counting from 0
	Op   codec.Op // the request's op
	Code codec.Code
	// Pub is the result of a PUB that was served.
	Pub codec.PubResult
	// Result is the OK result of any other op; nil is an empty one.
	Result []byte
	// Message is the ERR text when Code is not 0; "" means the code's standing text.
	Message string
	// Pull is set on the answer to a PULL: the loop writes Pull.Body (whole
	// MSG frames) in front of the OK and returns it to the pool.
	Pull *Pull
	// Subscribed is set on the answer to a served SUB, Unsubscribed on that to a LEAVE:
	// the loop adds it to, or takes it from, the session's table.
	Subscribed   *Subscription
	Unsubscribed *Subscription
}

// Notice is a NOTICE for a member's connection. The loop never writes it
// before the answer to the SUB that created the subscription.
type Notice struct {
	Sub    *Subscription
	Notice codec.Notice
}

// Replies takes answers up to the reactors. The loop implements it.
type Replies interface {
	// Complete hands answers to reactor loop and wakes it once. The slice is
	// copied before Complete returns. Every element's Conn.Loop equals loop.
	// Never blocks.
	Complete(loop int, batch []Completion)
	// Notify hands over notices, in order, after every completion handed over
	// before by the same goroutine. Never blocks.
	Notify(loop int, batch []Notice)
	// Revoked tells reactor loop that a subscription has ended without a LEAVE
	// (dropped, topic deleted): its table entry goes.
	Revoked(sub *Subscription)
}
