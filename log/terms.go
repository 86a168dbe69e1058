package log

import "sort"

// termRun says that the entries from first on have this term, up to the next run.
type termRun struct {
	first Index
	term  Term
}

// termRuns are the terms of all entries, run-length coded: as many runs as there
// were leaderships.
type termRuns []termRun

// add notes the term of the next entry.
func (t *termRuns) add(i Index, term Term) {
	if n := len(*t); n == 0 || (*t)[n-1].term != term {
		*t = append(*t, termRun{first: i, term: term})
	}
}

// truncate forgets the entries from i on.
func (t *termRuns) truncate(i Index) {
	n := len(*t)
	for n > 0 && (*t)[n-1].first >= i {
		n--
	}
	*t = (*t)[:n]
}

// at returns the term of entry i, which must exist. Nearly every question is
// about the newest runs.
func (t termRuns) at(i Index) Term {
	for k := len(t) - 1; k >= 0 && k >= len(t)-3; k-- {
		if t[k].first <= i {
			return t[k].term
		}
	}
	k := sort.Search(len(t), func(k int) bool { return t[k].first > i })
	return t[k-1].term
}
