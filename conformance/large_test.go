package conformance

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
)

// blob is n bytes that only seed i makes.
func blob(i byte, n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{i}).Read(b)
	return b
}

func TestLarge_Values(t *testing.T) {
	t.Parallel()
	p := session(t, own(t, knobs{segmentBytes: 64 << 20}).addr)
	topic := p.topic(1)
	group := string(bytes.Repeat([]byte("g"), 255))
	const n = 4 // 64 MiB
	key := func(i byte) []byte { return blob(i+100, int(i%2)*maxKey) }
	for i := range byte(n) {
		got := p.pub("section 1: MAX_VALUE_LEN", pub{topic: topic, key: key(i), value: blob(i, maxValue), producer: 1, seq: uint64(i)})
		if got.seq != uint64(i)+1 {
			p.failf("P2", "got %+v", got)
		}
	}
	m := p.join(wide(topic, group), 1)
	same := func(x message, i byte) {
		t.Helper()
		if !bytes.Equal(x.key, key(i)) || !bytes.Equal(x.value, blob(i, maxValue)) || x.producerSeq != uint64(i) {
			m.failf("64 MiB of the largest values pass and come back equal", "message %d differs", i)
		}
	}
	msgs := m.take("section 1: MAX_VALUE_LEN", n)
	for i := range byte(n) {
		same(msgs[i], i)
	}
	m.ack("ACK", msgs[0], msgs[1], msgs[2])

	m.nack("V9: REJECT", msgs[3], nackReject)
	d := p.join(wide(topic+1, group), 1)
	x := d.take("faults: the largest PUB with a 255-byte key can be dead-lettered", 1)[0]
	same(x, 3)
	if x.origin == nil || x.origin.group != group || x.origin.seq != 4 {
		d.failf("V12", "got %+v", x.origin)
	}
	d.ack("ACK", x)
}

// TestLarge_ExactFrame: MAX_FRAME_LEN itself is allowed.
func TestLarge_ExactFrame(t *testing.T) {
	t.Parallel()
	p := session(t, ordinary.addr(t))
	topic := p.topic(1)
	m := pub{topic: topic, flags: unknownFlag, value: []byte("v")}
	m.tail = make([]byte, maxFrame-1-len(m.payload()))
	f := m.frame()
	if len(f) != 4+maxFrame {
		t.Fatalf("built a frame of length %d", len(f)-4)
	}
	p.send(f, ping())
	p.published("section 1: a frame of MAX_FRAME_LEN")
	p.empty("the next request follows it", opPing)
}

// TestLarge_Sizes walks around the sizes at which buffers change hands.
func TestLarge_Sizes(t *testing.T) {
	t.Parallel()
	p := session(t, ordinary.addr(t))
	topic := p.topic(1)
	m := p.join(wide(topic, "g"), 1)
	for i, n := range []int{0, 1, 4064, 4096, 32768, 65_000, 65_503, 65_504, 65_535, 65_536, 65_537, 131_072, 1<<20 - 1, 1 << 20, 4 << 20} {
		for d := -2; d <= 2; d++ {
			if n+d < 0 {
				continue
			}
			v := blob(byte(i), n+d)
			p.send(pub{topic: topic, value: v}.frame(), ping())
			p.published(fmt.Sprintf("a value of %d bytes", n+d))
			p.empty("the next request follows it", opPing)
			x := m.take(fmt.Sprintf("a value of %d bytes", n+d), 1)[0]
			if !bytes.Equal(x.value, v) {
				m.failf("P8: the stored record is the PUB's bytes", "a value of %d bytes differs", n+d)
			}
			m.ack("ACK", x)
		}
	}
}

// TestLarge_FromSeveralConnections keeps more bytes on their way to the disk than
// fit a broker's buffers, each connection within S7's limit.
func TestLarge_FromSeveralConnections(t *testing.T) {
	t.Parallel()
	n := own(t, knobs{})
	conns := []*peer{session(t, n.addr), session(t, n.addr), session(t, n.addr), session(t, n.addr)}
	topic := conns[0].topic(1)
	sent := make(chan error, len(conns))
	for i, p := range conns {
		go func() {
			var two []byte
			for seq := range uint64(2) {
				two = append(two, pub{topic: topic, producer: uint64(i) + 1, seq: seq, value: blob(byte(i), 12<<20)}.frame()...)
			}
			sent <- p.write(two)
		}()
	}
	rule := "S7: 24 MiB unanswered are within the limit"
	content := map[uint64]uint64{} // sequence → producer
	for i, p := range conns {
		for range 2 {
			content[p.published(rule).seq] = uint64(i) + 1
		}
	}
	for range conns {
		if err := <-sent; err != nil {
			t.Fatalf("%s: write: %v", rule, err)
		}
	}
	m := conns[0].join(wide(topic, "g"), 1)
	for i, x := range m.take(rule, 8) {
		if x.seq != uint64(i)+1 || x.producer != content[x.seq] || !bytes.Equal(x.value, blob(byte(x.producer-1), 12<<20)) {
			m.failf("P2: a sequence never shows two contents", "message %d: sequence %d of producer %d, answered to %d", i, x.seq, x.producer, content[x.seq])
		}
	}
}
