package log

import (
	"errors"
	"fmt"
)

var (
	// ErrCompacted is returned by Term, Entries and Read for an index below
	// FirstIndex.
	ErrCompacted = errors.New("log: entry is compacted")
	// ErrUnavailable is returned by Term, Entries and Read for an index above
	// LastIndex.
	ErrUnavailable = errors.New("log: entry is not in the log")
)

// CorruptionError says that bytes the log once made durable are not what they
// were. Open returns it without having changed anything; Entries and Read return
// it instead of the bytes.
type CorruptionError struct {
	File   string // path of the segment
	Offset int64  // where the damaged record or header begins
	Reason string
}

func (e *CorruptionError) Error() string {
	return fmt.Sprintf("%s is damaged at offset %d: %s", e.File, e.Offset, e.Reason)
}

// VersionError says that a segment was written by a later version of the
// format. Open returns it without having changed anything.
type VersionError struct {
	File    string
	Version uint16 // found
	Max     uint16 // the latest this build reads
	// HeaderDamaged is set when the header's checksum does not match either: the
	// version may be the result of damage.
	HeaderDamaged bool
}

func (e *VersionError) Error() string {
	hint := "it was written by a later release; start that one"
	if e.HeaderDamaged {
		hint = "it was written by a later release, or its header is damaged (the checksum does not match)"
	}
	return fmt.Sprintf("%s has format version %d, this build reads up to %d: %s", e.File, e.Version, e.Max, hint)
}
