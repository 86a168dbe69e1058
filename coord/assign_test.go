package coord

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/mortarmq/mortarmq/codec"
)

func shareOf(members, target []codec.MemberID) (least, most int) {
	load := map[codec.MemberID]int{}
	for _, id := range target {
		load[id]++
	}
	least = len(target)
	for _, id := range members {
		least, most = min(least, load[id]), max(most, load[id])
	}
	return least, most
}

// kept counts the partitions that stay where they were.
func kept(previous, target []codec.MemberID) int {
	n := 0
	for p, id := range target {
		if id != 0 && id == previous[p] {
			n++
		}
	}
	return n
}

// most is the highest number of partitions that any balanced assignment leaves in place, by trying all.
func most(members, previous []codec.MemberID) int {
	best := -1
	target := make([]codec.MemberID, len(previous))
	var try func(p int)
	try = func(p int) {
		if p == len(target) {
			if least, most := shareOf(members, target); most-least <= 1 {
				best = max(best, kept(previous, target))
			}
			return
		}
		for _, id := range members {
			target[p] = id
			try(p + 1)
		}
	}
	try(0)
	return best
}

// randomCase draws members, and a previous assignment that may name others and nobody.
func randomCase(rng *rand.Rand, members, partitions int) (ids, previous []codec.MemberID) {
	for i := range 1 + rng.IntN(members) {
		ids = append(ids, codec.MemberID(10*(i+1)+rng.IntN(9)))
	}
	known := append(slices.Clone(ids), 0, 1, 999)
	previous = make([]codec.MemberID, rng.IntN(partitions+1))
	skew := 1 + rng.IntN(len(known)) // some cases are one-sided
	for p := range previous {
		previous[p] = known[rng.IntN(skew)]
	}
	return ids, previous
}

func TestAssignMovesTheFewestPartitions(t *testing.T) {
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 0))
		ids, previous := randomCase(rng, 3, 7)
		got := Assign(ids, previous)
		if least, most := shareOf(ids, got); most-least > 1 {
			t.Fatalf("seed %d: shares from %d to %d: Assign(%v, %v) = %v", seed, least, most, ids, previous, got)
		}
		if want := most(ids, previous); kept(previous, got) != want {
			t.Fatalf("seed %d: %d stay, %d can: Assign(%v, %v) = %v", seed, kept(previous, got), want, ids, previous, got)
		}
	}
}

func TestAssignProperties(t *testing.T) {
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 1))
		ids, previous := randomCase(rng, 10, 200)
		was, wasIDs := slices.Clone(previous), slices.Clone(ids)
		got := Assign(ids, previous)
		if !slices.Equal(previous, was) || !slices.Equal(ids, wasIDs) {
			t.Fatalf("seed %d: Assign changed its arguments", seed)
		}
		for p, id := range got {
			if !slices.Contains(ids, id) {
				t.Fatalf("seed %d: partition %d went to %d", seed, p, id)
			}
		}
		if least, most := shareOf(ids, got); most-least > 1 {
			t.Fatalf("seed %d: shares from %d to %d", seed, least, most)
		}
		if again := Assign(ids, got); !slices.Equal(again, got) {
			t.Fatalf("seed %d: a balanced assignment was changed", seed)
		}
		rng.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
		if other := Assign(ids, previous); !slices.Equal(other, got) {
			t.Fatalf("seed %d: the order of the members matters", seed)
		}
	}
}

func TestAssignExamples(t *testing.T) {
	type m = []codec.MemberID
	for _, c := range []struct {
		what           string
		members        m
		previous, want m
	}{
		{"nobody", nil, m{1, 2, 0}, m{0, 0, 0}},
		{"no partitions", m{1, 2}, m{}, m{}},
		{"the first gets all", m{7}, m{0, 0, 0}, m{7, 7, 7}},
		{"two begin together", m{1, 2}, m{0, 0, 0, 0, 0}, m{1, 2, 1, 2, 1}},
		{"one joins: the highest move", m{1, 2}, m{1, 1, 1, 1}, m{1, 1, 2, 2}},
		{"one leaves: only its own move", m{1, 3}, m{1, 2, 3, 2}, m{1, 1, 3, 3}},
		{"more members than partitions", m{1, 2, 3}, m{3, 0}, m{3, 1}},
		{"the larger share stays where it is", m{1, 2}, m{2, 2, 1}, m{2, 2, 1}},
	} {
		if got := Assign(c.members, c.previous); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.what, got, c.want)
		}
	}
}

func TestPassOver(t *testing.T) {
	type m = []codec.MemberID
	type no map[int]m // by partition: who refused it
	for _, c := range []struct {
		what             string
		target, previous m
		members          m
		refused          no
		want             m
	}{
		{"nobody refused", m{1, 2}, m{1, 1}, m{1, 2}, nil, m{1, 2}},
		{"it stays where it was", m{1, 2}, m{1, 1}, m{1, 2}, no{1: {2}}, m{1, 1}},
		{"unless another has fewer", m{1, 2, 3}, m{1, 1, 3}, m{1, 2, 3, 4}, no{1: {2}}, m{1, 4, 3}},
		{"the previous one is gone", m{1, 2}, m{1, 9}, m{1, 2}, no{1: {2}}, m{1, 1}},
		{"everybody refused", m{1, 2}, m{1, 2}, m{1, 2}, no{1: {1, 2}}, m{1, 0}},
	} {
		got := slices.Clone(c.target)
		passOver(got, c.previous, c.members, func(p int, id codec.MemberID) bool { return slices.Contains(c.refused[p], id) })
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.what, got, c.want)
		}
	}
}

func BenchmarkAssign(b *testing.B) {
	ids := make([]codec.MemberID, 10)
	for i := range ids {
		ids[i] = codec.MemberID(i + 1)
	}
	previous := Assign(ids[:9], make([]codec.MemberID, 1024))
	b.ReportAllocs()
	for b.Loop() {
		Assign(ids, previous)
	}
}
