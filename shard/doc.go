// Package shard is the data plane: the partitions of one shard with their
// sequences, dedup windows, indexes and delivery ledgers.
//
// It promises that an OK to a PUB follows the commit of its message, that a
// sequence never has two contents, that an ACK settles exactly the delivery it
// names, and that what was settled or failed survives a crash as far as V14
// says. It never blocks on a client, takes no lock on the hot path and knows no
// sockets.
//
// All state belongs to one Core, driven by one goroutine (Shard). One turn:
//
//	take the mailbox ──► commands, PUB, ACK, NACK, PULL change memory, stage records
//	written tickets  ──► raft ──► committed entries ──► apply: index, OKs, news for PULLs
//	timers           ──► leases, retries, waiting PULLs
//	seal             ──► all that is staged becomes one log entry (at most two on their way to the disk)
//	flush            ──► one hand-over of completions per reactor
//
// The busier a shard is, the larger its entries: while two entries are on their
// way to the disk nothing is sealed, so arrivals gather.
//
// Reading order: shard.go (goroutine and mailbox), core.go (one turn),
// partition.go, window.go, index.go, publish.go, entry.go with FORMAT.md (what
// is on disk), apply.go, ledger.go, settle.go, pull.go, dead.go, forget.go,
// snapshot.go, retention.go, damage.go, stop.go, stats.go.
package shard
