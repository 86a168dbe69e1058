package conformance

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// has checks a CREDIT result against window and outstanding.
func (m *member) has(rule string, res creditResult, count uint16, bytes uint32, outCount uint16, outBytes uint32) {
	m.t.Helper()
	if res.grantedCount != count || res.grantedBytes != bytes || res.outstandingCount != outCount || res.outstandingBytes != outBytes {
		m.failf(rule, "want window %d/%d with %d/%d outstanding, got %+v", count, bytes, outCount, outBytes, res)
	}
}

// look asks for the window without changing it.
func (m *member) look(rule string) creditResult {
	m.t.Helper()
	return m.window(rule, creditAdd, 0, 0)
}

func TestV5_Window(t *testing.T) {
	t.Parallel()
	addr := ordinary.addr(t)
	t.Run("the defaults", func(t *testing.T) {
		t.Parallel()
		for _, s := range []struct {
			count     uint16
			bytes     uint32
			wantCount uint16
			wantBytes uint32
		}{{0, 0, 256, 2 << 20}, {7, 0, 7, 2 << 20}, {0, 777, 256, 777}, {1, 1, 1, 1}, {65535, math.MaxUint32, 65535, math.MaxUint32}} {
			m := reader(t, addr, s.count, s.bytes)
			m.has("G2: credit_count or credit_bytes 0 = the default (256, 2 MiB)", m.look("V5"), s.wantCount, s.wantBytes, 0, 0)
		}
	})
	t.Run("SET and ADD", func(t *testing.T) {
		t.Parallel()
		m := reader(t, addr, 10, 1000)
		m.has("V5: ADD enlarges it", m.window("V5", creditAdd, 5, 500), 15, 1500, 0, 0)
		m.has("V5: SET replaces the window", m.window("V5", creditSet, 3, 300), 3, 300, 0, 0)
		m.has("V5: ADD saturates", m.window("V5", creditAdd, 65535, math.MaxUint32), 65535, math.MaxUint32, 0, 0)
		m.has("V5: ADD saturates", m.window("V5", creditAdd, 65535, math.MaxUint32), 65535, math.MaxUint32, 0, 0)
		m.has("V5: ADD one side only", m.window("V5", creditSet, 1, 1), 1, 1, 0, 0)
		m.has("V5: ADD one side only", m.window("V5", creditAdd, 0, 9), 1, 10, 0, 0)
		m.has("V5: SET 0 is a window of nothing", m.window("V5", creditSet, 0, 0), 0, 0, 0, 0)
	})
	t.Run("a message counts value plus key", func(t *testing.T) {
		t.Parallel()
		m := reader(t, addr, 10, 1000)
		m.pub("PUB", pub{topic: m.topic, key: make([]byte, 10), value: make([]byte, 100)})
		m.pub("PUB", pub{topic: m.topic, value: make([]byte, 50)})
		m.pub("PUB", pub{topic: m.topic})
		msgs := m.take("PULL", 3)
		m.has("V5: outstanding is what was delivered and not yet settled", m.look("V5"), 10, 1000, 3, 160)
		m.progress("PROGRESS", msgs[0])
		m.has("V5: PROGRESS does not return credit", m.look("V5"), 10, 1000, 3, 160)
		m.ack("ACK", msgs[0])
		m.has("V5: ACK returns credit", m.look("V5"), 10, 1000, 2, 50)
		m.send(m.settleOf(msgs[0]).ack())
		m.err("0x0023: the message is already settled", opAck, codeUnknownDelivery)
		m.has("V5: a repeated ACK returns nothing twice", m.look("V5"), 10, 1000, 2, 50)
		m.nack("NACK", msgs[1], nackRetry)
		m.has("V5: NACK returns credit", m.look("V5"), 10, 1000, 1, 0)
		m.ack("ACK", msgs[2])
		m.has("V5: all is settled", m.look("V5"), 10, 1000, 0, 0)
	})
	t.Run("SET below what is outstanding", func(t *testing.T) {
		t.Parallel()
		m := reader(t, addr, 10, 1000)
		m.fill(m.topic, 0, sized(1, 100), sized(2, 100), sized(3, 100))
		msgs := m.take("PULL", 2)
		m.has("V5: SET below outstanding", m.window("V5", creditSet, 1, 150), 1, 150, 2, 200)
		m.pullErr("V6: an exhausted window", pull{waitMS: 3000}, codeNoCredit)
		m.ack("ACK", msgs[0])
		m.pullErr("V6: still exhausted", pull{waitMS: 3000}, codeNoCredit)
		m.ack("ACK", msgs[1])
		m.got("V5: room again", m.take("PULL", 1), sized(3, 100))
	})
	t.Run("codes", func(t *testing.T) {
		t.Parallel()
		m := reader(t, addr, 10, 1000)
		right := credit{sub: m.sub, mem: m.mem, mode: creditAdd}
		for name, change := range map[string]func(*credit){
			"subscription": func(c *credit) { c.sub += 3 }, "subscription 0": func(c *credit) { c.sub = 0 },
			"membership_epoch": func(c *credit) { c.mem++ }, "ownership_epoch": func(c *credit) { c.epoch = m.own[0] + 1 }, "ownership_epoch 1": func(c *credit) { c.epoch = 1 },
		} {
			c := right
			change(&c)
			c.count = 100
			m.send(c.frame())
			m.err("V5: 0x0020: CREDIT with another "+name, opCredit, codeStaleGeneration)
		}
		right.epoch = m.own[0]
		res := m.credit("V5: the ownership_epoch of a partition the member owns", right)
		m.has("V5: refused ones changed nothing", res, 10, 1000, 0, 0)
	})
}

func TestV5_LeaseExpiryReturnsCredit(t *testing.T) {
	t.Parallel()
	m := reader(t, patient.addr(t), 2, 0)
	m.fill(m.topic, 0, "a", "b", "c")
	since := time.Now()
	m.take("PULL", 2)
	m.has("V5", m.look("V5"), 2, 2<<20, 2, 2)
	for {
		if res := m.look("V5"); res.outstandingCount == 0 {
			m.has("V5: lease expiry returns credit", res, 2, 2<<20, 0, 0)
			break
		}
		m.took("V7: a delivery is leased for delivery_lease_ms", since, 0, 3*time.Second)
		m.quiet("V5", 20*time.Millisecond)
	}
	m.took("V7: not before delivery_lease_ms", since, 300*time.Millisecond, 4*time.Second)
	m.got("V5: and so lets the next one pass", m.take("V5", 1), "c")
}

func TestV6_Codes(t *testing.T) {
	t.Parallel()
	addr := ordinary.addr(t)
	t.Run("larger than max_bytes, within credit", func(t *testing.T) {
		t.Parallel()
		m := reader(t, addr, 0, 0)
		m.fill(m.topic, 0, sized(1, 500), sized(2, 500), "small")
		m.got("V6: delivered alone", m.pull("V6", pull{maxBytes: 10, waitMS: 1000}), sized(1, 500))
		m.got("V6: delivered alone", m.pull("V6", pull{maxBytes: 1, waitMS: 1000}), sized(2, 500))
		m.got("V6", m.pull("V6", pull{maxBytes: 10}), "small")
		m.fill(m.topic, 0, "small", sized(1, 500))
		m.got("V6: not beside another", m.pull("V6", pull{maxBytes: 10}), "small")
		m.got("V6: but alone", m.pull("V6", pull{maxBytes: 10}), sized(1, 500))
	})
	t.Run("larger than credit_bytes", func(t *testing.T) {
		t.Parallel()
		m := reader(t, addr, 10, 400)
		m.fill(m.topic, 0, sized(1, 500), "small")
		for range 3 {
			m.pullErr("V6: larger than credit_bytes: 0x4005 and nothing is skipped", pull{waitMS: 5000}, codeExceedsCredit)
		}
		for _, c := range []credit{{mode: creditSet, count: 10, bytes: 499}, {mode: creditAdd, count: 5, bytes: 99}, {mode: creditSet, count: 0, bytes: 0}} {
			c.sub, c.mem = m.sub, m.mem
			m.send(c.frame())
			m.err("V6: CREDIT that leaves it too small is 0x4005 too", opCredit, codeExceedsCredit)
		}
		m.has("V6: and does not change the window", m.window("V6", creditAdd, 0, 100), 10, 500, 0, 0)
		m.got("V6: nothing was skipped", m.take("V6", 1), sized(1, 500))
	})
	t.Run("comes while a PULL waits", func(t *testing.T) {
		t.Parallel()
		m := reader(t, addr, 10, 400)
		m.send(m.pullOf(pull{waitMS: 5000}).frame())
		m.quiet("V1: it waits", 100*time.Millisecond)
		since := time.Now()
		session(t, addr).fill(m.topic, 0, sized(1, 401))
		m.err("V6: what happens while a PULL waits is answered then", opPull, codeExceedsCredit)
		m.took("V6: then", since, 0, 3*time.Second)
	})
	t.Run("behind one that fits", func(t *testing.T) {
		t.Parallel()
		m := reader(t, addr, 10, 400)
		m.fill(m.topic, 0, "fits", sized(1, 401))
		since := time.Now()
		m.got("V6: a PULL that delivered something ends in OK", m.pull("V6", pull{waitMS: 5000, minBytes: 1000}), "fits")
		m.took("V6: at once", since, 0, 3*time.Second)
		m.pullErr("V6: the ERR comes with the next one", pull{waitMS: 5000}, codeExceedsCredit)
	})
	t.Run("count used up", func(t *testing.T) {
		t.Parallel()
		m := reader(t, addr, 2, 0)
		m.fill(m.topic, 0, "a", "b")
		msgs := m.take("PULL", 2)
		since := time.Now()
		m.pullErr("V6: no count left: 0x4006 at once", pull{waitMS: 5000}, codeNoCredit)
		m.took("V6: at once", since, 0, 3*time.Second)
		m.fill(m.topic, 0, "c")
		m.pullErr("V6: no count left: 0x4006 at once", pull{waitMS: 5000}, codeNoCredit)
		m.ack("ACK", msgs[1])
		m.got("V6: room again", m.take("V6", 1), "c")
	})
	t.Run("the next does not fit beside what is outstanding", func(t *testing.T) {
		t.Parallel()
		m := reader(t, addr, 10, 1000)
		m.fill(m.topic, 0, sized(1, 600), sized(2, 600))
		msgs := m.pull("V6", pull{waitMS: 1000})
		m.got("V6", msgs, sized(1, 600))
		since := time.Now()
		m.pullErr("V6: 0x4006 at once", pull{waitMS: 5000}, codeNoCredit)
		m.took("V6: at once", since, 0, 3*time.Second)
		m.ack("ACK", msgs[0])
		m.got("V6: room again", m.take("V6", 1), sized(2, 600))
	})
	t.Run("a window of nothing", func(t *testing.T) {
		t.Parallel()
		m := reader(t, addr, 10, 1000)
		m.window("V5", creditSet, 0, 0)
		m.pullErr("V6: no count left: 0x4006 at once", pull{waitMS: 5000}, codeNoCredit)
		m.fill(m.topic, 0, "x")
		m.window("V5: SET 0, then enough", creditSet, 1, 1)
		m.got("V6", m.take("V6", 1), "x")
	})
}

// TestV5_CreditNeverDrifts settles deliveries in every way, at random, and compares the window with the test's own books.
func TestV5_CreditNeverDrifts(t *testing.T) {
	t.Parallel()
	n := own(t, knobs{backoffBase: time.Millisecond, backoffMax: time.Millisecond, maxAttempts: 65535})
	seed := uint64(time.Now().UnixNano())
	rnd := rand.New(rand.NewPCG(seed, 1))
	t.Logf("seed %d", seed)
	m := reader(t, n.addr, 40, 4000)
	var held []message
	bytes := func() (sum uint32) {
		for _, x := range held {
			sum += uint32(len(x.key) + len(x.value))
		}
		return sum
	}
	rounds := 1500
	if testing.Short() {
		rounds = 300
	}
	for round := range rounds {
		if round%10 == 0 {
			m.pub("PUB", pub{topic: m.topic, key: make([]byte, rnd.IntN(20)), value: make([]byte, rnd.IntN(100))})
		}
		if len(held) < 20 {
			held = append(held, m.pull("PULL", pull{maxMsgs: uint16(1 + rnd.IntN(5))})...)
		}
		if len(held) > 0 {
			i := rnd.IntN(len(held))
			x := held[i]
			switch rnd.IntN(5) {
			case 0:
				m.progress("PROGRESS", x)
			case 1:
				m.nack("NACK RETRY", x, nackRetry)
				held = append(held[:i], held[i+1:]...)
			default:
				m.ack("ACK", x)
				m.settleErr("0x0023: already settled", m.settleOf(x), codeUnknownDelivery)
				held = append(held[:i], held[i+1:]...)
			}
		}
		m.has("V5: credit never drifts", m.look("V5"), 40, 4000, uint16(len(held)), bytes())
	}
}
