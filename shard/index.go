package shard

import (
	"encoding/binary"
	"sort"

	"github.com/mortarmq/mortarmq/codec"
	mlog "github.com/mortarmq/mortarmq/log"
)

// seqIndex finds the log entry that holds a sequence of one partition. It keeps
// a run for every entry that has messages of the partition, as differences in
// chunks: about 5 bytes a run, so that ten million small entries cost 50 MB.
// Runs are added in sequence order.
type seqIndex struct{ chunks []runChunk }

// runsPerChunk bounds what a look-up decodes.
const runsPerChunk = 128

// runChunk is a series of runs. The first stands in the fields; each further one
// is three uvarints in more: sequence and index as differences to the run before, and off.
type runChunk struct {
	first, last run
	n           int
	more        []byte
}

// run is a stretch of one partition's messages with successive sequences that
// stand side by side in one log entry.
type run struct {
	first codec.Sequence
	index mlog.Index
	off   int // of the first record in the entry's data
}

func (x *seqIndex) add(first codec.Sequence, index mlog.Index, off int) {
	r := run{first, index, off}
	if n := len(x.chunks); n > 0 && x.chunks[n-1].n < runsPerChunk {
		x.chunks[n-1].add(r)
		return
	}
	if n := len(x.chunks); n > 0 { // full: give back what append reserved
		c := &x.chunks[n-1]
		c.more = append(make([]byte, 0, len(c.more)), c.more...)
	}
	x.chunks = append(x.chunks, runChunk{first: r, last: r, n: 1})
}

func (c *runChunk) add(r run) {
	c.more = binary.AppendUvarint(c.more, uint64(r.first-c.last.first))
	c.more = binary.AppendUvarint(c.more, uint64(r.index-c.last.index))
	c.more = binary.AppendUvarint(c.more, uint64(r.off))
	c.last = r
	c.n++
}

// each calls f for the runs of the chunk until it returns false. It reports
// false when the bytes are not what add wrote.
func (c *runChunk) each(f func(r run) bool) bool {
	r, in := c.first, varints{b: c.more}
	for i := 1; ; i++ {
		if !f(r) {
			return true
		}
		if i == c.n {
			return len(in.b) == 0 && !in.bad
		}
		r.first += codec.Sequence(in.next())
		r.index += mlog.Index(in.next())
		r.off = int(in.next())
		if in.bad {
			return false
		}
	}
}

// find returns where the run that holds seq starts; last is the partition's last sequence.
func (x *seqIndex) find(seq, last codec.Sequence) (readPos, bool) {
	n := sort.Search(len(x.chunks), func(i int) bool { return x.chunks[i].first.first > seq })
	if n == 0 || seq > last {
		return readPos{}, false
	}
	var at run
	end := last
	if n < len(x.chunks) {
		end = x.chunks[n].first.first - 1
	}
	x.chunks[n-1].each(func(r run) bool {
		if r.first > seq {
			end = r.first - 1
			return false
		}
		at = r
		return true
	})
	return readPos{seq: at.first, end: end, index: at.index, off: at.off}, true
}

// trim forgets the chunks that only hold runs of entries before first, and returns the
// earliest sequence that is still in the log; last+1 when there is none.
func (x *seqIndex) trim(first mlog.Index, last codec.Sequence) codec.Sequence {
	n := 0
	for n < len(x.chunks) && x.chunks[n].last.index < first {
		n++
	}
	if n > 0 {
		x.chunks = append([]runChunk(nil), x.chunks[n:]...)
	}
	earliest := last + 1
	if len(x.chunks) > 0 {
		x.chunks[0].each(func(r run) bool {
			if r.index < first {
				return true
			}
			earliest = r.first
			return false
		})
	}
	return earliest
}

// readPos is a place in a run: the record of seq stands at off in the entry's
// data, and the run goes on to end. seq 0 is nowhere.
type readPos struct {
	seq, end codec.Sequence
	index    mlog.Index
	off      int
}
