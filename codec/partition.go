package codec

const (
	fnvOffset32 uint32 = 0x811C9DC5
	fnvPrime32  uint32 = 0x01000193
)

// PartitionFor returns the partition of a message with a key: FNV-1a of the
// key modulo count (P7). count is the topic's partition count and never 0.
// Messages without a key go round robin, which is the client's business.
func PartitionFor(key []byte, count uint16) Partition {
	h := fnvOffset32
	for _, b := range key {
		h = (h ^ uint32(b)) * fnvPrime32
	}
	return Partition(h % uint32(count))
}
