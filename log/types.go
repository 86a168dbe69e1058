package log

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/mortarmq/mortarmq/env"
)

// Index is an entry's place in the log; the first is 1.
type Index uint64

// Term is the raft term an entry was proposed in, or that a hard state names.
type Term uint64

// Ticket numbers the calls of Append, from 1. OnWritten reports the highest one
// that is done.
type Ticket uint64

// Entry is one record of the replicated log.
type Entry struct {
	Term  Term
	Index Index
	Type  uint8  // opaque to this package: raft's entry type
	Data  []byte // never changed after Append; nil and empty are the same
}

// HardState is what raft must not forget besides the entries.
type HardState struct {
	Term   Term
	Vote   uint64 // node voted for in Term, 0 = nobody
	Commit Index
}

// Policy says when OnWritten may report a write.
type Policy uint8

const (
	// SyncAlways: after the fdatasync that covers it.
	SyncAlways Policy = iota
	// SyncInterval: after the write; an fdatasync follows within SyncInterval.
	// A crash of the machine (not of the process) loses up to that much.
	SyncInterval
)

// Limits of Options and entries.
const (
	MinSegmentBytes     = 64 << 10
	MaxSegmentBytes     = 2 << 30 // offsets in a segment are kept in 32 bits
	DefaultSegmentBytes = 64 << 20
	DefaultTailBytes    = 16 << 20
	DefaultCacheBytes   = 8 << 20
	DefaultSyncInterval = 50 * time.Millisecond
	// MaxEntryBytes bounds Entry.Data; Append panics above it.
	MaxEntryBytes = 1 << 30
)

// Options are given to Open. The zero value of every field but Dir and
// OnWritten means its default.
type Options struct {
	// Dir holds the files of this log and nothing else. It is made when missing.
	// Excluding other processes is the caller's business (env.FS.Lock).
	Dir string
	// FS, Clock and Rand default to the real ones.
	FS    env.FS
	Clock env.Clock
	Rand  env.Rand
	// Logger gets warnings about torn tails and unknown files; default: none.
	Logger *slog.Logger
	// SegmentMaxBytes is the size of a segment file, 64 KiB to 2 GiB, default
	// 64 MiB. A larger entry gets a segment of its own. Smaller segments make
	// retention finer and cost a few more syncs per segment.
	SegmentMaxBytes int64
	// TailBytes bounds the entries kept in memory, default 16 MiB. Entries that
	// are not written yet are kept beyond it.
	TailBytes int
	// CacheBytes bounds the entries kept after Read fetched them from disk,
	// default 8 MiB.
	CacheBytes int
	// Policy and SyncInterval (default 50 ms) say when a write is reported.
	Policy       Policy
	SyncInterval time.Duration
	// OnWritten is called by the writer goroutine, in order: every Append up to
	// upTo is done, or, with err, will never be. An err is sticky: every later
	// call carries it. It must not block on the owner while the owner is in
	// Close.
	OnWritten func(upTo Ticket, err error)
	// OnSync, if set, is called by the writer goroutine after each fdatasync
	// with its duration and the bytes it covered.
	OnSync func(d time.Duration, bytes int)
}

func (o *Options) setDefaults() {
	if o.FS == nil {
		o.FS = env.OS()
	}
	if o.Clock == nil {
		o.Clock = env.SystemClock()
	}
	if o.Rand == nil {
		o.Rand = env.SystemRand()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.SegmentMaxBytes == 0 {
		o.SegmentMaxBytes = DefaultSegmentBytes
	}
	if o.TailBytes == 0 {
		o.TailBytes = DefaultTailBytes
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = DefaultCacheBytes
	}
	if o.SyncInterval == 0 {
		o.SyncInterval = DefaultSyncInterval
	}
}

// Validate returns all faults of the options joined, or nil.
func (o *Options) Validate() error {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("log options: "+format, args...))
	}
	if o.Dir == "" {
		fault("Dir is empty")
	}
	if o.OnWritten == nil {
		fault("OnWritten is missing")
	}
	if n := o.SegmentMaxBytes; n != 0 && (n < MinSegmentBytes || n > MaxSegmentBytes) {
		fault("SegmentMaxBytes is %d; it must be from %d to %d", n, MinSegmentBytes, int64(MaxSegmentBytes))
	}
	if o.TailBytes < 0 {
		fault("TailBytes is %d; it must not be negative", o.TailBytes)
	}
	if o.CacheBytes < 0 {
		fault("CacheBytes is %d; it must not be negative", o.CacheBytes)
	}
	if o.Policy > SyncInterval {
		fault("Policy %d is unknown", o.Policy)
	}
	if o.SyncInterval < 0 {
		fault("SyncInterval is %v; it must not be negative", o.SyncInterval)
	}
	return errors.Join(faults...)
}

// Stats are counters since Open, and sizes now.
type Stats struct {
	Segments  int   // files that hold records
	DiskBytes int64 // bytes of headers and records in them

	TailEntries int // entries in memory
	TailBytes   int
	CacheBytes  int
	CacheHits   uint64 // Reads answered from the cache of entries read back
	CacheMisses uint64 // Reads that went to the disk

	Writes        uint64 // pwritev calls
	WrittenBytes  uint64
	Syncs         uint64 // fdatasync calls for appended bytes
	SyncedBytes   uint64
	Rolls         uint64 // segments begun
	PreparedRolls uint64 // of them, those whose file was ready, written with zeros

	RecoveredRecords int   // records that Open found valid
	RecoveredBytes   int64 // bytes that Open read
	TornTails        int   // tails that Open cut
	TornBytes        int64 // bytes in them
}
