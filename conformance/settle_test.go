package conformance

import (
	"slices"
	"testing"
	"time"
)

func TestAckNackCodes(t *testing.T) {
	t.Parallel()
	addr := ordinary.addr(t)
	m := reader(t, addr, 0, 0)
	m.fill(m.topic, 0, "a", "b", "c")
	msgs := m.take("PULL", 2)
	for name, c := range map[string]struct {
		change func(*settle)
		code   uint16
	}{
		"0x0020: unknown subscription":              {func(s *settle) { s.sub += 7 }, codeStaleGeneration},
		"0x0020: subscription 0":                    {func(s *settle) { s.sub = 0 }, codeStaleGeneration},
		"0x0022: another ownership_epoch":           {func(s *settle) { s.epoch++ }, codeStaleOwner},
		"0x0022: ownership_epoch 0":                 {func(s *settle) { s.epoch = 0 }, codeStaleOwner},
		"0x0022: owner before delivery":             {func(s *settle) { s.epoch--; s.delivery += 99 }, codeStaleOwner},
		"0x0023: delivery_id never given":           {func(s *settle) { s.delivery += 1000 }, codeUnknownDelivery},
		"0x0023: delivery_id 0":                     {func(s *settle) { s.delivery = 0 }, codeUnknownDelivery},
		"0x0023: delivery_id of another message":    {func(s *settle) { s.delivery = msgs[1].delivery }, codeUnknownDelivery},
		"0x0023: a message never delivered":         {func(s *settle) { s.seq = msgs[1].seq + 1 }, codeUnknownDelivery},
		"0x0023: a sequence that does not exist":    {func(s *settle) { s.seq = 1 << 60 }, codeUnknownDelivery},
		"0x0023: PROGRESS of an unknown delivery":   {func(s *settle) { s.delivery += 1000; s.flags = ackProgress }, codeUnknownDelivery},
		"0x0020: subscription before ownership":     {func(s *settle) { s.sub += 7; s.epoch++ }, codeStaleGeneration},
		"0x0022: PROGRESS with another epoch":       {func(s *settle) { s.epoch++; s.flags = ackProgress }, codeStaleOwner},
		"0x0023: sequence 0":                        {func(s *settle) { s.seq = 0 }, codeUnknownDelivery},
		"0x0023: the largest numbers in every part": {func(s *settle) { s.seq, s.delivery = 1<<64-1, 1<<64-1 }, codeUnknownDelivery},
	} {
		s := m.settleOf(msgs[0])
		c.change(&s)
		m.settleErr(name, s, c.code)
	}
	q := session(t, addr)
	q.send(m.settleOf(msgs[0]).ack())
	q.err("G3: subscription_id belongs to the connection", opAck, codeStaleGeneration)

	m.progress("section 2.1 note 3: PROGRESS", msgs[0])
	m.ack("ACK after PROGRESS and after refused ones", msgs[0])
	m.settleErr("0x0023: already settled", m.settleOf(msgs[0]), codeUnknownDelivery)
	s := m.settleOf(msgs[0])
	s.flags = ackProgress
	m.send(s.ack())
	m.err("0x0023: PROGRESS of a settled message", opAck, codeUnknownDelivery)
	m.nack("NACK", msgs[1], nackRelease)
	if got := seqs(m.take("PULL", 2)); got[msgs[1].seq] != 1 || got[msgs[1].seq+1] != 1 {
		m.failf("V9: RELEASE hands back, nothing is lost", "got %v", got)
	}
}

func TestV9_V10_Retry(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		reason  uint8
		attempt uint16
		wait    time.Duration
	}{
		{"RETRY", nackRetry, 2, time.Second}, {"reserved SLOW counts as RETRY", 3, 2, time.Second}, {"any other value counts as RETRY", 250, 2, time.Second},
		{"RELEASE waits 100 ms and fails nothing", nackRelease, 1, 100 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := reader(t, ordinary.addr(t), 0, 0)
			m.pub("PUB", pub{topic: m.topic, key: []byte("k"), value: []byte("v"), producer: 3, seq: 4})
			x := m.take("PULL", 1)[0]
			since := time.Now()
			m.nack("V9", x, c.reason)
			y := m.take("V9: it comes again", 1)[0]
			m.took("V10: backoff, plus up to 20 % jitter", since, c.wait, c.wait+c.wait/5+2*time.Second)
			if y.attempt != c.attempt || y.delivery == x.delivery || y.seq != x.seq || y.epoch != x.epoch || string(y.key) != "k" || string(y.value) != "v" || y.producer != 3 || y.producerSeq != 4 {
				m.failf("V8: attempt = 1 + failed attempts; the same message under a new delivery_id", "first %s, then %s", show([]message{x}), show([]message{y}))
			}
			m.settleErr("0x0023: delivery_id is not the latest delivery of that message", m.settleOf(x), codeUnknownDelivery)
			m.ack("ACK of the latest delivery", y)
			m.none("V7: ACK settles it", 50*time.Millisecond)
		})
	}
	t.Run("the backoff doubles up to its maximum", func(t *testing.T) {
		t.Parallel()
		n := own(t, knobs{backoffBase: 150 * time.Millisecond, backoffMax: 450 * time.Millisecond, maxAttempts: 10})
		m := reader(t, n.addr, 0, 0)
		m.fill(m.topic, 0, "x")
		since := time.Now()
		for i, wait := range []time.Duration{0, 150, 300, 450, 450} {
			x := m.take("V10", 1)[0]
			m.took("V10: base * 2^(n-1), at most the maximum, plus up to 20 %", since, wait*time.Millisecond, wait*time.Millisecond*6/5+time.Second)
			if x.attempt != uint16(i)+1 {
				m.failf("V8: attempt = 1 + failed attempts", "want %d, got %s", i+1, show([]message{x}))
			}
			since = time.Now()
			m.nack("V9", x, nackRetry)
		}
	})
}

func TestV7_Lease(t *testing.T) {
	t.Parallel()
	t.Run("expires and redelivers", func(t *testing.T) {
		t.Parallel()
		m := reader(t, hasty.addr(t), 0, 0)
		m.fill(m.topic, 0, "x")
		since := time.Now()
		x := m.take("PULL", 1)[0]
		y := m.take("V7: lease expiry", 1)[0]
		m.took("V7: lease 500 ms, then backoff 200 ms", since, pace*500*time.Millisecond+200*time.Millisecond, pace*4*time.Second)
		if y.attempt != 2 || y.delivery == x.delivery {
			m.failf("V8: lease expiry fails the attempt", "got %s", show([]message{y}))
		}
		m.settleErr("0x0023: the message was delivered again", m.settleOf(x), codeUnknownDelivery)
		m.ack("ACK", y)
	})
	t.Run("PROGRESS restarts it", func(t *testing.T) {
		t.Parallel()
		m := reader(t, hasty.addr(t), 0, 0)
		m.fill(m.topic, 0, "x")
		x := m.take("PULL", 1)[0]
		for range 8 {
			m.quiet("V7", pace*150*time.Millisecond)
			m.progress("V7: PROGRESS restarts the lease", x)
		}
		m.none("V7: still leased after 1.2 s", 100*time.Millisecond)
		m.has("V5", m.look("V5"), 256, 2<<20, 1, 1)
		m.ack("V7: PROGRESS consumed no attempt", x)
	})
	t.Run("ACK counts after it ran out", func(t *testing.T) {
		t.Parallel()
		m := reader(t, patient.addr(t), 0, 0)
		m.fill(m.topic, 0, "x")
		x := m.take("PULL", 1)[0]
		m.quiet("V7", 700*time.Millisecond)
		m.has("V5: lease expiry settles", m.look("V5"), 256, 2<<20, 0, 0)
		m.ack("V7: ACK of the latest delivery still counts after its lease ran out", x)
		m.has("V5: and returns no credit twice", m.look("V5"), 256, 2<<20, 0, 0)
		m.none("V7: it is settled", 3200*time.Millisecond)
	})
	t.Run("NACK after it ran out fails nothing twice", func(t *testing.T) {
		t.Parallel()
		m := reader(t, patient.addr(t), 0, 0)
		m.fill(m.topic, 0, "x")
		x := m.take("PULL", 1)[0]
		m.quiet("V7", 700*time.Millisecond)
		m.nack("V7: a NACK then is answered OK", x, nackRetry)
		m.has("V5", m.look("V5"), 256, 2<<20, 0, 0)
		if y := m.take("V7", 1)[0]; y.attempt != 2 {
			m.failf("V7: a NACK then fails nothing twice", "got %s", show([]message{y}))
		}
	})
}

// TestV8_LostMember: closing the connection fails its attempts, and another member gets the messages.
func TestV8_LostMember(t *testing.T) {
	t.Parallel()
	addr := hasty.addr(t)
	p := session(t, addr)
	topic := p.topic(1)
	p.fill(topic, 0, "a", "b")
	a := join(t, addr, subTo(topic, "g"), 1)
	b := join(t, addr, subTo(topic, "g"), 0)
	a.take("PULL", 2)
	a.nc.Close()
	b.assigned("G3: closing the connection ends its memberships at once", 1)
	msgs := b.take("V8", 2)
	b.got("V8: lost with the connection, delivered to another", msgs, "a", "b")
	for _, x := range msgs {
		if x.attempt != 2 {
			b.failf("V8: a member lost without LEAVE fails the attempt", "got %s", show(msgs))
		}
	}
}

// TestV8_AttemptsNeverFall: whatever ends a delivery, attempt grows or stays.
func TestV8_AttemptsNeverFall(t *testing.T) {
	t.Parallel()
	n := own(t, knobs{backoffBase: 20 * time.Millisecond, backoffMax: 20 * time.Millisecond, maxAttempts: 50, lease: 1500 * time.Millisecond})
	p := session(t, n.addr)
	topic := p.topic(1)
	p.fill(topic, 0, "x")
	want := uint16(1)
	m := join(t, n.addr, subTo(topic, "g"), 1)
	rejoin := func() { m = join(t, n.addr, subTo(topic, "g"), 1) }
	for _, how := range []string{"RELEASE", "RETRY", "lease", "LEAVE", "RETRY", "lost", "RELEASE", "lost", "lease", "RETRY"} {
		x := m.take("V8", 1)[0]
		if x.attempt != want {
			m.failf("V8: attempt = 1 + failed attempts", "want %d before %s, got %s", want, how, show([]message{x}))
		}
		switch how {
		case "RELEASE":
			m.nack("V9", x, nackRelease)
			continue
		case "LEAVE":
			m.leave("G8")
			rejoin()
			continue
		case "RETRY":
			m.nack("V9", x, nackRetry)
		case "lease": // it runs out by itself
		case "lost":
			m.nc.Close()
			rejoin()
		}
		want++
	}
}

func TestV4_OrderWithManyInFlight(t *testing.T) {
	t.Parallel()
	m := reader(t, ordinary.addr(t), 0, 0)
	var all []string
	for i := range 600 {
		all = append(all, sized(i, 8))
	}
	m.fill(m.topic, 0, all...)
	var got []string
	for len(got) < len(all) {
		msgs := m.pull("V4", pull{maxMsgs: 7, waitMS: 1000})
		got = append(got, values(msgs)...)
		slices.Reverse(msgs) // the order of settling does not matter
		m.ack("ACK", msgs...)
	}
	if !slices.Equal(got, all) {
		m.failf("V4: first deliveries of a partition follow its sequence order", "got %q", got)
	}
}
