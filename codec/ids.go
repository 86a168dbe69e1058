package codec

import "fmt"

// Distinct types for distinct numbers: the compiler keeps a sequence from
// being passed where a delivery id belongs.
type (
	// TopicID names a topic on the wire. 0 is never allocated. A source topic
	// has an odd id, its dead-letter twin the next even one.
	TopicID uint16
	// Partition counts from 0 within a topic.
	Partition uint16
	// Sequence is a message's place in its partition; the first is 1.
	Sequence uint64
	// ProducerID is chosen by the producer; 0 means "not idempotent".
	ProducerID uint64
	// ProducerSeq numbers one producer's messages within one partition.
	ProducerSeq uint64
	// SubscriptionID names a subscription on its connection: 1..65535.
	SubscriptionID uint16
	// GroupID names a consumer group on this broker: 1..65535.
	GroupID uint16
	// MemberID names one membership; never 0, never reused.
	MemberID uint64
	// DeliveryID names one delivery of one message to one member.
	DeliveryID uint64
	// OwnershipEpoch fences owners of a partition: the leader's term in the
	// upper 32 bits, a counter in the lower.
	OwnershipEpoch uint64
	// NoticeID names a NOTICE, echoed in CONTROL_ACK.
	NoticeID uint64
)

// AnyPartition is the only value SUB.partition may have in v0: the broker
// assigns partitions to members.
const AnyPartition Partition = 0xFFFF

// IsTwin reports whether id belongs to a dead-letter twin (even slots).
func (id TopicID) IsTwin() bool { return id != 0 && id%2 == 0 }

// Twin returns the id of the dead-letter twin of a source topic.
func (id TopicID) Twin() TopicID { return id + 1 }

// Source returns the id of the source topic that id or its twin belongs to.
func (id TopicID) Source() TopicID { return (id - 1) | 1 }

// Op is the operation byte of a frame.
type Op uint8

// The 15 ops of wire version 1: 9 core ops and 6 extension ops.
const (
	OpConnect    Op = 0x01
	OpDeclare    Op = 0x02
	OpPub        Op = 0x03
	OpSub        Op = 0x04
	OpAck        Op = 0x05
	OpNack       Op = 0x06
	OpPing       Op = 0x07
	OpErr        Op = 0x08
	OpOK         Op = 0x09
	OpMsg        Op = 0x0A
	OpPull       Op = 0x0B
	OpHeartbeat  Op = 0x0C
	OpNotice     Op = 0x0D
	OpControlAck Op = 0x0E
	OpCredit     Op = 0x0F
)

// Known reports whether op is one of the 15 ops of this version.
func (op Op) Known() bool { return op >= OpConnect && op <= OpCredit }

var opNames = [...]string{
	OpConnect: "CONNECT", OpDeclare: "DECLARE", OpPub: "PUB", OpSub: "SUB", OpAck: "ACK",
	OpNack: "NACK", OpPing: "PING", OpErr: "ERR", OpOK: "OK", OpMsg: "MSG", OpPull: "PULL",
	OpHeartbeat: "HEARTBEAT", OpNotice: "NOTICE", OpControlAck: "CONTROL_ACK", OpCredit: "CREDIT",
}

// String returns the op's name in the protocol, or its number in hex.
func (op Op) String() string {
	if op.Known() {
		return opNames[op]
	}
	return fmt.Sprintf("op 0x%02X", uint8(op))
}
