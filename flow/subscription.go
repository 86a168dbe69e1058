package flow

import (
	"sync/atomic"

	"github.com/mortarmq/mortarmq/codec"
)

// Subscription is one member of a group, bound to one connection. The control
// plane makes it; the loop finds it in the session's table; shards deliver to it.
type Subscription struct {
	Conn      *Conn
	Slot      uint64 // of the SUB: no NOTICE is written before that answer
	ID        codec.SubscriptionID
	Topic     codec.TopicID
	Group     codec.GroupID
	GroupName string
	Member    codec.MemberID

	// Written by the control plane only.
	Membership EpochRange
	Assignment EpochRange
	Owned      atomic.Pointer[[]Owned] // ascending by partition; nil: none
	Alive      atomic.Bool

	// Written by the loop only: the last frame that named the subscription, on the monotonic clock, in ns.
	LastSeen atomic.Int64

	Credit Credit
}

// Owned is a partition that a member owns and confirmed.
type Owned struct {
	Partition codec.Partition
	Epoch     codec.OwnershipEpoch
}

// EpochRange is the range of epochs that are current for a member: from the
// last it confirmed to the last it was told (G4).
type EpochRange struct{ v atomic.Uint64 }

// Set stores the range.
func (r *EpochRange) Set(confirmed, told uint32) {
	r.v.Store(uint64(confirmed)<<32 | uint64(told))
}

// Contains reports whether epoch is current.
func (r *EpochRange) Contains(epoch uint32) bool {
	v := r.v.Load()
	return epoch >= uint32(v>>32) && epoch <= uint32(v)
}

// Credit is a subscription's window and what is outstanding in it (V5). The window is
// written by the loop only (CREDIT), outstanding by the shards, Blocked by the
// holder of the subscription's Pull.
type Credit struct {
	count, bytes       atomic.Int64
	outCount, outBytes atomic.Int64
	epoch              atomic.Uint64
	Blocked            atomic.Int64 // credit bytes of the next message when it exceeds the window's bytes (V6), else 0
}

// SetWindow stores the window: messages and bytes.
func (c *Credit) SetWindow(count uint16, bytes uint32) {
	c.count.Store(int64(count))
	c.bytes.Store(int64(bytes))
}

// Window returns the window: messages and bytes.
func (c *Credit) Window() (count, bytes int64) { return c.count.Load(), c.bytes.Load() }

// Outstanding returns what was delivered and is not settled yet.
func (c *Credit) Outstanding() (count, bytes int64) { return c.outCount.Load(), c.outBytes.Load() }

// Take accounts for a delivery of n credit bytes.
func (c *Credit) Take(n int) { c.outCount.Add(1); c.outBytes.Add(int64(n)) }

// Return accounts for a settled delivery of n credit bytes.
func (c *Credit) Return(n int) { c.outCount.Add(-1); c.outBytes.Add(-int64(n)) }

// NextEpoch returns a number that grows with each CREDIT.
func (c *Credit) NextEpoch() uint64 { return c.epoch.Add(1) }
