package coord

import "time"

// Config holds the limits and times of the control plane. A field that is zero
// gets the default in brackets.
type Config struct {
	// DefaultPartitions is what a new topic gets that is declared with 0 (T1) [4].
	DefaultPartitions uint16
	// MaxPartitions caps the partitions of one topic [1024]; at most 65534.
	MaxPartitions uint16
	// MaxTotalPartitions caps the partitions of all source topics together [65536]. A twin
	// has as many again, which are not counted.
	MaxTotalPartitions int
	// MaxMembers caps the members of a group [10].
	MaxMembers int
	// MaxSubscriptions caps the subscriptions of a connection [64].
	MaxSubscriptions int
	// MaxWaiting caps the commands that wait behind a metadata change [16384]; more are
	// answered 0x4001.
	MaxWaiting int
	// NoticeTimeout is how long a member may take to confirm a NOTICE (G6) [10 s].
	NoticeTimeout time.Duration
	// MemberTimeout is how long a member may leave its subscription unnamed (G3) [45 s].
	MemberTimeout time.Duration
	// RetryAssign is the pause before a partition is offered again to members that all refused it (G9) [1 s].
	RetryAssign time.Duration
	// MaxRecord caps a record of the meta log, in bytes [65536]; a larger one is 0x2007.
	MaxRecord int
}

// maxPartitions is one below codec.AnyPartition, which is no partition's number.
const maxPartitions = 0xFFFE

func (c Config) withDefaults() Config {
	set(&c.DefaultPartitions, 4)
	set(&c.MaxPartitions, 1024)
	set(&c.MaxTotalPartitions, 65536)
	set(&c.MaxMembers, 10)
	set(&c.MaxSubscriptions, 64)
	set(&c.MaxWaiting, 16384)
	set(&c.NoticeTimeout, 10*time.Second)
	set(&c.MemberTimeout, 45*time.Second)
	set(&c.RetryAssign, time.Second)
	set(&c.MaxRecord, 1<<16)
	c.MaxPartitions = min(c.MaxPartitions, maxPartitions)
	return c
}

func set[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
