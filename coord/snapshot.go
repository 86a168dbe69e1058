package coord

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/mortarmq/mortarmq/codec"
)

// A snapshot is the whole registry. FORMAT.md has every byte.
const (
	snapshotMagic   = "MMQC"
	snapshotVersion = 1
	crcLen          = 4
)

// SnapshotError is returned by Restore for bytes that it does not take. Nothing was changed.
type SnapshotError struct {
	Why string
	Err error // ErrDamaged or ErrNewer
}

// Error says what is wrong.
func (e *SnapshotError) Error() string {
	return fmt.Sprintf("coord: meta snapshot: %v: %s", e.Err, e.Why)
}

// Unwrap returns ErrDamaged or ErrNewer.
func (e *SnapshotError) Unwrap() error { return e.Err }

// Snapshot returns the durable part as bytes for Restore: the state after the
// record Applied() and before the next one.
func (c *Core) Snapshot() []byte {
	r := c.reg
	b := append([]byte(snapshotMagic), snapshotVersion)
	b = binary.BigEndian.AppendUint64(b, r.applied)
	b = binary.BigEndian.AppendUint16(b, uint16(r.nextSource))
	b = binary.BigEndian.AppendUint16(b, uint16(r.lastGroup))
	b = binary.BigEndian.AppendUint16(b, uint16(len(r.topics)))
	for t := range c.Topics() {
		b = binary.BigEndian.AppendUint16(b, uint16(t.ID))
		b = binary.BigEndian.AppendUint16(b, t.Partitions)
		b = appendName(b, t.Name)
	}
	b = binary.BigEndian.AppendUint16(b, uint16(len(r.groups)))
	for g := range c.Groups() {
		b = appendGroup(b, g)
	}
	return binary.BigEndian.AppendUint32(b, checksum(b))
}

func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// Restore replaces the durable part by a snapshot's. A Core that leads cannot be
// restored: call Follow first. No effects tell the difference; the caller looks at Topics and
// Groups again. The error is a *SnapshotError, and then nothing was changed.
func (c *Core) Restore(data []byte) error {
	if c.leading {
		panic("coord: Restore while leading; call Follow first")
	}
	reg, why, err := parseSnapshot(data)
	if err != nil {
		return &SnapshotError{Why: why, Err: err}
	}
	c.reg = reg
	return nil
}

func parseSnapshot(data []byte) (*registry, string, error) {
	const head = len(snapshotMagic) + 1
	switch {
	case len(data) < head+crcLen || string(data[:len(snapshotMagic)]) != snapshotMagic:
		return nil, "it does not begin as one", ErrDamaged
	case data[head-1] != snapshotVersion:
		return nil, fmt.Sprintf("version %d; known is %d", data[head-1], snapshotVersion), versionFault(data[head-1], snapshotVersion)
	}
	end := len(data) - crcLen
	if binary.BigEndian.Uint32(data[end:]) != checksum(data[:end]) {
		return nil, "its checksum does not match", ErrDamaged
	}
	r := reader{b: data[head:end]}
	reg := newRegistry()
	reg.applied = r.u64()
	reg.nextSource, reg.lastGroup = codec.TopicID(r.u16()), codec.GroupID(r.u16())
	r.check(reg.nextSource%2 == 1, "the next topic id is not a source's")
	r.topics(reg)
	r.groups(reg)
	r.check(len(r.b) == 0, "bytes behind the last group")
	if r.why != "" {
		return nil, r.why, ErrDamaged
	}
	return reg, "", nil
}

func (r *reader) topics(reg *registry) {
	last := codec.TopicID(0)
	for n := r.u16(); n > 0 && r.why == ""; n-- {
		t := Topic{ID: codec.TopicID(r.u16()), Partitions: r.u16(), Name: r.name(codec.MaxTopicLen)}
		_, twice := reg.names[t.Name]
		r.checkTopic(t)
		r.check(t.ID > last && t.ID < reg.nextSource, "topic ids do not ascend below the next one")
		r.check(!twice, "two topics with one name")
		last = t.ID
		reg.addTopic(t)
	}
}

func (r *reader) groups(reg *registry) {
	last := codec.GroupID(0)
	for n := r.u16(); n > 0 && r.why == ""; n-- {
		g := r.group()
		_, twice := reg.groupNames[groupKey{g.Topic, g.Name}]
		_, known := reg.topic(g.Topic)
		r.check(g.ID > last, "group ids do not ascend")
		r.check(known, "a group without a topic")
		r.check(!twice, "two groups with one name on one topic")
		last = g.ID
		reg.addGroup(g)
	}
}
