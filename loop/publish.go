package loop

import (
	"time"

	"github.com/mortarmq/mortarmq/codec"
	"github.com/mortarmq/mortarmq/flow"
)

// pub serves a PUB: it judges what needs no partition's state and stages it for
// the shard. The tail is the only thing copied, once.
func (s *session) pub(payload []byte, own *flow.Chunk) {
	m, err := codec.DecodePub(payload)
	if err != nil {
		s.malformed(codec.OpPub, payload)
		return
	}
	if code, text := s.judgePub(&m); code != 0 {
		s.refuse(codec.OpPub, code, text)
		return
	}
	tail, chunk := m.Tail, own
	if own == nil {
		tail, chunk = s.r.store(m.Tail)
	} else {
		own.Retain(1)
	}
	s.marks.add(len(tail))
	s.r.stage(&flow.Request{
		Conn: &s.conn, Slot: s.slot(), Op: codec.OpPub,
		Topic: m.TopicID, Partition: m.Partition,
		ProducerID: m.ProducerID, ProducerSeq: m.ProducerSeq,
		Tail: tail, Chunk: chunk,
	})
}

// judgePub is P1 as far as the loop can see: topic, twin, partition, producer
// fields, node state and disk, rate, room.
func (s *session) judgePub(m *codec.Pub) (codec.Code, string) {
	topic := s.r.topics.Get(m.TopicID)
	switch {
	case !topic.Exists:
		return codec.CodeUnknownTopic, ""
	case m.TopicID.IsTwin():
		return codec.CodeInvalidTopic, ""
	case uint16(m.Partition) >= topic.Partitions:
		return codec.CodeUnknownPartition, ""
	case m.ProducerID == 0 && m.ProducerSeq > 0:
		return codec.CodeProducerSeqInvalid, ""
	}
	if code, text := s.r.refusal(codec.OpPub); code != 0 {
		return code, text
	}
	if limit := s.r.srv.cfg.PublishRate; limit > 0 && !s.rate.take(s.r.now, limit) {
		return codec.CodeRateLimited, ""
	}
	if s.full() || s.unansweredBytes()+len(m.Tail) > s.r.limits.PubBytes {
		return codec.CodeBackpressure, ""
	}
	return 0, ""
}

// unansweredBytes counts PUB bytes for S7: staged ones, and what waits behind a PULL.
func (s *session) unansweredBytes() int { return s.marks.bytes + s.behind.bytes() }

// rate is a token bucket that holds at most one second's worth.
type rate struct {
	tokens float64
	at     time.Duration // 0: never used, the bucket is full
}

// take takes one token; limit is how many come in a second.
func (b *rate) take(now time.Duration, limit int) bool {
	most := float64(limit)
	if b.at == 0 {
		b.tokens = most
	} else {
		b.tokens = min(b.tokens+(now-b.at).Seconds()*most, most)
	}
	b.at = max(now, 1)
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

// marks counts the PUB bytes that are unanswered (S7). One mark stands for all
// the PUBs of a read: their bytes are free when the last of them is answered.
type marks struct {
	bytes int // of all PUBs not known to be answered
	open  int // of this read
	list  []mark
	first int // in list
}

// mark says that bytes are free once head has reached slot.
type mark struct {
	slot  uint64
	bytes int
}

func (m *marks) add(n int) {
	m.bytes += n
	m.open += n
}

// close ends a read; next is the slot behind its last request.
func (m *marks) close(next uint64) {
	if m.open > 0 {
		m.list = append(m.list, mark{next, m.open})
		m.open = 0
	}
}

// settle frees what is answered: all slots below head.
func (m *marks) settle(head uint64) {
	for m.first < len(m.list) && m.list[m.first].slot <= head {
		m.bytes -= m.list[m.first].bytes
		m.first++
	}
	switch {
	case m.first == len(m.list):
		m.list, m.first = m.list[:0], 0
	case m.first > len(m.list)/2:
		m.list = m.list[:copy(m.list, m.list[m.first:])]
		m.first = 0
	}
}
