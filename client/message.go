package client

import (
	"fmt"

	"github.com/mortarmq/mortarmq/codec"
)

// Message is what is published.
type Message struct {
	// Key decides the partition, and so the order: messages with the same key keep
	// theirs. At most 255 bytes of any kind; empty: no key, the partitions take turns.
	Key []byte
	// Value is at most 16,776,192 bytes of any kind.
	Value []byte
	// Partition, when set, is where the message goes, whatever its key.
	Partition *codec.Partition
	// Tag is handed back in the Receipt, for callers that share one report
	// function among many messages.
	Tag uint64
}

// Receipt says where and how a message was stored. With an error, only
// Partition, ProducerID, ProducerSeq and Tag have a meaning.
type Receipt struct {
	Partition   codec.Partition
	Sequence    codec.Sequence // its place in the partition
	ProducerID  codec.ProducerID
	ProducerSeq codec.ProducerSeq
	// Durability is where it was stored when the broker answered: codec.DurableMemory,
	// DurableDisk or DurableQuorum.
	Durability uint8
	// Duplicate says that the broker had it already: an earlier attempt, or an
	// earlier run with the same numbers, stored it. Sequence is that of then.
	Duplicate bool
	Tag       uint64
}

// checkSize refuses what no frame can carry.
func (m *Message) checkSize() error {
	if len(m.Key) > codec.MaxKeyLen {
		return fmt.Errorf("%w: the key has %d bytes, at most %d are allowed", ErrTooLarge, len(m.Key), codec.MaxKeyLen)
	}
	if len(m.Value) > codec.MaxValueLen {
		return fmt.Errorf("%w: the value has %d bytes, at most %d are allowed", ErrTooLarge, len(m.Value), codec.MaxValueLen)
	}
	return nil
}
