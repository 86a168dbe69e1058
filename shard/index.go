package shard

import (
	"sort"

	"github.com/mortarmq/mortarmq/codec"
	mlog "github.com/mortarmq/mortarmq/log"
)

// run is a stretch of one partition's messages with successive sequences that
// stand side by side in one log entry.
type run struct {
	first codec.Sequence
	index mlog.Index
	off   uint32 // of the first record in the entry's data
}

// seqIndex finds the log entry that holds a sequence. Runs are added in sequence order.
type seqIndex struct{ runs []run }

func (x *seqIndex) add(first codec.Sequence, index mlog.Index, off int) {
	x.runs = append(x.runs, run{first, index, uint32(off)})
}

// find returns where the run that holds seq starts; last is the partition's last sequence.
func (x *seqIndex) find(seq, last codec.Sequence) (readPos, bool) {
	n := sort.Search(len(x.runs), func(i int) bool { return x.runs[i].first > seq })
	if n == 0 || seq > last {
		return readPos{}, false
	}
	r, end := x.runs[n-1], last
	if n < len(x.runs) {
		end = x.runs[n].first - 1
	}
	return readPos{seq: r.first, end: end, index: r.index, off: int(r.off)}, true
}

// readPos is a place in a run: the record of seq stands at off in the entry's
// data, and the run goes on to end. seq 0 is nowhere.
type readPos struct {
	seq, end codec.Sequence
	index    mlog.Index
	off      int
}
