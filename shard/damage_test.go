package shard

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mortarmq/mortarmq/codec"
	mlog "github.com/mortarmq/mortarmq/log"
)

// flip changes one byte of the only place in the log's files that holds text.
func (r *rig) flip(text string) {
	r.t.Helper()
	names, err := r.fs.ReadDir("shard")
	if err != nil {
		r.t.Fatal(err)
	}
	for _, name := range names {
		f, err := r.fs.OpenFile(filepath.Join("shard", name), os.O_RDWR, 0)
		if err != nil {
			r.t.Fatal(err)
		}
		size, err := f.Size()
		if err != nil {
			r.t.Fatal(err)
		}
		data := make([]byte, size)
		if _, err := f.ReadAt(data, 0); err != nil {
			r.t.Fatal(err)
		}
		at := bytes.Index(data, []byte(text))
		if at < 0 {
			continue
		}
		if _, err := f.WriteAt([]byte{'#'}, int64(at)); err != nil {
			r.t.Fatal(err)
		}
		return
	}
	r.t.Fatalf("no file holds %q", text)
}

// A bit that flips while the broker runs: found by the checksum, never
// delivered, and nothing behind it is held back.
func TestDamageFoundWhileReading(t *testing.T) {
	r := newRig(t, nil)
	for _, v := range []string{"first", "second", "third"} {
		r.pub(0, 0, 0, v)
		r.pub(1, 0, 0, "other")
		r.quiet()
	}
	r.restart() // nothing is in memory any more
	r.flip("second")
	sub := r.join(1, 1, codec.StartEarliest, 0, 1)
	var got []string
	for range 6 {
		for _, m := range r.pull(sub) {
			got = append(got, string(m.Value))
			r.ack(sub, m, 0)
		}
	}
	if want := "first other third other"; len(got) != 4 || !strings.Contains(strings.Join(got, " "), "third") || strings.Contains(strings.Join(got, " "), "second") {
		t.Errorf("delivered %q, want the likes of %q", got, want)
	}
	// The entry that is damaged had a message of each partition: neither takes more.
	refused := r.pub(0, 0, 0, "more")
	r.quiet()
	if a := r.answer(refused); a.Code != codec.CodeInternal || !strings.Contains(a.Message, ".seg is damaged at offset") {
		t.Errorf("a PUB to the damaged partition: %v %q", a.Code, a.Message)
	}
	r.quiet()
	for _, p := range r.core.Stats().Parts {
		for _, g := range p.Groups {
			if g.Depth != 0 || g.Skipped != 1 || uint64(p.LastSeq) != g.Acked+g.Dead+g.Quarantined+g.Skipped+g.Depth {
				t.Errorf("partition %d: %+v", p.Partition, g)
			}
		}
	}
}

// A read-only partition stays so in a snapshot.
func TestDamageIsPartOfTheSnapshot(t *testing.T) {
	r := newRig(t, nil)
	r.fill(3)
	p := r.core.partition(1, 0)
	r.core.lose(p, span{2, 2}, &mlog.CorruptionError{File: "x.seg", Offset: 99, Reason: "flipped"})
	restored := NewCore(r.cfg, r.log, r.group, 1)
	if err := restored.restore(r.core.Snapshot()); err != nil {
		t.Fatal(err)
	}
	q := restored.partition(1, 0)
	if q.readOnly == nil || *q.readOnly != *p.readOnly || len(q.lost) != 1 || q.lost[0] != p.lost[0] {
		t.Errorf("restored as %+v, lost %v", q.readOnly, q.lost)
	}
}

// Entries that are missing when the log is replayed.
func TestDamageFoundWhileReplaying(t *testing.T) {
	r := newRig(t, nil)
	var at []mlog.Index
	for _, parts := range [][]codec.Partition{{0, 1}, {0}, {0, 1}, {0}} {
		for _, p := range parts {
			r.pub(p, 0, 0, "v")
		}
		r.quiet()
		at = append(at, r.log.LastIndex())
	}
	replay := func(missing mlog.Index) *Core {
		c := NewCore(r.cfg, r.log, r.group, 1)
		c.AddTopic(1, 2)
		entries, err := r.log.Entries(1, r.log.LastIndex()+1, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.Index == missing {
				c.lostEntries(&mlog.CorruptionError{File: "x.seg", Offset: 7, Reason: "flipped"})
			} else if len(e.Data) > 0 {
				if err := c.replay(e); err != nil {
					t.Fatalf("without entry %d: %v", missing, err)
				}
			}
		}
		c.closeSuspects()
		return c
	}
	tests := []struct {
		missing  mlog.Index
		readOnly [2]bool
		lost     codec.Sequence // of partition 0
		why      string
	}{
		{0, [2]bool{false, false}, 0, "nothing is missing"},
		{at[1], [2]bool{true, false}, 2, "partition 1 goes on without a hole"},
		{at[0], [2]bool{true, true}, 1, "both have a hole"},
		{at[3], [2]bool{true, true}, 0, "nobody knows whose messages the last entry held"},
	}
	for _, tt := range tests {
		c := replay(tt.missing)
		p0, p1 := c.partition(1, 0), c.partition(1, 1)
		if got := [2]bool{p0.readOnly != nil, p1.readOnly != nil}; got != tt.readOnly {
			t.Errorf("%s: read-only %v, want %v", tt.why, got, tt.readOnly)
		}
		if tt.lost != 0 && (len(p0.lost) != 1 || p0.lost[0].from != tt.lost || p0.lost[0].to != tt.lost) {
			t.Errorf("%s: lost %v, want %d", tt.why, p0.lost, tt.lost)
		}
	}
}

// What retention has taken is skipped and counted; everything else that is known stays.
func TestTrimmedLogSkipsWhatIsGone(t *testing.T) {
	r := newRig(t, nil)
	for range 6 {
		r.fill(1)
	}
	sub := r.join(1, 1, codec.StartEarliest, 0)
	p := r.core.partition(1, 0)
	got := r.msgs(r.startPull(sub, nil))
	r.ack(sub, got[1], 0)
	r.nack(sub, got[2], codec.NackRetry, 0)
	p.earliest = 6 // as if sequences 1 to 5 were gone
	r.core.skipTo(p.ledgers[0])
	r.quiet()
	if count, _ := sub.Credit.Outstanding(); count != 1 {
		t.Errorf("outstanding %d, want 1: the sixth", count)
	}
	r.ack(sub, got[4], codec.CodeUnknownDelivery)
	r.ack(sub, got[5], 0)
	r.sleep(time.Minute)
	wantMsgs(t, r.pull(sub))
	r.quiet()
	st := r.core.Stats().Parts[0].Groups[0]
	if st.Skipped != 4 || st.Acked != 2 || st.Depth != 0 {
		t.Errorf("stats %+v, want 4 skipped and 2 acknowledged", st)
	}
	if again := r.replayed().partition(1, 0).ledgers[0]; again.skipped != 4 || again.acked != 2 || again.floor != 6 {
		t.Errorf("replayed: skipped %d acknowledged %d floor %d", again.skipped, again.acked, again.floor)
	}
}
