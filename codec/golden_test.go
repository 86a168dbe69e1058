package codec

import (
	"bytes"
	"reflect"
	"testing"
)

// golden is a frame written down by hand from the protocol's field table, each
// field with a value of its own, beside the struct it stands for.
type golden struct {
	name string
	op   Op
	hex  string
	m    any
}

func goldens() []golden {
	return []golden{
		{"CONNECT", OpConnect, "00000010 01 | 01 | 0203 | 0006 | 736573616d65 | 00000000",
			Connect{ProtocolVersion: 1, ClientFlags: 0x0203, Token: []byte("sesame")}},
		{"DECLARE", OpDeclare, "00000010 02 | 0009 | 6f72646572732e6575 | 0405 | 0001",
			Declare{Topic: []byte("orders.eu"), PartitionCount: 0x0405, Flags: DeclareDelete}},
		{"PUB", OpPub, "00000027 03 | 0107 | 0203 | 1122334455667788 | 99aabbccddeeff01 | 8000 | 0003 | 6b6579 | 00000007 | 7061796c6f6164",
			Pub{TopicID: 0x0107, Partition: 0x0203, ProducerID: 0x1122334455667788, ProducerSeq: 0x99AABBCCDDEEFF01,
				Flags: 0x8000, Key: []byte("key"), Value: []byte("payload"),
				Tail: []byte("\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc\xdd\xee\xff\x01\x80\x00\x00\x03key\x00\x00\x00\x07payload")}},
		{"SUB", OpSub, "00000017 04 | 0007 | 62696c6c696e67 | 0901 | ffff | 01 | 0102 | 03040506 | 0001",
			Sub{Group: []byte("billing"), TopicID: 0x0901, Partition: AnyPartition, StartPolicy: StartLatest,
				CreditCount: 0x0102, CreditBytes: 0x03040506, Flags: SubNoCreate}},
		{"ACK", OpAck, "00000021 05 | 0102 | 0304 | 0506 | 0708090a0b0c0d0e | 1112131415161718 | 2122232425262728 | 0001",
			Ack{SubscriptionID: 0x0102, TopicID: 0x0304, Partition: 0x0506, Seq: 0x0708090A0B0C0D0E,
				DeliveryID: 0x1112131415161718, OwnershipEpoch: 0x2122232425262728, Flags: AckProgress}},
		{"NACK", OpNack, "00000022 06 | 0102 | 0304 | 0506 | 0708090a0b0c0d0e | 1112131415161718 | 2122232425262728 | 02 | 0030",
			Nack{SubscriptionID: 0x0102, TopicID: 0x0304, Partition: 0x0506, Seq: 0x0708090A0B0C0D0E,
				DeliveryID: 0x1112131415161718, OwnershipEpoch: 0x2122232425262728, Reason: NackRelease, Flags: 0x0030}},
		{"PING", OpPing, "00000001 07", struct{}{}},
		{"ERR", OpErr, "00000010 08 | 6005 | 03 | 000a | 6c65616465723d683a31",
			Err{Code: CodeStaleLeaderEpoch, RequestOp: uint8(OpPub), Message: []byte("leader=h:1")}},
		{"ERR with a code and an op of later", OpErr, "00000006 08 | 7ffe | 7d | 0000",
			Err{Code: 0x7FFE, RequestOp: 0x7D, Message: []byte{}}},
		{"OK", OpOK, "00000009 09 | 0f | 00000003 | a1b2c3",
			OK{RequestOp: OpCredit, Result: []byte{0xA1, 0xB2, 0xC3}}},
		{"OK, empty", OpOK, "00000006 09 | 05 | 00000000", OK{RequestOp: OpAck, Result: []byte{}}},
		{"MSG", OpMsg, "00000040 0a | 0102 | 0304 | 0506 | 0708090a0b0c0d0e | 1112131415161718 | 1920 | 2122232425262728 | " +
			"3132333435363738 | 4142434445464748 | 0000 | 0001 | 6b | 00000006 | 76616c756573",
			Msg{SubscriptionID: 0x0102, TopicID: 0x0304, Partition: 0x0506, Sequence: 0x0708090A0B0C0D0E,
				DeliveryID: 0x1112131415161718, Attempt: 0x1920, OwnershipEpoch: 0x2122232425262728,
				ProducerID: 0x3132333435363738, ProducerSeq: 0x4142434445464748, Key: []byte("k"), Value: []byte("values")}},
		{"MSG from a twin", OpMsg, "00000052 0a | 0102 | 0304 | 0506 | 0708090a0b0c0d0e | 1112131415161718 | 1920 | 2122232425262728 | " +
			"3132333435363738 | 4142434445464748 | 0001 | 0001 | 6b | 00000002 | 7631 | " +
			"0303 | 5152 | 6162636465666768 | 7172 | 03 | 0005 | 67726f7570",
			Msg{SubscriptionID: 0x0102, TopicID: 0x0304, Partition: 0x0506, Sequence: 0x0708090A0B0C0D0E,
				DeliveryID: 0x1112131415161718, Attempt: 0x1920, OwnershipEpoch: 0x2122232425262728,
				ProducerID: 0x3132333435363738, ProducerSeq: 0x4142434445464748, Flags: MsgDeadLetter,
				Key: []byte("k"), Value: []byte("v1"),
				Origin: Origin{TopicID: 0x0303, Partition: 0x5152, Sequence: 0x6162636465666768, Attempts: 0x7172,
					Reason: DeadMemberLost, Group: []byte("group")}}},
		{"PULL", OpPull, "00000031 0b | 0102 | 1112131415161718 | 21222324 | 31323334 | 0002 | 4142434445464748 | 5152535455565758 | " +
			"6162 | 71727374 | 8182 | 91929394",
			Pull{SubscriptionID: 0x0102, MemberID: 0x1112131415161718, MembershipEpoch: 0x21222324, AssignmentEpoch: 0x31323334,
				OwnershipEpochs: AppendEpoch(AppendEpoch(nil, 0x4142434445464748), 0x5152535455565758),
				MaxMsgs:         0x6162, MaxBytes: 0x71727374, WaitMs: 0x8182, MinBytes: 0x91929394}},
		{"HEARTBEAT", OpHeartbeat, "00000014 0c | 0102 | 1112131415161718 | 21222324 | 31323334 | 01",
			Heartbeat{SubscriptionID: 0x0102, MemberID: 0x1112131415161718, MembershipEpoch: 0x21222324,
				AssignmentEpoch: 0x31323334, State: HeartbeatLeave}},
		{"NOTICE", OpNotice, "00000028 0d | 0102030405060708 | 01 | 1112 | 21222324 | 31323334 | 4142434445464748 | 5152 | 6162 | 7172737475767778",
			Notice{NoticeID: 0x0102030405060708, Kind: NoticeRevoke, GroupID: 0x1112, MembershipEpoch: 0x21222324,
				AssignmentEpoch: 0x31323334, OwnershipEpoch: 0x4142434445464748, TopicID: 0x5152, Partition: 0x6162,
				MemberID: 0x7172737475767778}},
		{"CONTROL_ACK", OpControlAck, "0000001d 0e | 0102030405060708 | 01 | 1112 | 21222324 | 31323334 | 4142434445464748 | 02",
			ControlAck{NoticeID: 0x0102030405060708, NoticeKind: NoticeRevoke, GroupID: 0x1112, MembershipEpoch: 0x21222324,
				AssignmentEpoch: 0x31323334, OwnershipEpoch: 0x4142434445464748, Result: ControlError}},
		{"CREDIT", OpCredit, "0000001a 0f | 0102 | 11121314 | 2122232425262728 | 01 | 3132 | 41424344 | 00000000",
			Credit{SubscriptionID: 0x0102, MembershipEpoch: 0x11121314, OwnershipEpoch: 0x2122232425262728, Mode: CreditAdd,
				CreditCount: 0x3132, CreditBytes: 0x41424344}},
	}
}

func TestGoldenFrames(t *testing.T) {
	seen := map[Op]bool{}
	for _, g := range goldens() {
		t.Run(g.name, func(t *testing.T) {
			want := unhex(t, g.hex)
			got := appendAny([]byte("before"), g.m)
			if !bytes.Equal(got, append([]byte("before"), want...)) {
				t.Errorf("encodes to\n%x, want\n%x", got[6:], want)
			}
			op, payload, n, need, err := Cut(append(want, 0xEE))
			if op != g.op || n != len(want) || need != 0 || err != nil {
				t.Fatalf("Cut: op %v, n %d, need %d, error %v", op, n, need, err)
			}
			if len(payload) != n-HeaderLen || cap(payload) != len(payload) {
				t.Errorf("Cut: a payload of %d bytes with room for %d: an append would overwrite the next frame", len(payload), cap(payload))
			}
			m, err := mustAgree(t, op, payload)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(m, g.m) {
				t.Errorf("decodes to\n%+v, want\n%+v", m, g.m)
			}
			mustBeViews(t, m, payload)
			seen[op] = true
		})
	}
	if len(seen) != 15 {
		t.Errorf("goldens for %d ops, want all 15", len(seen))
	}
}

func TestEveryPrefixOfAGoldenFrameIsUnfinished(t *testing.T) {
	for _, g := range goldens() {
		whole := unhex(t, g.hex)
		for k := range whole {
			_, payload, n, need, err := Cut(whole[:k])
			want := len(whole) - k
			if k < PrefixLen {
				want = PrefixLen - k
			}
			if n != 0 || need != want || err != nil || payload != nil {
				t.Fatalf("%s, first %d bytes: n %d, need %d, error %v; want to need %d", g.name, k, n, need, err, want)
			}
		}
	}
}

func TestEveryPrefixOfAGoldenPayload(t *testing.T) {
	for _, g := range goldens() {
		p := unhex(t, g.hex)[HeaderLen:]
		for k := range p {
			// As the part of a frame that is still coming it is fine.
			if err := CheckPrefix(g.op, p[:k], len(p)); err != nil {
				t.Errorf("%s: the first %d of %d bytes are refused with %v", g.name, k, len(p), err)
			}
			// As a frame of that length it is truncated: every byte of v0 counts.
			if _, err := mustAgree(t, g.op, p[:k]); err != ErrMalformed {
				t.Errorf("%s truncated to %d bytes: %v, want ErrMalformed", g.name, k, err)
			}
		}
	}
}

func TestGoldenResults(t *testing.T) {
	for _, g := range []struct {
		name   string
		hex    string
		r      any
		append func(dst []byte) []byte
		decode func(p []byte) (any, error)
	}{
		{"DECLARE", "0107 | 0203 | 01", DeclareResult{0x0107, 0x0203, CreatedExisted},
			func(dst []byte) []byte {
				return AppendDeclareResult(dst, &DeclareResult{0x0107, 0x0203, CreatedExisted})
			},
			func(p []byte) (any, error) { return DecodeDeclareResult(p) }},
		{"PUB", "0102030405060708 | 02 | 1112131415161718 | 2122232425262728 | 01", goldenPubResult(),
			func(dst []byte) []byte { r := goldenPubResult(); return AppendPubResult(dst, &r) },
			func(p []byte) (any, error) { return DecodePubResult(p) }},
		{"SUB", "0102 | 1112131415161718 | 21222324 | 31323334", SubResult{0x0102, 0x1112131415161718, 0x21222324, 0x31323334},
			func(dst []byte) []byte {
				return AppendSubResult(dst, &SubResult{0x0102, 0x1112131415161718, 0x21222324, 0x31323334})
			},
			func(p []byte) (any, error) { return DecodeSubResult(p) }},
		{"CREDIT", "0102 | 11121314 | 2122 | 31323334 | 4142434445464748",
			CreditResult{0x0102, 0x11121314, 0x2122, 0x31323334, 0x4142434445464748},
			func(dst []byte) []byte {
				return AppendCreditResult(dst, &CreditResult{0x0102, 0x11121314, 0x2122, 0x31323334, 0x4142434445464748})
			},
			func(p []byte) (any, error) { return DecodeCreditResult(p) }},
	} {
		t.Run(g.name, func(t *testing.T) {
			want := unhex(t, g.hex)
			if got := g.append([]byte{0xEE}); !bytes.Equal(got[1:], want) || got[0] != 0xEE {
				t.Errorf("encodes to %x, want ee%x", got, want)
			}
			if r, err := g.decode(want); err != nil || r != g.r {
				t.Errorf("decodes to %+v, %v, want %+v", r, err, g.r)
			}
			for k := range want {
				if _, err := g.decode(want[:k]); err != ErrMalformed {
					t.Errorf("truncated to %d bytes: %v, want ErrMalformed", k, err)
				}
			}
			if _, err := g.decode(append(want, 0)); err != ErrMalformed {
				t.Errorf("with a byte behind it: %v, want ErrMalformed", err)
			}
		})
	}
}

func goldenPubResult() PubResult {
	return PubResult{Sequence: 0x0102030405060708, Durability: DurableQuorum, LeaderEpoch: 0x1112131415161718,
		CommitSeq: 0x2122232425262728, ResultFlags: PubDeduped}
}

// The frames that skip a struct are the same bytes as those that do not.
func TestShortcutsEqualTheLongWay(t *testing.T) {
	r := goldenPubResult()
	long := AppendOK(nil, &OK{RequestOp: OpPub, Result: AppendPubResult(nil, &r)})
	if got := AppendPubOK(nil, &r); !bytes.Equal(got, long) || len(got) != 36 {
		t.Errorf("AppendPubOK: %x, want %x", got, long)
	}
	for _, op := range allOps() {
		long := AppendOK(nil, &OK{RequestOp: op})
		if got := AppendEmptyOK(nil, op); !bytes.Equal(got, long) {
			t.Errorf("AppendEmptyOK: %x, want %x", got, long)
		}
	}
	long = AppendErr(nil, &Err{Code: CodeSeqGap, RequestOp: 3, Message: []byte("text")})
	if got := AppendErrCode(nil, CodeSeqGap, 3, "text"); !bytes.Equal(got, long) {
		t.Errorf("AppendErrCode: %x, want %x", got, long)
	}
}

// A PUB's tail behind a MSG header is a MSG (P8), and a twin's record ends in
// the Origin (V12).
func TestStoredRecordIsTheEndOfAMsg(t *testing.T) {
	for _, g := range goldens() {
		want, ok := g.m.(Msg)
		if !ok {
			continue
		}
		frame := AppendPub(nil, &Pub{TopicID: 9, ProducerID: want.ProducerID, ProducerSeq: want.ProducerSeq,
			Flags: 0x4444, Key: want.Key, Value: want.Value})
		pub, err := DecodePub(frame[HeaderLen:])
		if err != nil {
			t.Fatal(err)
		}
		record := bytes.Clone(pub.Tail)
		SetTailFlags(record, want.Flags)
		if want.Flags == MsgDeadLetter {
			record = AppendOrigin(record, &want.Origin)
		}
		got := append(AppendMsgHeader(nil, &want, len(record)), record...)
		if !bytes.Equal(got, unhex(t, g.hex)) {
			t.Errorf("%s: %x", g.name, got)
		}
		if len(got)-len(record) != MsgHeaderLen || MsgHeaderLen != 37 {
			t.Errorf("the header has %d bytes, want 37", len(got)-len(record))
		}
	}
}

func TestTailDelimitsItself(t *testing.T) {
	record := AppendPub(nil, &Pub{ProducerID: 7, ProducerSeq: 8, Key: []byte("k"), Value: []byte("value")})[HeaderLen+4:]
	tail, rest, err := DecodeTail(append(record, "next"...))
	if err != nil || string(rest) != "next" || tail.Len != len(record) || tail.ProducerID != 7 ||
		tail.ProducerSeq != 8 || string(tail.Key) != "k" || string(tail.Value) != "value" {
		t.Errorf("%+v, rest %q, %v", tail, rest, err)
	}
	for k := range record {
		if _, _, err := DecodeTail(record[:k]); err != ErrMalformed {
			t.Errorf("the first %d bytes: %v, want ErrMalformed", k, err)
		}
	}
	want := Origin{TopicID: 1, Partition: 2, Sequence: 3, Attempts: 4, Reason: DeadLease, Group: []byte("g")}
	origin := AppendOrigin(nil, &want)
	o, rest, err := DecodeOrigin(append(origin, "next"...))
	if err != nil || string(rest) != "next" || !reflect.DeepEqual(o, want) {
		t.Errorf("%+v, rest %q, %v", o, rest, err)
	}
	for k := range origin {
		if _, _, err := DecodeOrigin(origin[:k]); err != ErrMalformed {
			t.Errorf("the first %d bytes: %v, want ErrMalformed", k, err)
		}
	}
}
