package log

// tail holds the newest entries in memory, contiguous by index. It belongs to
// the owner.
type tail struct {
	all   []Entry // all[head:] are the entries, oldest first
	head  int
	bytes int // payload bytes plus entryOverhead each
}

// entryOverhead is what an Entry itself takes, about.
const entryOverhead = 48

func (t *tail) entries() []Entry { return t.all[t.head:] }
func (t *tail) len() int         { return len(t.all) - t.head }

// first is the index of the oldest entry; next when there is none.
func (t *tail) first(next Index) Index {
	if t.len() == 0 {
		return next
	}
	return t.all[t.head].Index
}

func (t *tail) add(e Entry) {
	t.all = append(t.all, e)
	t.bytes += len(e.Data) + entryOverhead
}

// truncate forgets the entries from i on.
func (t *tail) truncate(i Index) {
	for t.len() > 0 && t.all[len(t.all)-1].Index >= i {
		last := &t.all[len(t.all)-1]
		t.bytes -= len(last.Data) + entryOverhead
		*last = Entry{}
		t.all = t.all[:len(t.all)-1]
	}
}

// evict drops the oldest entries while the tail is above limit bytes, up to and
// including index upTo.
func (t *tail) evict(limit int, upTo Index) {
	for t.bytes > limit && t.len() > 0 && t.all[t.head].Index <= upTo {
		t.bytes -= len(t.all[t.head].Data) + entryOverhead
		t.all[t.head] = Entry{}
		t.head++
	}
	// Moving the rest down costs less than one copy per evicted entry.
	if t.head > 64 && t.head > len(t.all)/2 {
		n := copy(t.all, t.all[t.head:])
		clear(t.all[n:])
		t.all, t.head = t.all[:n], 0
	}
}

// slice returns the entries [lo,hi), all of which must be in the tail, as far as
// they fit into maxBytes of payload; at least one if first is set.
func (t *tail) slice(lo, hi Index, maxBytes int, first bool) []Entry {
	from := t.head + int(lo-t.all[t.head].Index)
	to := from + int(hi-lo)
	n, size := from, 0
	for n < to {
		size += len(t.all[n].Data)
		if size > maxBytes && !(first && n == from) {
			break
		}
		n++
	}
	return t.all[from:n:n]
}
