package shard

import (
	"bytes"
	"encoding/hex"
	"reflect"
	"strings"
	"testing"

	"github.com/mortarmq/mortarmq/codec"
	mlog "github.com/mortarmq/mortarmq/log"
)

// tail is a PUB's tail: producer 7, number 9, flags 1, key "k", value "v1".
const goldenTail = "0000000000000007" + "0000000000000009" + "0001" + "0001" + "6b" + "00000002" + "7631"

// Golden bytes of every block (FORMAT.md).
func TestEntryGolden(t *testing.T) {
	tail, _ := hex.DecodeString(goldenTail)
	block := func(kind blockKind, body func(dst []byte) []byte) []byte {
		dst, start := beginBlock(nil, kind)
		return endBlock(body(dst), start)
	}
	delta := ledgerDelta{
		topic: 3, part: 1, group: 5, floor: 100, cursor: 300,
		settled: []span{{102, 102}, {110, 119}},
		marks:   []mark{{seq: 101, state: markWaiting, attempts: 2, reason: codec.DeadLease}, {seq: 300, state: markInFlight}},
	}
	tests := []struct {
		name string
		got  []byte
		want string
	}{
		{"header", appendEntryHeader(nil, 0x0102030405060708, 5), "01 0102030405060708 0000000000000005"},
		{"messages", block(blockMessages, func(b []byte) []byte {
			return appendRecord(appendMessagesHead(b, messagesHead{3, 1, 42, 1}), tail)
		}), "01 0000002b 0003 0001 000000000000002a 00000001" +
			"0000000000000007 0000000000000009 0000 0001 6b 00000002 7631"},
		{"ledger", block(blockLedger, func(b []byte) []byte { return appendLedgerDelta(b, &delta) }),
			"02 00000026 0003 0001 0005 0000000000000064 000000000000012c 00 02 02 00 08 09 02 65 01 02 02 ac02 00 00 00"},
		{"dead letter", block(blockDead, func(b []byte) []byte {
			return appendDeadHead(b, deadHead{3, 1, 5, 42, 7})
		}), "03 00000016 0003 0001 0005 000000000000002a 0000000000000007"},
		{"group", block(blockGroup, func(b []byte) []byte {
			return appendGroupStart(b, groupStart{3, 1, 5, 41})
		}), "04 0000000e 0003 0001 0005 0000000000000029"},
		{"forget", encodeForget(nil, []forgotten{{newPartition(3, 1), 7}}), "05 0000000c 0003 0001 0000000000000007"},
	}
	for _, tt := range tests {
		if want := strings.ReplaceAll(tt.want, " ", ""); hex.EncodeToString(tt.got) != want {
			t.Errorf("%s:\n got %x\nwant %s", tt.name, tt.got, want)
		}
	}
	got, err := parseLedgerDelta(appendLedgerDelta(nil, &delta))
	if err != nil || !reflect.DeepEqual(got, delta) {
		t.Errorf("ledger delta read back: %+v, %v; want %+v", got, err, delta)
	}
}

func TestDeadLetterRecord(t *testing.T) {
	tail, _ := hex.DecodeString(goldenTail)
	want := codec.Origin{TopicID: 3, Partition: 1, Sequence: 42, Attempts: 5, Reason: codec.DeadLease, Group: []byte("grp")}
	rec := appendDeadLetter(nil, appendRecord(nil, tail), want)
	n, key, value, err := recordLen(append(bytes.Clone(rec), 1, 2, 3))
	if err != nil || n != len(rec) || key != 1 || value != 2 {
		t.Fatalf("recordLen = %d %d %d %v, want %d 1 2", n, key, value, err, len(rec))
	}
	frame := codec.AppendMsgHeader(nil, &codec.Msg{SubscriptionID: 1, TopicID: 4}, len(rec))
	msg, err := codec.DecodeMsg(append(frame, rec...)[codec.HeaderLen:])
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(msg.Origin, want) || msg.ProducerID != 7 || string(msg.Value) != "v1" {
		t.Errorf("delivered as %+v", msg)
	}
}

func FuzzLedgerDelta(f *testing.F) {
	f.Add(appendLedgerDelta(nil, &ledgerDelta{floor: 1, cursor: 9, settled: []span{{3, 4}}, marks: []mark{{seq: 2, attempts: 1}}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := parseLedgerDelta(b)
		if err != nil {
			return
		}
		again, err := parseLedgerDelta(appendLedgerDelta(nil, &d))
		if err != nil || !reflect.DeepEqual(d, again) {
			t.Fatalf("%x: %+v, then %+v %v", b, d, again, err)
		}
	})
}

// No entry makes replay panic, whatever its bytes.
func FuzzReplay(f *testing.F) {
	tail, _ := hex.DecodeString(goldenTail)
	entry := appendEntryHeader(nil, 1, 2)
	entry, start := beginBlock(entry, blockMessages)
	entry = endBlock(appendRecord(appendMessagesHead(entry, messagesHead{3, 1, 1, 1}), tail), start)
	entry, start = beginBlock(entry, blockGroup)
	entry = endBlock(appendGroupStart(entry, groupStart{3, 1, 5, 0}), start)
	entry, start = beginBlock(entry, blockLedger)
	entry = endBlock(appendLedgerDelta(entry, &ledgerDelta{topic: 3, part: 1, group: 5, floor: 0, cursor: 1, marks: []mark{{seq: 1, attempts: 1}}}), start)
	f.Add(entry)
	f.Fuzz(func(t *testing.T, b []byte) {
		c := NewCore(Config{Shards: 1}, nil, nil, 1)
		_ = c.replay(entryOf(b)) // an error is fine, a panic is not
	})
}

func entryOf(data []byte) mlog.Entry { return mlog.Entry{Term: 1, Index: 1, Data: data} }
