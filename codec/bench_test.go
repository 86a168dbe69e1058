package codec

import "testing"

func benchPub(size int) []byte {
	return AppendPub(nil, &Pub{TopicID: 1, Partition: 2, ProducerID: 7, ProducerSeq: 42,
		Key: []byte("customer-4711"), Value: make([]byte, size)})
}

// BenchmarkPubDecode cuts and decodes a PUB of 1 KiB.
func BenchmarkPubDecode(b *testing.B) {
	frame := benchPub(1024)
	b.SetBytes(int64(len(frame)))
	b.ReportAllocs()
	for b.Loop() {
		_, payload, _, _, err := Cut(frame)
		if err != nil {
			b.Fatal(err)
		}
		if m, err := DecodePub(payload); err != nil || len(m.Value) != 1024 {
			b.Fatal(err)
		}
	}
}

// BenchmarkPubAppend encodes the same PUB.
func BenchmarkPubAppend(b *testing.B) {
	m := Pub{TopicID: 1, Partition: 2, ProducerID: 7, ProducerSeq: 42, Key: []byte("customer-4711"), Value: make([]byte, 1024)}
	buf := make([]byte, 0, 2048)
	b.SetBytes(int64(len(AppendPub(buf, &m))))
	b.ReportAllocs()
	for b.Loop() {
		AppendPub(buf, &m)
	}
}

// BenchmarkMsgHeader writes what stands in front of a stored record.
func BenchmarkMsgHeader(b *testing.B) {
	m := Msg{SubscriptionID: 1, TopicID: 1, Partition: 2, Sequence: 3, DeliveryID: 4, Attempt: 1, OwnershipEpoch: 1<<32 + 1}
	buf := make([]byte, 0, 64)
	b.SetBytes(MsgHeaderLen)
	b.ReportAllocs()
	for b.Loop() {
		AppendMsgHeader(buf, &m, 1024)
	}
}

// BenchmarkMsgDecode is the consumer's side of it.
func BenchmarkMsgDecode(b *testing.B) {
	frame := AppendMsg(nil, &Msg{SubscriptionID: 1, Key: []byte("customer-4711"), Value: make([]byte, 1024)})
	b.SetBytes(int64(len(frame)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeMsg(frame[HeaderLen:]); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPubOK writes the answer to a PUB.
func BenchmarkPubOK(b *testing.B) {
	r := PubResult{Sequence: 1, Durability: DurableDisk, LeaderEpoch: 1, CommitSeq: 1}
	buf := make([]byte, 0, 64)
	b.SetBytes(36)
	b.ReportAllocs()
	for b.Loop() {
		AppendPubOK(buf, &r)
	}
}

// BenchmarkAckDecode decodes an ACK.
func BenchmarkAckDecode(b *testing.B) {
	frame := AppendAck(nil, &Ack{SubscriptionID: 1, Seq: 2})
	b.SetBytes(int64(len(frame)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeAck(frame[HeaderLen:]); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCheckPrefix looks at a PUB of 16 MiB of which 64 KiB are there.
func BenchmarkCheckPrefix(b *testing.B) {
	p := benchPub(MaxValueLen)[HeaderLen:]
	b.ReportAllocs()
	for b.Loop() {
		if err := CheckPrefix(OpPub, p[:64<<10], len(p)); err != nil {
			b.Fatal(err)
		}
	}
}
