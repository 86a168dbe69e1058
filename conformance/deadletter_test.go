package conformance

import (
	"testing"
	"time"
)

// failing is a member of a source topic's group whose message will die.
func failing(t *testing.T, addr string) (*member, message) {
	t.Helper()
	p := session(t, addr)
	topic := p.topic(3)
	m := p.join(subTo(topic, "source-group"), 3)
	p.fill(topic, 2, "before")
	p.pub("PUB", pub{topic: topic, partition: 2, producer: 11, seq: 22, key: []byte("key"), value: []byte("dead")})
	msgs := m.take("PULL", 2)
	m.ack("ACK", msgs[0])
	return m, msgs[1]
}

// dead expects the twin's only message and checks it against its original.
func dead(t *testing.T, addr string, m *member, x message, attempts uint16, reason uint8) *member {
	t.Helper()
	d := join(t, addr, subTo(m.topic+1, "dlq-group"), 3)
	y := d.take("V11: when the last attempt fails, the message is in the twin", 1)[0]
	if y.flags != msgDeadLetter || y.origin == nil {
		d.failf("V12: MSG from a twin has flags bit0 = DEAD_LETTER", "got %#x", y.flags)
	}
	want := origin{topic: m.topic, partition: x.partition, seq: x.seq, attempts: attempts, reason: reason, group: m.group}
	if *y.origin != want {
		d.failf("V12: origin_topic_id … group", "want %+v, got %+v", want, *y.origin)
	}
	if string(y.key) != "key" || string(y.value) != "dead" || y.producer != 11 || y.producerSeq != 22 {
		d.failf("V12: key, value, producer_id and producer_seq are the original's", "got %+v", y)
	}
	if y.partition != x.partition || y.seq != 1 || y.attempt != 1 {
		d.failf("V11: the twin's partition of the same number", "got %s", show([]message{y}))
	}
	m.settleErr("V11: the source is settled", m.settleOf(x), codeUnknownDelivery)
	d.none("V11: once", 0)
	d.ack("a dead letter is consumed like any message", y)
	m.none("V11: in exactly one of the two places", 400*time.Millisecond)
	return d
}

func TestV11_V12_DeadLetters(t *testing.T) {
	t.Parallel()
	t.Run("reason 0: NACK", func(t *testing.T) {
		t.Parallel()
		addr := hasty.addr(t)
		m, x := failing(t, addr)
		for attempt := uint16(1); ; attempt++ {
			if x.attempt != attempt {
				m.failf("V8", "want attempt %d, got %s", attempt, show([]message{x}))
			}
			m.nack("V11: also the NACK that ends it is answered OK", x, nackRetry)
			if attempt == 3 {
				break
			}
			x = m.take("V8", 1)[0]
		}
		dead(t, addr, m, x, 3, 0)
	})
	t.Run("reason 1: REJECT", func(t *testing.T) {
		t.Parallel()
		addr := ordinary.addr(t)
		m, x := failing(t, addr)
		since := time.Now()
		m.nack("V9: REJECT: to the DLQ now", x, nackReject)
		d := dead(t, addr, m, x, 1, 1)
		d.took("V9: now", since, 0, patience)
	})
	t.Run("reason 2: lease expired", func(t *testing.T) {
		t.Parallel()
		addr := hasty.addr(t)
		m, x := failing(t, addr)
		for x.attempt < 3 {
			x = m.take("V7", 1)[0]
		}
		m.quiet("V7", pace*900*time.Millisecond)
		dead(t, addr, m, x, 3, 2)
	})
	t.Run("reason 3: member lost", func(t *testing.T) {
		t.Parallel()
		addr := hasty.addr(t)
		m, x := failing(t, addr)
		for {
			m.nc.Close()
			m = join(t, addr, subTo(m.topic, m.group), 3)
			if x.attempt == 3 {
				break
			}
			x = m.take("V8", 1)[0]
		}
		d := join(t, addr, subTo(m.topic+1, "d"), 3)
		y := d.take("V11", 1)[0]
		if y.origin == nil || y.origin.reason != 3 || y.origin.attempts != 3 {
			d.failf("V12: reason 3 is member lost", "got %+v", y.origin)
		}
		m.none("V11: in exactly one of the two places", 400*time.Millisecond)
	})
	t.Run("each group has its own fate", func(t *testing.T) {
		t.Parallel()
		addr := ordinary.addr(t)
		m, x := failing(t, addr)
		other := join(t, addr, subTo(m.topic, "other-group"), 3)
		m.nack("V9", x, nackReject)
		msgs := other.take("V11: another group still gets the message", 2)
		other.ack("ACK", msgs...)
		if msgs[1].attempt != 1 || msgs[1].flags != 0 {
			other.failf("V11: another group is not touched", "got %s", show(msgs))
		}
		dead(t, addr, m, x, 1, 1)
	})
}

func TestV13_Quarantine(t *testing.T) {
	t.Parallel()
	rule := "V13: kept, not delivered again to that group, and its NACK is answered 0x0030"
	twin := func(t *testing.T, addr string) *member {
		m, x := failing(t, addr)
		m.nack("V9", x, nackReject)
		return join(t, addr, subTo(m.topic+1, "d"), 3)
	}
	refuse := func(d *member, y message, reason uint8) {
		d.t.Helper()
		s := d.settleOf(y)
		s.reason = reason
		d.send(s.nack())
		d.err(rule, opNack, codeDLQOverflow)
		d.none(rule, time.Second)
		d.has("V5: it is settled", d.look("V5"), 256, 2<<20, 0, 0)
		d.settleErr("0x0023: it is settled", d.settleOf(y), codeUnknownDelivery)
	}
	t.Run("REJECT", func(t *testing.T) {
		t.Parallel()
		addr := ordinary.addr(t)
		d := twin(t, addr)
		refuse(d, d.take("V12", 1)[0], nackReject)
		e := join(t, addr, subTo(d.topic, "e"), 3)
		e.take("V13: another group still gets it", 1)
	})
	t.Run("the last attempt", func(t *testing.T) {
		t.Parallel()
		d := twin(t, hasty.addr(t))
		y := d.take("V12", 1)[0]
		for y.attempt < 3 {
			d.nack("V13: before the last attempt NACK is answered OK", y, nackRetry)
			attempt := y.attempt
			if y = d.take("V8", 1)[0]; y.attempt != attempt+1 || y.origin == nil {
				d.failf("V8, V12: a redelivery has its origin too", "got %s", show([]message{y}))
			}
		}
		refuse(d, y, nackRetry)
	})
	t.Run("nothing goes in circles", func(t *testing.T) {
		t.Parallel()
		addr := ordinary.addr(t)
		d := twin(t, addr)
		refuse(d, d.take("V12", 1)[0], nackReject)
		d.send(subTo(d.topic+1, "x").frame())
		f := d.answer("a twin has no twin", patience)
		if f.op == opOK { // the next topic's id, taken by another test: its messages are no dead letters of ours
			return
		}
		d.asErr("a twin has no twin", f, opSub, codeUnknownTopic)
	})
}
