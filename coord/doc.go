// Package coord is the control plane: which topics and groups there are, who is a
// member of which group, and who owns which partition. It is a pure state machine.
//
//	committed meta record ──► Apply ──► effects
//	command, time         ──► Step  ──► effects
//
// The durable part (topics with their paired ids, groups) is what the records of
// the meta log say, applied in order; every node has the same. The volatile part
// (members, assignment, notices) lives on the leader only and begins empty with
// every Lead: members join again.
//
// # It promises
//
//   - Every command with a Token is answered by exactly one Reply, unless its
//     connection has been reported gone.
//   - A partition of a group has at most one owner: an Own is followed by the
//     Disown of the same member and epoch before the next Own (G7), and its epoch
//     is above every earlier one, also those of earlier terms (G4).
//   - The same calls give the same effects, bit for bit: no clock, no randomness,
//     no map order.
//   - A record that cannot be read changes nothing and is a typed error.
//
// # It never
//
// starts a goroutine, does I/O, reads a clock, blocks, or keeps bytes that the
// caller passed in. It is not safe for concurrent use: one goroutine owns a Core.
//
// # How a partition moves
//
// Every partition of a group with members is in one of these states:
//
//	          ASSIGN sent              CONTROL_ACK(OK): Own
//	unowned ───────────────► assigning ───────────────────► owned
//	   ▲      ◄───────────────  │   not confirmed in time, ERROR,   │
//	   │                        │   or the target changed           │ REVOKE sent
//	   │                        ▼                                   ▼
//	   └────────────────────────────── Disown ◄──────────────── revoking
//	                      CONTROL_ACK, timeout (fenced), leave, loss
//
// An ASSIGN that nobody confirmed is superseded at once when the target changes:
// nothing was delivered, so nothing has to be revoked; its late confirmation is
// answered 0x0020. A REVOKE that was sent is always carried through, also when
// the target has become the old owner again: it may have let go already.
//
// # Reading order
//
// config.go, command.go and effect.go are the interface; core.go ties the parts
// together. Durable: registry.go, record.go, snapshot.go (bytes in FORMAT.md), apply.go.
// Topics and the order of metadata changes: queue.go, declare.go, farewell.go. Groups:
// assign.go, group.go, subscribe.go, member.go, move.go, notice.go,
// controlack.go, heartbeat.go, tick.go. check.go has the invariants.
package coord
