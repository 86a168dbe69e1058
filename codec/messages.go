package codec

// One struct per op, its fields in byte order and named as in the protocol.
// Byte slices in a decoded struct are views into the input: they live as long
// as it does.

// Connect is C→S 0x01: the first request of a connection.
type Connect struct {
	ProtocolVersion uint8 // must be WireVersion
	ClientFlags     uint16
	Token           []byte
	Reserved        uint32 // must be 0
}

// Flag bits of the ops that have some in v0.
const (
	DeclareDelete  uint16 = 1 << 0 // DECLARE.flags: delete the topic instead (T2)
	SubNoCreate    uint16 = 1 << 0 // SUB.flags: refuse rather than create the group (G2)
	AckProgress    uint16 = 1 << 0 // ACK.flags: restart the lease, settle nothing
	MsgDeadLetter  uint16 = 1 << 0 // MSG.flags: the frame ends in an Origin (V12)
	PubDeduped     uint8  = 1 << 0 // PUB result_flags: stored before, original sequence returned
	DurableMemory  uint8  = 0      // PUB durability: in this node's memory
	DurableDisk    uint8  = 1      // PUB durability: on this node's disk
	DurableQuorum  uint8  = 2      // PUB durability: on the disks of a majority
	CreatedNew     uint8  = 0      // DECLARE result: the topic was created
	CreatedExisted uint8  = 1      // DECLARE result: it existed with this shape
)

// Declare is C→S 0x02: create, look up or delete a topic.
type Declare struct {
	Topic          []byte
	PartitionCount uint16 // 0: the default for a new topic, any for an existing one (T1)
	Flags          uint16
}

// DeclareResult is the OK result of DECLARE.
type DeclareResult struct {
	TopicID        TopicID
	PartitionCount uint16
	Created        uint8
}

// Pub is C→S 0x03: one message for one partition.
type Pub struct {
	TopicID     TopicID
	Partition   Partition
	ProducerID  ProducerID
	ProducerSeq ProducerSeq
	Flags       uint16
	Key         []byte
	Value       []byte
	// Tail is the view from producer_id to the end of value: with its two
	// flags bytes zeroed it is the stored record and the end of a MSG (P8).
	// Decoders set it; AppendPub ignores it.
	Tail []byte
}

// PubResult is the OK result of PUB.
type PubResult struct {
	Sequence    Sequence
	Durability  uint8
	LeaderEpoch uint64
	CommitSeq   Sequence
	ResultFlags uint8
}

// Start policies of SUB.
const (
	StartEarliest uint8 = 0 // from the earliest retained message
	StartLatest   uint8 = 1 // after the newest message at that moment
)

// Sub is C→S 0x04: join a group on a topic.
type Sub struct {
	Group       []byte
	TopicID     TopicID
	Partition   Partition // must be AnyPartition
	StartPolicy uint8
	CreditCount uint16 // 0: 256
	CreditBytes uint32 // 0: 2 MiB
	Flags       uint16
}

// SubResult is the OK result of SUB.
type SubResult struct {
	SubscriptionID  SubscriptionID
	MemberID        MemberID
	MembershipEpoch uint32
	AssignmentEpoch uint32
}

// Ack is C→S 0x05: settle a delivery, or with AckProgress keep it leased.
type Ack struct {
	SubscriptionID SubscriptionID
	TopicID        TopicID
	Partition      Partition
	Seq            Sequence
	DeliveryID     DeliveryID
	OwnershipEpoch OwnershipEpoch
	Flags          uint16
}

// NACK reasons (V9). Any other value counts as NackRetry.
const (
	NackRetry   uint8 = 0
	NackReject  uint8 = 1
	NackRelease uint8 = 2
)

// Nack is C→S 0x06: give a delivery back.
type Nack struct {
	SubscriptionID SubscriptionID
	TopicID        TopicID
	Partition      Partition
	Seq            Sequence
	DeliveryID     DeliveryID
	OwnershipEpoch OwnershipEpoch
	Reason         uint8
	Flags          uint16
}

// Err is 0x08, both directions: the answer to a request that was refused.
type Err struct {
	Code      Code
	RequestOp uint8 // kept as a number: may name an op this build does not know (C1)
	Message   []byte
}

// OK is 0x09: the answer to a request that was served.
type OK struct {
	RequestOp Op
	Result    []byte
}

// Msg is S→C 0x0A: one delivery.
type Msg struct {
	SubscriptionID SubscriptionID
	TopicID        TopicID
	Partition      Partition
	Sequence       Sequence
	DeliveryID     DeliveryID
	Attempt        uint16
	OwnershipEpoch OwnershipEpoch
	ProducerID     ProducerID
	ProducerSeq    ProducerSeq
	Flags          uint16
	Key            []byte
	Value          []byte
	Origin         Origin // only with MsgDeadLetter
}

// Reasons a message was dead-lettered for (V12).
const (
	DeadNack       uint8 = 0
	DeadReject     uint8 = 1
	DeadLease      uint8 = 2
	DeadMemberLost uint8 = 3
)

// Origin is the tail of a MSG from a dead-letter twin: where it came from (V12).
type Origin struct {
	TopicID   TopicID
	Partition Partition
	Sequence  Sequence
	Attempts  uint16
	Reason    uint8
	Group     []byte
}

// Pull is C→S 0x0B: ask for messages.
type Pull struct {
	SubscriptionID  SubscriptionID
	MemberID        MemberID
	MembershipEpoch uint32
	AssignmentEpoch uint32
	OwnershipEpochs Epochs
	MaxMsgs         uint16 // 0: as many as credit allows
	MaxBytes        uint32 // 0: as much as credit allows
	WaitMs          uint16
	MinBytes        uint32
}

// States of HEARTBEAT.
const (
	HeartbeatActive uint8 = 0
	HeartbeatLeave  uint8 = 1
)

// Heartbeat is C→S 0x0C: I am alive, or I leave.
type Heartbeat struct {
	SubscriptionID  SubscriptionID
	MemberID        MemberID
	MembershipEpoch uint32
	AssignmentEpoch uint32
	State           uint8
}

// Kinds of NOTICE.
const (
	NoticeAssign uint8 = 0
	NoticeRevoke uint8 = 1
)

// Notice is S→C 0x0D: a partition is yours, or no longer.
type Notice struct {
	NoticeID        NoticeID
	Kind            uint8
	GroupID         GroupID
	MembershipEpoch uint32
	AssignmentEpoch uint32
	OwnershipEpoch  OwnershipEpoch
	TopicID         TopicID
	Partition       Partition
	MemberID        MemberID
}

// Results of CONTROL_ACK.
const (
	ControlOK    uint8 = 0
	ControlStale uint8 = 1
	ControlError uint8 = 2
)

// ControlAck is C→S 0x0E: the answer to a NOTICE.
type ControlAck struct {
	NoticeID        NoticeID
	NoticeKind      uint8
	GroupID         GroupID
	MembershipEpoch uint32
	AssignmentEpoch uint32
	OwnershipEpoch  OwnershipEpoch
	Result          uint8
}

// Modes of CREDIT.
const (
	CreditSet uint8 = 0
	CreditAdd uint8 = 1
)

// Credit is C→S 0x0F: change the credit window.
type Credit struct {
	SubscriptionID  SubscriptionID
	MembershipEpoch uint32
	OwnershipEpoch  OwnershipEpoch // 0: not checked
	Mode            uint8
	CreditCount     uint16
	CreditBytes     uint32
	Reserved        uint32 // must be 0
}

// CreditResult is the OK result of CREDIT.
type CreditResult struct {
	GrantedCount     uint16
	GrantedBytes     uint32
	OutstandingCount uint16
	OutstandingBytes uint32
	CreditEpoch      uint64
}

// Epochs is a view of PULL.ownership_epochs: 8 big-endian bytes each.
type Epochs []byte
