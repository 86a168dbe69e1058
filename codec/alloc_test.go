package codec

import "testing"

// Decoding allocates nothing for any op, whole or refused, and neither does
// looking at a part.
func TestDecodingAllocatesNothing(t *testing.T) {
	decoders := map[Op]func(p []byte) error{
		OpConnect:    func(p []byte) error { _, err := DecodeConnect(p); return err },
		OpDeclare:    func(p []byte) error { _, err := DecodeDeclare(p); return err },
		OpPub:        func(p []byte) error { _, err := DecodePub(p); return err },
		OpSub:        func(p []byte) error { _, err := DecodeSub(p); return err },
		OpAck:        func(p []byte) error { _, err := DecodeAck(p); return err },
		OpNack:       func(p []byte) error { _, err := DecodeNack(p); return err },
		OpPing:       DecodePing,
		OpErr:        func(p []byte) error { _, err := DecodeErr(p); return err },
		OpOK:         func(p []byte) error { _, err := DecodeOK(p); return err },
		OpMsg:        func(p []byte) error { _, err := DecodeMsg(p); return err },
		OpPull:       func(p []byte) error { _, err := DecodePull(p); return err },
		OpHeartbeat:  func(p []byte) error { _, err := DecodeHeartbeat(p); return err },
		OpNotice:     func(p []byte) error { _, err := DecodeNotice(p); return err },
		OpControlAck: func(p []byte) error { _, err := DecodeControlAck(p); return err },
		OpCredit:     func(p []byte) error { _, err := DecodeCredit(p); return err },
	}
	for _, g := range goldens() {
		frame, decode := unhex(t, g.hex), decoders[g.op]
		noAllocs(t, g.name, func() {
			op, p, _, _, err := Cut(frame)
			if op != g.op || err != nil || decode(p) != nil {
				t.Fatalf("%s is refused", g.name)
			}
			for k := range p {
				if CheckPrefix(op, p[:k], len(p)) != nil || decode(p[:k]) == nil {
					t.Fatalf("%s, the first %d bytes: wrong verdict", g.name, k)
				}
			}
		})
	}
	// Frames whose lengths lie do not make anybody allocate what they announce.
	lie := unhex(t, "0001 0000 0000000000000001 0000000000000001 0000 0000 00fffc00")
	noAllocs(t, "a PUB that announces 16 MiB", func() {
		if _, err := DecodePub(lie); err == nil || CheckPrefix(OpPub, lie, MaxFrameLen-1) == nil {
			t.Fatal("accepted")
		}
	})
}

// Appending allocates nothing when the room is there.
func TestAppendingAllocatesNothing(t *testing.T) {
	buf := make([]byte, 0, 4096)
	pub := Pub{TopicID: 1, ProducerID: 7, ProducerSeq: 1, Key: []byte("key"), Value: make([]byte, 1024)}
	ack, nack := Ack{SubscriptionID: 1, Seq: 2}, Nack{SubscriptionID: 1, Seq: 2}
	msg := Msg{SubscriptionID: 1, Key: []byte("key"), Value: make([]byte, 1024)}
	ok, pull, pubResult := OK{RequestOp: OpPub, Result: make([]byte, 26)}, Pull{SubscriptionID: 1}, PubResult{Sequence: 1}
	for name, f := range map[string]func(){
		"PUB":           func() { AppendPub(buf, &pub) },
		"ACK":           func() { AppendAck(buf, &ack) },
		"NACK":          func() { AppendNack(buf, &nack) },
		"MSG":           func() { AppendMsg(buf, &msg) },
		"MSG header":    func() { AppendMsgHeader(buf, &msg, 1000) },
		"OK":            func() { AppendOK(buf, &ok) },
		"OK of a PUB":   func() { AppendPubOK(buf, &pubResult) },
		"OK, empty":     func() { AppendEmptyOK(buf, OpAck) },
		"PULL":          func() { AppendPull(buf, &pull) },
		"PING":          func() { AppendPing(buf) },
		"ERR":           func() { AppendErrCode(buf, CodeBackpressure, uint8(OpPub), "") },
		"ERR with text": func() { AppendErrCode(buf, CodeStaleLeaderEpoch, uint8(OpPub), "leader=10.0.0.1:7188") },
	} {
		noAllocs(t, name, f)
	}
}

// Growing dst is one allocation, however many fields follow. (A build with
// the race detector makes the zeros it appends first: that is the second.)
func TestAppendingGrowsOnce(t *testing.T) {
	pub := Pub{Key: []byte("key"), Value: make([]byte, 1024)}
	if n := testing.AllocsPerRun(100, func() { AppendPub(nil, &pub) }); n > 2 {
		t.Errorf("AppendPub to nil allocates %v times, want 1", n)
	}
}

// The registry can be asked on the way of every ERR.
func TestCodesAllocateNothing(t *testing.T) {
	noAllocs(t, "Code", func() {
		if !CodeBadLength.Closes() || CodeBackpressure.Closes() || !CodeBackpressure.Retriable() ||
			CodeNoCredit.Name() != "NO_CREDIT" || CodeNoCredit.Hint() == "" || Code(0x7777).Closes() {
			t.Fatal("wrong answer")
		}
	})
}

func TestPartitionAllocatesNothing(t *testing.T) {
	key := []byte("customer-4711")
	noAllocs(t, "PartitionFor", func() { PartitionFor(key, 16) })
	noAllocs(t, "CheckGroupName", func() {
		if CheckGroupName(key) != nil {
			t.Fatal("refused")
		}
	})
}

func noAllocs(t *testing.T, name string, f func()) {
	t.Helper()
	if n := testing.AllocsPerRun(100, f); n != 0 {
		t.Errorf("%s allocates %v times per run, want 0", name, n)
	}
}
