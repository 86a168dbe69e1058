package coord

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/mortarmq/mortarmq/codec"
)

// The golden dumps of FORMAT.md. They never change: what was written once stays readable.
var goldenRecords = []struct {
	name string
	rec  any
	hex  string
}{
	{"topic created", topicCreated{ID: 3, Name: "orders.eu", Partitions: 12}, "01 01 0003 0004 000c 0009 6f72646572732e6575"},
	{"topic deleted", topicDeleted{ID: 3}, "01 02 0003 0004"},
	{"group created", groupCreated{ID: 258, Topic: 4, Name: "dead", StartPolicy: 1}, "01 03 0102 0004 01 0004 64656164"},
}

const goldenSnapshot = "4d4d5143 01 0000000000000105 0007 0102" +
	" 0002 0001 0004 0001 61 0005 000c 0009 6f72646572732e6575" +
	" 0002 0007 0005 00 0002 c3a9 0102 0006 01 0004 64656164" +
	" a0af1b2f"

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func goldenCore(t testing.TB) *Core {
	t.Helper()
	c := New(Config{})
	for i, rec := range []any{
		topicCreated{ID: 1, Name: "a", Partitions: 4},
		topicCreated{ID: 3, Name: "gone", Partitions: 9},
		groupCreated{ID: 1, Topic: 3, Name: "g"},
		topicCreated{ID: 5, Name: "orders.eu", Partitions: 12},
		topicDeleted{ID: 3},
		groupCreated{ID: 7, Topic: 5, Name: "é"},
		groupCreated{ID: 258, Topic: 6, Name: "dead", StartPolicy: 1},
	} {
		effects, err := c.Apply(uint64(255+i), appendRecord(nil, rec))
		if err != nil || len(effects) > 0 && strings.HasPrefix(show(effects[0]), "dropped") {
			t.Fatal(rec, effects, err)
		}
	}
	return c
}

func TestRecordsAreTheGoldenBytes(t *testing.T) {
	for _, g := range goldenRecords {
		want := unhex(t, g.hex)
		if got := appendRecord(nil, g.rec); !bytes.Equal(got, want) {
			t.Errorf("%s: got %x, want %x", g.name, got, want)
		}
		if rec, why, err := parseRecord(want); err != nil || rec != g.rec {
			t.Errorf("%s: parsed as %+v, %s, %v", g.name, rec, why, err)
		}
	}
}

func TestSnapshotIsTheGoldenBytes(t *testing.T) {
	c, want := goldenCore(t), unhex(t, goldenSnapshot)
	if got := c.Snapshot(); !bytes.Equal(got, want) {
		t.Errorf("got  %x\nwant %x", got, want)
	}
	d := New(Config{})
	if err := d.Restore(want); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(c.reg, d.reg) {
		t.Errorf("restored %+v\nwant %+v", d.reg, c.reg)
	}
	if d.Applied() != 261 {
		t.Errorf("applied %d", d.Applied())
	}
}

func TestFormatDocumentShowsTheGoldenBytes(t *testing.T) {
	doc, err := os.ReadFile("FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	squeeze := func(s string) string { return strings.Join(strings.Fields(s), "") }
	dumps := "" // the indented lines, less what stands beside the bytes
	for line := range strings.Lines(string(doc)) {
		if line, ok := strings.CutPrefix(line, "    "); ok {
			line, _, _ = strings.Cut(line, "  ")
			dumps += line
		}
	}
	text := squeeze(dumps)
	for _, g := range goldenRecords {
		if !strings.Contains(text, squeeze(g.hex)) {
			t.Errorf("FORMAT.md does not show the dump of %s: %s", g.name, g.hex)
		}
	}
	if !strings.Contains(text, squeeze(goldenSnapshot)) {
		t.Errorf("FORMAT.md does not show the dump of a snapshot: %s", goldenSnapshot)
	}
}

func TestRecordsThatCannotBeRead(t *testing.T) {
	name256 := strings.Repeat("61", 256)
	for _, c := range []struct {
		what, hex string
		err       error
	}{
		{"empty", "", ErrDamaged},
		{"no kind", "01", ErrDamaged},
		{"version 0", "00 01 0003 0004 000c 0001 61", ErrDamaged},
		{"version 2", "02 01 0003 0004 000c 0001 61", ErrNewer},
		{"kind 0", "01 00", ErrNewer},
		{"kind 4", "01 04 0001", ErrNewer},
		{"an even source", "01 01 0002 0003 000c 0001 61", ErrDamaged},
		{"source 0xFFFF", "01 01 ffff 0000 000c 0001 61", ErrDamaged},
		{"another twin", "01 01 0003 0006 000c 0001 61", ErrDamaged},
		{"no partitions", "01 01 0003 0004 0000 0001 61", ErrDamaged},
		{"65535 partitions", "01 01 0003 0004 ffff 0001 61", ErrDamaged},
		{"no name", "01 01 0003 0004 000c 0000", ErrDamaged},
		{"a long name", "01 01 0003 0004 000c 0100 " + name256, ErrDamaged},
		{"a tail", "01 01 0003 0004 000c 0001 6100", ErrDamaged},
		{"delete: an even source", "01 02 0004 0005", ErrDamaged},
		{"delete: another twin", "01 02 0003 0003", ErrDamaged},
		{"delete: a tail", "01 02 0003 0004 00", ErrDamaged},
		{"group 0", "01 03 0000 0004 01 0001 61", ErrDamaged},
		{"group: topic 0", "01 03 0001 0000 01 0001 61", ErrDamaged},
		{"group: topic 0xFFFF", "01 03 0001 ffff 01 0001 61", ErrDamaged},
		{"group: policy 2", "01 03 0001 0004 02 0001 61", ErrDamaged},
		{"group: no name", "01 03 0001 0004 00 0000", ErrDamaged},
		{"group: a long name", "01 03 0001 0004 00 0100" + name256, ErrDamaged},
	} {
		core := goldenCore(t)
		before := core.Snapshot()
		effects, err := core.Apply(1000, unhex(t, c.hex))
		var re *RecordError
		if !errors.Is(err, c.err) || !errors.As(err, &re) || re.Index != 1000 || effects != nil {
			t.Errorf("%s: got %v, %v; want %v", c.what, effects, err, c.err)
		}
		if !bytes.Equal(core.Snapshot(), before) {
			t.Errorf("%s: the state was changed", c.what)
		}
	}
	for _, g := range goldenRecords {
		whole := unhex(t, g.hex)
		for n := range whole {
			if _, _, err := parseRecord(whole[:n]); !errors.Is(err, ErrDamaged) {
				t.Errorf("%s cut to %d bytes: %v", g.name, n, err)
			}
		}
	}
}

// sealed puts the right checksum behind a snapshot.
func sealed(b []byte) []byte { return binary.BigEndian.AppendUint32(b, checksum(b)) }

func TestSnapshotsThatCannotBeRead(t *testing.T) {
	core := goldenCore(t)
	before := core.Snapshot()
	refused := func(what string, data []byte, want error) {
		t.Helper()
		err := core.Restore(data)
		var se *SnapshotError
		if !errors.Is(err, want) || !errors.As(err, &se) {
			t.Errorf("%s: got %v, want %v", what, err, want)
		}
		if !bytes.Equal(core.Snapshot(), before) {
			t.Fatalf("%s: the state was changed", what)
		}
	}
	for n := range before {
		refused("cut off", before[:n], ErrDamaged)
		flipped := bytes.Clone(before)
		flipped[n] ^= 0x10
		want := ErrDamaged
		if n == 4 {
			want = ErrNewer // the version
		}
		refused("a flipped bit", flipped, want)
		if body := before[:n]; n < len(before)-crcLen {
			refused("cut off and sealed again", sealed(bytes.Clone(body)), ErrDamaged)
		}
	}
	head := "4d4d5143 01 0000000000000105 0007 0102 "
	for _, c := range []struct{ what, hex string }{
		{"next id even", "4d4d5143 01 0000000000000105 0008 0102 0000 0000"},
		{"version 0", "4d4d5143 00 0000000000000105 0007 0102 0000 0000"},
		{"ids that do not ascend", head + "0002 0003 0004 0001 61 0001 0004 0001 62 0000"},
		{"an id twice", head + "0002 0003 0004 0001 61 0003 0004 0001 62 0000"},
		{"an id that is yet to come", head + "0001 0007 0004 0001 61 0000"},
		{"a name twice", head + "0002 0001 0004 0001 61 0003 0004 0001 61 0000"},
		{"an even id", head + "0001 0002 0004 0001 61 0000"},
		{"no partitions", head + "0001 0001 0000 0001 61 0000"},
		{"a group without a topic", head + "0000 0001 0001 0001 00 0001 61"},
		{"groups that do not ascend", head + "0001 0001 0004 0001 61 0002 0002 0001 00 0001 61 0001 0002 00 0001 61"},
		{"two groups with one name", head + "0001 0001 0004 0001 61 0002 0001 0001 00 0001 61 0002 0001 00 0001 61"},
		{"a tail", head + "0000 0000 00"},
	} {
		refused(c.what, sealed(unhex(t, c.hex)), ErrDamaged)
	}
}

func TestApplyIgnoresWhatItHasSeen(t *testing.T) {
	c := New(Config{})
	rec := appendRecord(nil, topicCreated{ID: 1, Name: "a", Partitions: 4})
	if effects, err := c.Apply(7, rec); len(effects) != 1 || err != nil {
		t.Fatal(effects, err)
	}
	for _, index := range []uint64{7, 6, 1, 0} {
		if effects, err := c.Apply(index, rec); effects != nil || err != nil {
			t.Errorf("index %d: %v, %v", index, effects, err)
		}
	}
	effects, err := c.Apply(9, rec) // indexes may have gaps: the empty entries of new terms
	if err != nil || len(effects) != 1 || effects[0] != (Dropped{9, "topic created: the name is taken"}) || c.Applied() != 9 {
		t.Errorf("%v, %v", effects, err)
	}
}

// A record that does not fit any more changes nothing, the same on every node.
func TestRecordsThatDoNotFit(t *testing.T) {
	for _, rec := range []any{
		topicCreated{ID: 7, Name: "a", Partitions: 4},
		topicCreated{ID: 9, Name: "b", Partitions: 4},
		topicCreated{ID: 3, Name: "b", Partitions: 4},
		topicDeleted{ID: 3},
		topicDeleted{ID: 7},
		groupCreated{ID: 7, Topic: 5, Name: "new"},
		groupCreated{ID: 8, Topic: 5, Name: "é"},
		groupCreated{ID: 8, Topic: 3, Name: "new"},
	} {
		c := goldenCore(t)
		before := c.Snapshot()
		effects, err := c.Apply(1000, appendRecord(nil, rec))
		if err != nil || len(effects) != 1 || reflect.TypeOf(effects[0]) != reflect.TypeFor[Dropped]() {
			t.Errorf("%+v: %v, %v", rec, effects, err)
		}
		c.reg.applied = 261
		if !bytes.Equal(c.Snapshot(), before) {
			t.Errorf("%+v changed the state", rec)
		}
	}
}

func FuzzApply(f *testing.F) {
	for _, g := range goldenRecords {
		f.Add(unhex(f, g.hex))
	}
	f.Add(appendRecord(nil, topicCreated{ID: 7, Name: "new", Partitions: 1}))
	f.Add(appendRecord(nil, topicDeleted{ID: 5}))
	f.Fuzz(func(t *testing.T, data []byte) {
		c := goldenCore(t)
		c.Lead(1)
		before := c.Snapshot()
		effects, err := c.Apply(1000, data)
		if err != nil {
			if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrNewer) || !bytes.Equal(c.Snapshot(), before) {
				t.Fatalf("%v", err)
			}
			return
		}
		rec, _, _ := parseRecord(data)
		if again := appendRecord(nil, rec); !bytes.Equal(again, data) {
			t.Fatalf("read %x, wrote %x", data, again)
		}
		if len(effects) > 1 {
			t.Fatalf("%v", effects)
		}
		roundTrip(t, c)
	})
}

func FuzzRestore(f *testing.F) {
	golden := unhex(f, goldenSnapshot)
	f.Add(golden[:len(golden)-crcLen])
	f.Add([]byte(nil))
	empty := New(Config{}).Snapshot()
	f.Add(empty[:len(empty)-crcLen])
	f.Fuzz(func(t *testing.T, body []byte) {
		c := New(Config{})
		if err := c.Restore(body); err != nil && !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrNewer) {
			t.Fatal(err)
		}
		data := sealed(bytes.Clone(body)) // the fuzzer would hardly ever find the checksum
		if err := c.Restore(data); err != nil {
			return
		}
		if again := c.Snapshot(); !bytes.Equal(again, data) {
			t.Fatalf("read %x, wrote %x", data, again)
		}
		roundTrip(t, c)
	})
}

func roundTrip(t testing.TB, c *Core) {
	t.Helper()
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	d := New(Config{})
	if err := d.Restore(c.Snapshot()); err != nil || !reflect.DeepEqual(c.reg, d.reg) {
		t.Fatalf("a snapshot does not give the state back: %v\n%+v\n%+v", err, d.reg, c.reg)
	}
}

func TestLargestNamesFit(t *testing.T) {
	name := strings.Repeat("n", codec.MaxTopicLen)
	for _, rec := range []any{topicCreated{ID: lastSource, Name: name, Partitions: maxPartitions}, groupCreated{ID: 65535, Topic: lastSource.Twin(), Name: name}} {
		if got, why, err := parseRecord(appendRecord(nil, rec)); err != nil || got != rec {
			t.Errorf("%T: %+v, %s, %v", rec, got, why, err)
		}
	}
}
