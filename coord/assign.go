package coord

import (
	"slices"

	"github.com/mortarmq/mortarmq/codec"
)

// Assign spreads partitions 0 to len(previous)-1 over members (G5). previous[p]
// is the member that partition p was with, or 0; the result has the same shape. It
//
//   - gives each member len(previous)/len(members) partitions or one more,
//   - leaves as many partitions with the member in previous as that allows,
//   - depends on nothing but the set of members and previous.
//
// Without members nobody gets anything. Members must be distinct and not 0.
func Assign(members []codec.MemberID, previous []codec.MemberID) []codec.MemberID {
	target := make([]codec.MemberID, len(previous))
	if len(members) == 0 {
		return target
	}
	ids := slices.Sorted(slices.Values(members))
	index := func(id codec.MemberID) int {
		if i, ok := slices.BinarySearch(ids, id); ok && id != 0 {
			return i
		}
		return -1
	}
	quota := quotas(ids, previous, index)

	// Who keeps what: the lowest partitions first.
	count := make([]int, len(ids))
	for p, id := range previous {
		if i := index(id); i >= 0 && count[i] < quota[i] {
			target[p] = id
			count[i]++
		}
	}
	// The rest goes round, to whoever has the fewest and still has room.
	for p := range target {
		if target[p] != 0 {
			continue
		}
		best := -1
		for i := range ids {
			if count[i] < quota[i] && (best < 0 || count[i] < count[best]) {
				best = i
			}
		}
		target[p] = ids[best]
		count[best]++
	}
	return target
}

// quotas returns how many partitions each member gets: the larger share goes
// first to those that have more than the smaller one already, because each of these saves a move.
func quotas(ids, previous []codec.MemberID, index func(codec.MemberID) int) []int {
	share, extra := len(previous)/len(ids), len(previous)%len(ids)
	had := make([]int, len(ids))
	for _, id := range previous {
		if i := index(id); i >= 0 {
			had[i]++
		}
	}
	quota := make([]int, len(ids))
	for i := range quota {
		if quota[i] = share; had[i] > share && extra > 0 {
			quota[i]++
			extra--
		}
	}
	for i := range quota {
		if quota[i] == share && extra > 0 {
			quota[i]++
			extra--
		}
	}
	return quota
}

// passOver takes partitions away from targets that refused them. Each goes to the
// member with the fewest that has not refused it, but stays with its previous
// one when that has no more; with nobody left it gets 0. It changes target.
func passOver(target, previous, members []codec.MemberID, refused func(p int, id codec.MemberID) bool) {
	load := map[codec.MemberID]int{}
	var open []int
	for p, id := range target {
		if id != 0 && refused(p, id) {
			open = append(open, p)
		} else {
			load[id]++
		}
	}
	for _, p := range open {
		takes := func(id codec.MemberID) bool { return !refused(p, id) }
		best, prev := lightest(members, load, takes), previous[p]
		if best != 0 && slices.Contains(members, prev) && takes(prev) && load[prev] <= load[best] {
			best = prev
		}
		target[p] = best
		load[best]++
	}
}

// lightest returns the eligible member with the smallest load, the lowest id among several, or 0.
func lightest(members []codec.MemberID, load map[codec.MemberID]int, eligible func(codec.MemberID) bool) codec.MemberID {
	best := codec.MemberID(0)
	for _, id := range members {
		if !eligible(id) {
			continue
		}
		if best == 0 || load[id] < load[best] || load[id] == load[best] && id < best {
			best = id
		}
	}
	return best
}
