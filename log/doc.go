// Package log is the durable, append-only log of one replication group: raft's
// entries and its hard state, in segment files.
//
// It promises that what OnWritten reported without an error survives a crash of
// the process and of the machine (with SyncAlways), that entries come back with
// exactly the bytes that were appended or not at all, and that a file it does
// not understand is neither changed nor deleted. A failed write or sync is final:
// the log refuses everything from then on.
//
// It never interprets an entry's bytes, never blocks its owner on the disk, and
// never repairs damage in the middle: Open names file and offset instead.
//
// Two goroutines share a Log. The owner calls every method; positions, indexes
// and the in-memory tail belong to it and need no lock. The writer takes all
// queued work at once, writes it, syncs once, and calls OnWritten: one fdatasync
// frees every waiter up to it. A third goroutine fills the next segment file
// with zeros ahead of time.
//
// The bytes on disk are described in FORMAT.md.
//
// Reading order: types.go and errors.go; header.go and record.go (the format);
// log.go, segment.go, terms.go and tail.go (the owner's side); queue.go, writer.go
// and gather.go (the writer's); prepare.go; read.go and cache.go; scanner.go and
// recover.go (the start).
package log
