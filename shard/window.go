package shard

import "github.com/mortarmq/mortarmq/codec"

// windowSize is how many of a producer's last messages are known by number (P4).
const windowSize = 1024

// window is the dedup window of one producer in one partition. Accepted numbers are
// contiguous from first to last, so the sequences of the last 1,024 stand in a
// ring indexed by producer_seq.
type window struct {
	first, last codec.ProducerSeq
	seqs        []codec.Sequence // power of two, at most windowSize
	used        int64            // age clock of the last message, ms; for P5
}

type verdict uint8

const (
	verdictStore   verdict = iota // the next number: store it
	verdictRepeat                 // stored before, and the sequence is known
	verdictGap                    // 0x0010
	verdictExpired                // 0x0011
)

// judge says what to do with a message numbered n, and for a repeat which
// sequence it got.
func (w *window) judge(n codec.ProducerSeq) (verdict, codec.Sequence) {
	switch {
	case n > w.last: // the largest number has no successor
		if n-w.last == 1 {
			return verdictStore, 0
		}
		return verdictGap, 0
	case n < w.first || w.last-n >= windowSize:
		return verdictExpired, 0
	}
	return verdictRepeat, w.seqs[int(n)&(len(w.seqs)-1)]
}

// oldest returns the oldest number whose sequence is known.
func (w *window) oldest() codec.ProducerSeq {
	if w.last-w.first >= windowSize {
		return w.last - windowSize + 1
	}
	return w.first
}

// add remembers that number n was stored as seq. n is last+1, or the first of all.
func (w *window) add(n codec.ProducerSeq, seq codec.Sequence) {
	if w.seqs == nil {
		w.first = n
		w.seqs = make([]codec.Sequence, 8)
	} else if used := int(n - w.first); used >= len(w.seqs) && len(w.seqs) < windowSize {
		w.grow()
	}
	w.last = n
	w.seqs[int(n)&(len(w.seqs)-1)] = seq
}

func (w *window) grow() {
	old := w.seqs
	w.seqs = make([]codec.Sequence, 2*len(old))
	for i := range old {
		n := int(w.last) - i
		if codec.ProducerSeq(n) < w.first {
			break
		}
		w.seqs[n&(len(w.seqs)-1)] = old[n&(len(old)-1)]
	}
}
