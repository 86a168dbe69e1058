package client

import (
	"errors"
	"fmt"
	"time"

	"github.com/mortarmq/mortarmq/codec"
)

// ProducerOptions says how a Producer numbers, pipelines and retries. The
// zero value is an idempotent producer with a random id.
type ProducerOptions struct {
	// ProducerID names the producer to the broker, which stores each number of it once
	// per partition. 0: a random one, and the Producer numbers by itself. Any other: the
	// numbers are the caller's (PublishSeq), or count Publish calls from 1 per partition; they never
	// change, so that the same run can be repeated from its beginning without
	// storing anything twice. One id must not be used by two producers at a time.
	ProducerID codec.ProducerID

	// NonIdempotent sends messages without id and number. They cost the broker
	// a little less, but one whose answer was lost is reported with
	// ErrOutcomeUnknown instead of sent again, and messages that are sent again
	// after a refusal may end up behind later ones.
	NonIdempotent bool

	// MaxInFlight is how many messages may be accepted and not yet reported.
	// Default 1024, at most 4000: the broker refuses more than 4,096 unanswered requests on a
	// connection (S7). More keeps a fast broker busier, less bounds memory and
	// latency under load.
	MaxInFlight int

	// MaxInFlightBytes bounds key and value bytes in flight. Default 16 MiB, at most
	// 32 MiB (S7). A single larger message is sent alone.
	MaxInFlightBytes int

	// RetryTimeout is how long after its acceptance a message may be sent again.
	// Then it is reported with ErrRetryTimeout and the last cause. Default
	// 2 min. Longer rides out longer outages, with the window full meanwhile.
	RetryTimeout time.Duration

	// Partitioner chooses the partition of a message without Partition. Default: FNV-1a of
	// the key (P7), in turn without a key. A result outside 0..partitions-1 fails the message. It may be called
	// from several goroutines.
	Partitioner func(m *Message, partitions int) codec.Partition
}

// Relations between limits: what is in flight, with a PING, stays within what
// the broker takes (S7), and one partition's part of it within the dedup window (P4).
const (
	maxInFlight      = 4000
	maxInFlightBytes = 32 << 20
	dedupWindow      = 1024

	_ = uint(4096 - 1 - maxInFlight)
)

// Validate returns all faults of o at once, or nil.
func (o ProducerOptions) Validate() error {
	o = o.withDefaults()
	var faults []error
	if o.NonIdempotent && o.ProducerID != 0 {
		faults = append(faults, errors.New("client: ProducerOptions.NonIdempotent and ProducerID exclude each other"))
	}
	if o.MaxInFlight < 1 || o.MaxInFlight > maxInFlight {
		faults = append(faults, fmt.Errorf("client: ProducerOptions.MaxInFlight is %d; set 1 to %d, or 0 for the default", o.MaxInFlight, maxInFlight))
	}
	if o.MaxInFlightBytes < 1 || o.MaxInFlightBytes > maxInFlightBytes {
		faults = append(faults, fmt.Errorf("client: ProducerOptions.MaxInFlightBytes is %d; set 1 to %d, or 0 for the default", o.MaxInFlightBytes, maxInFlightBytes))
	}
	if o.RetryTimeout < 0 {
		faults = append(faults, fmt.Errorf("client: ProducerOptions.RetryTimeout is %v; set a positive duration, or 0 for the default", o.RetryTimeout))
	}
	return errors.Join(faults...)
}

func (o ProducerOptions) withDefaults() ProducerOptions {
	defaultTo(&o.MaxInFlight, 1024)
	defaultTo(&o.MaxInFlightBytes, 16<<20)
	defaultTo(&o.RetryTimeout, 2*time.Minute)
	return o
}
