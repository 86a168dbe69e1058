package flow

import "github.com/mortarmq/mortarmq/codec"

// Topics is an immutable table of the topics, indexed by topic id. The control plane
// publishes a new one with every change; readers take no lock.
type Topics struct {
	ByID   []Topic
	Shards int
}

// Topic is one row of the table.
type Topic struct {
	Exists     bool
	Name       string // with the .dlq suffix for a twin
	Partitions uint16
}

// Get returns the row of id, or one that does not exist.
func (t *Topics) Get(id codec.TopicID) *Topic {
	if int(id) < len(t.ByID) {
		return &t.ByID[id]
	}
	return &noTopic
}

var noTopic Topic

// Shard returns the shard that owns a partition. A twin's partition lives with
// its source's, so that a move between them is one log record (V11).
func (t *Topics) Shard(id codec.TopicID, p codec.Partition) int {
	return ShardOf(id, p, t.Shards)
}

// ShardOf spreads the partitions of a topic, and the first partitions of all topics, over the shards.
func ShardOf(id codec.TopicID, p codec.Partition, shards int) int {
	return (int(id.Source())/2 + int(p)) % shards
}

// Sources counts the source topics.
func (t *Topics) Sources() int {
	n := 0
	for id := 1; id < len(t.ByID); id += 2 {
		if t.ByID[id].Exists {
			n++
		}
	}
	return n
}
