package log

import (
	"slices"
	"sort"

	"github.com/mortarmq/mortarmq/env"
)

// segment is the owner's view of one segment file.
type segment struct {
	*segmentHead
	// base is the index of offsets[0]. The live entries of this segment are
	// base..base+len(offsets)-1; they follow those of the segment before without
	// a gap. A superseded segment has none and stays in the list: its records
	// are part of the history that Open reads.
	base    Index
	offsets []uint32
	end     int64 // where the next record goes

	reader   env.File // open for reading, or nil
	readUsed uint64   // Log.readTick when reader was last used
}

// newSegment returns the segment of h, whose next entry is the one behind last.
// That is not always h.first: a segment begun for a superseding entry may have
// lost it in a crash. The bases of a log's segments never fall.
func newSegment(h *segmentHead, last Index) *segment {
	return &segment{segmentHead: h, base: last + 1, end: headerLen}
}

// offsetOf returns where entry i, which is live in s, begins, and where the
// bytes that may belong to it end.
func (s *segment) offsetOf(i Index) (off, limit int64) {
	k := int(i - s.base)
	off = int64(s.offsets[k])
	if k+1 < len(s.offsets) {
		return off, int64(s.offsets[k+1])
	}
	return off, s.end
}

// truncate forgets the live entries from i on.
func (s *segment) truncate(i Index) {
	if i <= s.base {
		s.base, s.offsets = i, s.offsets[:0]
		return
	}
	if keep := uint64(i - s.base); keep < uint64(len(s.offsets)) {
		s.offsets = s.offsets[:keep]
	}
}

// segmentList is ordered by age.
type segmentList []*segment

// find returns the segment where entry i is live, or nil.
func (l segmentList) find(i Index) *segment {
	n := sort.Search(len(l), func(k int) bool { return l[k].base > i })
	for _, s := range slices.Backward(l[:n]) {
		if len(s.offsets) > 0 {
			if i-s.base < Index(len(s.offsets)) {
				return s
			}
			return nil
		}
	}
	return nil
}

// truncate forgets the live entries from i on, in all segments.
func (l segmentList) truncate(i Index) {
	for _, s := range slices.Backward(l) {
		if len(s.offsets) > 0 && s.base+Index(len(s.offsets)) <= i {
			return
		}
		s.truncate(i)
	}
}
