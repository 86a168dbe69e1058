package coord

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/mortarmq/mortarmq/codec"
)

// The records of the meta log. FORMAT.md has every byte.
const (
	recordVersion = 1

	kindTopicCreated uint8 = 1
	kindTopicDeleted uint8 = 2
	kindGroupCreated uint8 = 3
)

// The kinds of record. Their fields are those of the thing they are about.
type (
	topicCreated Topic
	topicDeleted struct{ ID codec.TopicID }
	groupCreated Group
)

// Why bytes were refused.
var (
	// ErrDamaged is wrapped by the errors of Apply and Restore for bytes that are not
	// what this format allows.
	ErrDamaged = errors.New("damaged")
	// ErrNewer is wrapped by the errors of Apply and Restore for a format version or a
	// kind of record that this version of the broker does not know.
	ErrNewer = errors.New("written by a newer version")
)

// RecordError is returned by Apply for a record that cannot be read. Nothing was changed.
type RecordError struct {
	Index uint64 // in the meta log
	Why   string
	Err   error // ErrDamaged or ErrNewer
}

// Error says which record is wrong and how.
func (e *RecordError) Error() string {
	return fmt.Sprintf("coord: meta record at index %d: %v: %s", e.Index, e.Err, e.Why)
}

// Unwrap returns ErrDamaged or ErrNewer.
func (e *RecordError) Unwrap() error { return e.Err }

func appendRecord(dst []byte, rec any) []byte {
	dst = append(dst, recordVersion)
	switch rec := rec.(type) {
	case topicCreated:
		dst = append(dst, kindTopicCreated)
		dst = binary.BigEndian.AppendUint16(dst, uint16(rec.ID))
		dst = binary.BigEndian.AppendUint16(dst, uint16(rec.ID.Twin()))
		dst = binary.BigEndian.AppendUint16(dst, rec.Partitions)
		return appendName(dst, rec.Name)
	case topicDeleted:
		dst = append(dst, kindTopicDeleted)
		dst = binary.BigEndian.AppendUint16(dst, uint16(rec.ID))
		return binary.BigEndian.AppendUint16(dst, uint16(rec.ID.Twin()))
	case groupCreated:
		dst = append(dst, kindGroupCreated)
		return appendGroup(dst, Group(rec))
	}
	panic(fmt.Sprintf("coord: no record for %T", rec))
}

func appendGroup(dst []byte, g Group) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(g.ID))
	dst = binary.BigEndian.AppendUint16(dst, uint16(g.Topic))
	dst = append(dst, g.StartPolicy)
	return appendName(dst, g.Name)
}

func appendName(dst []byte, name string) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(name)))
	return append(dst, name...)
}

// parseRecord reads a whole record. The rules for names are not asked again: they
// may grow stricter, and what was allowed once stays readable.
func parseRecord(b []byte) (rec any, why string, err error) {
	if len(b) < 2 {
		return nil, "shorter than its header", ErrDamaged
	}
	if b[0] != recordVersion {
		return nil, fmt.Sprintf("version %d; known is %d", b[0], recordVersion), versionFault(b[0], recordVersion)
	}
	r := reader{b: b[2:]}
	switch b[1] {
	case kindTopicCreated:
		t := topicCreated{ID: codec.TopicID(r.u16())}
		r.check(codec.TopicID(r.u16()) == t.ID.Twin(), "the twin's id does not follow the source's")
		t.Partitions, t.Name = r.u16(), r.name(codec.MaxTopicLen)
		r.checkTopic(Topic(t))
		rec = t
	case kindTopicDeleted:
		t := topicDeleted{ID: codec.TopicID(r.u16())}
		r.check(codec.TopicID(r.u16()) == t.ID.Twin(), "the twin's id does not follow the source's")
		r.check(isSource(t.ID), "not a source's id")
		rec = t
	case kindGroupCreated:
		rec = groupCreated(r.group())
	default:
		return nil, fmt.Sprintf("unknown kind %d", b[1]), ErrNewer
	}
	r.check(len(r.b) == 0, "bytes behind the last field")
	if r.why != "" {
		return nil, r.why, ErrDamaged
	}
	return rec, "", nil
}

// versionFault tells a newer version from one that never was.
func versionFault(got, known uint8) error {
	if got > known {
		return ErrNewer
	}
	return ErrDamaged
}

func isSource(id codec.TopicID) bool { return id%2 == 1 && id <= lastSource }

// reader takes fields off the front of b. After the first fault why says what it is and all fields are zero.
type reader struct {
	b   []byte
	why string
}

func (r *reader) check(ok bool, why string) {
	if !ok && r.why == "" {
		r.why = why
	}
	if r.why != "" {
		r.b = nil
	}
}

func (r *reader) take(n int) []byte {
	r.check(len(r.b) >= n, "cut off in the middle of a field")
	if r.why != "" {
		return make([]byte, n)
	}
	part := r.b[:n]
	r.b = r.b[n:]
	return part
}

func (r *reader) u8() uint8   { return r.take(1)[0] }
func (r *reader) u16() uint16 { return binary.BigEndian.Uint16(r.take(2)) }
func (r *reader) u64() uint64 { return binary.BigEndian.Uint64(r.take(8)) }

func (r *reader) name(limit int) string {
	n := int(r.u16())
	r.check(n >= 1 && n <= limit, "a name of impossible length")
	if r.why != "" {
		return ""
	}
	return string(r.take(n))
}

func (r *reader) checkTopic(t Topic) {
	r.check(isSource(t.ID), "not a source's id")
	r.check(t.Partitions >= 1 && t.Partitions <= maxPartitions, "an impossible number of partitions")
}

func (r *reader) group() Group {
	g := Group{ID: codec.GroupID(r.u16()), Topic: codec.TopicID(r.u16()), StartPolicy: r.u8()}
	g.Name = r.name(codec.MaxGroupLen)
	r.check(g.ID != 0, "group id 0")
	r.check(g.Topic != 0 && isSource(g.Topic.Source()), "an impossible topic id")
	r.check(g.StartPolicy <= codec.StartLatest, "an unknown start policy")
	return g
}
