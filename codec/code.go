package codec

import (
	"fmt"
	"slices"
)

// Code is an error code of the registry. 0 means "no error" and is never sent.
// A received Code may be one this build does not know (C1).
type Code uint16

// CodeInfo is one row of the registry.
type CodeInfo struct {
	Code      Code
	Name      string // as in the protocol: UNKNOWN_TOPIC
	Closes    bool   // the broker closes the connection behind it
	Retriable bool   // the same request may be sent again later, unchanged
	Hint      string // one sentence: what the reader should do
}

// Codes returns the whole registry in ascending order of the codes. The slice
// is the caller's.
func Codes() []CodeInfo { return slices.Clone(registry[:]) }

// info returns the row of c, or nil for a code that is not registered.
func (c Code) info() *CodeInfo {
	i, ok := slices.BinarySearchFunc(registry[:], c, func(row CodeInfo, c Code) int {
		return int(row.Code) - int(c)
	})
	if !ok {
		return nil
	}
	return &registry[i]
}

// Name returns the code's name in the protocol, or its number in hex when it
// is not registered.
func (c Code) Name() string {
	if row := c.info(); row != nil {
		return row.Name
	}
	return fmt.Sprintf("0x%04X", uint16(c))
}

// String returns the name with the number: "UNKNOWN_TOPIC (0x0008)". A code
// that is not registered is its number alone.
func (c Code) String() string {
	if row := c.info(); row != nil {
		return fmt.Sprintf("%s (0x%04X)", row.Name, uint16(c))
	}
	return c.Name()
}

// Closes reports whether the broker closes the connection after sending c. It
// is false for a code that is not registered.
func (c Code) Closes() bool {
	row := c.info()
	return row != nil && row.Closes
}

// Retriable reports whether the same request may be sent again later,
// unchanged: on a new connection when the code closes, to the leader when the
// code says that this node is not it. A PUB without a producer_id may be
// stored twice by that when its outcome was unknown (QUORUM_LOST,
// LEASE_EXPIRED). It is false for a code that is not registered.
func (c Code) Retriable() bool {
	row := c.info()
	return row != nil && row.Retriable
}

// Hint returns one sentence that tells the reader what to do, at most 200
// bytes. It never names anything internal, so it can be sent as it is.
func (c Code) Hint() string {
	if row := c.info(); row != nil {
		return row.Hint
	}
	return "Look this code up in the protocol of a newer version: it is not known here."
}
