package loop

import (
	"github.com/mortarmq/mortarmq/codec"
	"github.com/mortarmq/mortarmq/flow"
)

// ack serves an ACK: the shard settles the delivery.
func (s *session) ack(payload []byte) {
	m, err := codec.DecodeAck(payload)
	if err != nil {
		s.malformed(codec.OpAck, payload)
		return
	}
	if sub := s.settles(codec.OpAck, m.SubscriptionID, m.TopicID, m.Partition); sub != nil {
		s.r.stage(&flow.Request{
			Conn: &s.conn, Slot: s.slot(), Op: codec.OpAck,
			Topic: m.TopicID, Partition: m.Partition,
			Sub: sub, Seq: m.Seq, Delivery: m.DeliveryID, Epoch: m.OwnershipEpoch, Flags: m.Flags,
		})
	}
}

// nack serves a NACK likewise.
func (s *session) nack(payload []byte) {
	m, err := codec.DecodeNack(payload)
	if err != nil {
		s.malformed(codec.OpNack, payload)
		return
	}
	if sub := s.settles(codec.OpNack, m.SubscriptionID, m.TopicID, m.Partition); sub != nil {
		s.r.stage(&flow.Request{
			Conn: &s.conn, Slot: s.slot(), Op: codec.OpNack,
			Topic: m.TopicID, Partition: m.Partition,
			Sub: sub, Seq: m.Seq, Delivery: m.DeliveryID, Epoch: m.OwnershipEpoch, Reason: m.Reason,
		})
	}
}

// settles returns the subscription that an ACK or NACK settles for. nil: the
// request was answered.
func (s *session) settles(op codec.Op, id codec.SubscriptionID, topic codec.TopicID, p codec.Partition) *flow.Subscription {
	if code, text := s.r.refusal(op); code != 0 {
		s.refuse(op, code, text)
		return nil
	}
	sub := s.sub(id)
	switch {
	case sub == nil:
		s.refuse(op, codec.CodeStaleGeneration, "")
	case sub.Topic != topic || uint16(p) >= s.r.topics.Get(topic).Partitions:
		s.refuse(op, codec.CodeStaleOwner, "")
	case s.full():
		s.refuse(op, codec.CodeBackpressure, "")
	default:
		return sub
	}
	return nil
}
