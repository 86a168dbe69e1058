package client

import (
	"errors"
	"fmt"
	"time"

	"github.com/mortarmq/mortarmq/codec"
)

// Start says where a group that does not exist yet begins.
type Start uint8

const (
	// Earliest is the earliest retained message.
	Earliest Start = Start(codec.StartEarliest)
	// Latest is after the newest message at the moment the group is created.
	Latest Start = Start(codec.StartLatest)
)

// ConsumerOptions says what a Consumer consumes and how much it takes at a
// time. Topic and Group must be set.
type ConsumerOptions struct {
	// Topic is the name of the topic.
	Topic string
	// Group is the name of the group: its members share the partitions.
	// 1 to 255 bytes of UTF-8 without white space and control characters.
	Group string
	// Start is part of the group's definition: joining with another one is
	// refused with GROUP_EXISTS_MISMATCH. Default Earliest.
	Start Start
	// NoCreate refuses to join (UNKNOWN_GROUP) rather than create the group.
	NoCreate bool
	// DeadLetter consumes the topic's dead-letter twin instead: the messages
	// that failed all their attempts, with their Origin.
	DeadLetter bool

	// CreditCount and CreditBytes are the credit window: what may be delivered
	// and not yet settled. Defaults 256 messages and 2 MiB; at most 65,535 and
	// 4 GiB - 1. More keeps the handler busy over a slow network; less bounds memory, and
	// what is delivered again when the process dies.
	CreditCount int
	CreditBytes int
	// FixedCredit makes Run fail with MESSAGE_EXCEEDS_CREDIT at a message larger than
	// CreditBytes. Default: the byte window is enlarged to the largest message there can be, once.
	FixedCredit bool
	// MaxMsgs bounds the messages per PULL. Default 0: as many as the credit
	// allows. Smaller shares a busy partition more evenly.
	MaxMsgs int
	// MaxWait is how long a PULL waits for messages. Default 5 s, which is also
	// the broker's default bound. Longer costs fewer requests when nothing happens.
	MaxWait time.Duration

	// ManualAck leaves settling to the handler and what it hands the deliveries to: Delivery.Ack,
	// Nack. A handler's error still gives the message back. The bytes of a delivery then stay
	// valid until it is settled.
	ManualAck bool
	// NoAck settles nothing: the messages are kept from others while Run runs and handed back, as if
	// nothing had happened, when it ends. At most the credit window's content is seen.
	NoAck bool
	// ProgressEvery is how often the lease of a delivery that waits for the
	// handler, or is in its hands, is renewed (with ManualAck: only until it is handed out). Default
	// 10 s, negative: never. It must be well below the broker's
	// delivery_lease_ms (30 s): a lease that runs out is a failed attempt.
	ProgressEvery time.Duration

	// RevokeTimeout is how long a partition that is wanted elsewhere waits for its
	// delivery that is being handled; then it is given away, and the message is
	// delivered again to its new owner. Default 8 s: the broker takes it after 10 s.
	RevokeTimeout time.Duration
	// LeaveTimeout bounds the orderly end of Run: the handler in hand, then the
	// leaving. Then the handler's context ends. Default 10 s.
	LeaveTimeout time.Duration
	// RetryTimeout is how long Run tries to join again after a loss before it
	// returns the cause. Default 0: until its context ends.
	RetryTimeout time.Duration

	// OnRebalance, when set, is told of every partition that comes and goes, in
	// order, one at a time: after it has come and before its first message; when nothing of it is
	// being handled any more and before others may have it. It must return soon.
	OnRebalance func(Rebalance)
}

// Rebalance is a partition that came or went.
type Rebalance struct {
	Partition codec.Partition
	Assigned  bool // came; else went
	// Lost says that it went without warning: with the connection, or because
	// the broker took it. A message may be in the handler's hands meanwhile.
	Lost bool
}

// Validate returns all faults of o at once, or nil.
func (o ConsumerOptions) Validate() error {
	o = o.withDefaults()
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("client: ConsumerOptions."+format, args...))
	}
	if err := codec.CheckTopicName([]byte(o.Topic)); err != nil {
		fault("Topic: %w", localRefusal(codec.OpSub, err))
	}
	if err := codec.CheckGroupName([]byte(o.Group)); err != nil {
		fault("Group: %w", localRefusal(codec.OpSub, err))
	}
	if o.Start > Latest {
		fault("Start is %d; set Earliest or Latest", o.Start)
	}
	if o.CreditCount < 1 || o.CreditCount > 0xFFFF {
		fault("CreditCount is %d; set 1 to 65535, or 0 for the default", o.CreditCount)
	}
	if o.CreditBytes < 1 || o.CreditBytes > 0xFFFF_FFFF {
		fault("CreditBytes is %d; set 1 to 4294967295, or 0 for the default", o.CreditBytes)
	}
	if o.MaxMsgs < 0 || o.MaxMsgs > 0xFFFF {
		fault("MaxMsgs is %d; set 1 to 65535, or 0 for as many as the credit allows", o.MaxMsgs)
	}
	if o.MaxWait < time.Millisecond || o.MaxWait > 65*time.Second {
		fault("MaxWait is %v; set 1ms to 65s, or 0 for the default", o.MaxWait)
	}
	if o.ManualAck && o.NoAck {
		fault("ManualAck and NoAck exclude each other")
	}
	if o.RevokeTimeout < 0 || o.LeaveTimeout < 0 || o.RetryTimeout < 0 {
		fault("RevokeTimeout, LeaveTimeout or RetryTimeout is negative; set a positive duration, or 0 for the default")
	}
	return errors.Join(faults...)
}

func (o ConsumerOptions) withDefaults() ConsumerOptions {
	defaultTo(&o.CreditCount, 256)
	defaultTo(&o.CreditBytes, 2<<20)
	defaultTo(&o.MaxWait, 5*time.Second)
	defaultTo(&o.ProgressEvery, 10*time.Second)
	defaultTo(&o.RevokeTimeout, 8*time.Second)
	defaultTo(&o.LeaveTimeout, 10*time.Second)
	return o
}
