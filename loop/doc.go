// Package loop is the client side of the broker: it accepts connections, cuts
// frames, judges everything that needs no partition's state, hands requests to the
// shards and the control plane, and writes the answers in request order. It is a
// gnet event loop with rules; the rules are S1 to S9 of docs/protocol.md.
//
// # One turn
//
// A reactor is one goroutine. It serves its connections in turns:
//
//	read ──► feed ──► serve ──► staged, one slice per shard ──► Backend.Submit     (OnTraffic)
//	mailbox ──► answers ──► ring ──► one reply buffer per connection ──► Write     (Run)
//
// A read is at most 64 KiB and taken whole: whole frames are served where they
// lie, an unfinished one is gathered in a buffer of the session's own. The bytes
// of a PUB are copied once, into a chunk that many requests share; everything else is
// decoded into values. Requests of one read reach a shard in one call. Answers
// come back through a mailbox with one doorbell; those that arrive in request
// order are encoded at once, the others wait in the session's ring.
//
// # It promises
//
//   - Every request is answered exactly once and in its turn, also the one that is
//     refused, and also when the broker drains; unless its connection ends first.
//   - A frame that is bound to be refused is refused on the byte that decides it (S1).
//   - Memory follows bytes received, never lengths announced. What one connection
//     and what all of them may hold is bounded, in both directions (S7, S8).
//   - A panic while one session is served ends that session alone.
//   - No lock, map look-up or allocation for a single PUB, ACK or NACK; no
//     goroutine and no timer for a connection or a request.
//
// # It never
//
// blocks a reactor, stops reading in the middle of a frame, knows what a
// shard does with a request, or touches a disk.
//
// # Who may touch what
//
// Everything of a session and a reactor belongs to the reactor's goroutine,
// except the mailbox (its own mutex) and the counters (atomic). The acceptor
// makes sessions and hands them over.
//
// # Reading order
//
// config.go (what is configured, what the loop needs from the rest of the broker),
// server.go, acceptor.go, reactor.go (one turn), mailbox.go. Then a session:
// session.go, feed.go (bytes to frames), serve.go (frames to requests) and one file
// per request: connect.go, publish.go, settle.go (ACK, NACK), pull.go and behind.go
// (what waits behind a PULL), member.go (HEARTBEAT, CREDIT), control.go (DECLARE, SUB,
// LEAVE, CONTROL_ACK). The way back: ring.go (order), output.go (writing),
// closing.go (the last word), timers.go (S5). chunk.go and buffers.go are memory,
// guard.go is panics, stats.go and logs.go what operators see.
package loop
