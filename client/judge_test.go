package client

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/mortarmq/mortarmq/codec"
)

// judge publishes numbered messages and knows what must have become of each.
type judge struct {
	t  *testing.T
	mu sync.Mutex
	// by number:
	values  []string
	parts   []codec.Partition
	reports [][]verdict
	order   map[codec.Partition][]int // numbers, as they were handed in
}

type verdict struct {
	r   Receipt
	err error
}

func newJudge(t *testing.T) *judge {
	return &judge{t: t, order: make(map[codec.Partition][]int)}
}

// next makes message number len(values) for a partition.
func (j *judge) next(part codec.Partition) (Message, func(Receipt, error)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := len(j.values)
	value := fmt.Sprintf("message %d of partition %d", n, part)
	j.values = append(j.values, value)
	j.parts = append(j.parts, part)
	j.reports = append(j.reports, nil)
	j.order[part] = append(j.order[part], n)
	return Message{Value: []byte(value), Partition: &part, Tag: uint64(n)}, func(r Receipt, err error) {
		j.mu.Lock()
		defer j.mu.Unlock()
		if r.Tag != uint64(n) {
			j.t.Errorf("message %d was reported with tag %d", n, r.Tag)
		}
		j.reports[n] = append(j.reports[n], verdict{r, err})
	}
}

// check compares the reports with what the broker holds: one report each; what was reported as
// stored is at its sequence, what was refused is not there, nothing is there
// twice, and what was reported as stored has the order in which it was handed
// in, per partition. (What has an unknown outcome may turn up late.)
func (j *judge) check(b *fakeBroker, topic string, inOrder bool) (stored, failed int) {
	j.t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	number := make(map[string]int)
	for n, v := range j.values {
		number[v] = n
	}
	for n, reports := range j.reports {
		if len(reports) != 1 {
			j.t.Fatalf("message %d has %d reports", n, len(reports))
		}
	}
	seen := make(map[int]codec.Sequence)
	for part := range j.order {
		last := -1
		for i, m := range b.stored(topic, int(part)) {
			n, ok := number[m.value]
			switch {
			case !ok:
				j.t.Errorf("partition %d holds %q, which was never sent", part, m.value)
			case seen[n] != 0:
				j.t.Errorf("message %d is stored twice: %d and %d", n, seen[n], i+1)
			case inOrder && n < last && j.reports[n][0].err == nil:
				j.t.Errorf("partition %d: message %d is behind message %d", part, n, last)
			}
			seen[n] = codec.Sequence(i + 1)
			if j.reports[n][0].err == nil {
				last = n
			}
		}
	}
	for n, reports := range j.reports {
		v := reports[0]
		switch {
		case v.err == nil:
			stored++
			if seen[n] != v.r.Sequence {
				j.t.Errorf("message %d was reported at sequence %d, and is at %d (0: nowhere)", n, v.r.Sequence, seen[n])
			}
			if v.r.Partition != j.parts[n] {
				j.t.Errorf("message %d was reported in partition %d", n, v.r.Partition)
			}
		default:
			failed++
			if seen[n] != 0 && !errors.Is(v.err, ErrOutcomeUnknown) {
				j.t.Errorf("message %d is stored, and was reported as not stored: %v", n, v.err)
			}
		}
	}
	return stored, failed
}

func (j *judge) firstError() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, reports := range j.reports {
		for _, v := range reports {
			if v.err != nil {
				return v.err
			}
		}
	}
	return nil
}
