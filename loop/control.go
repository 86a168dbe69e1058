package loop

import (
	"bytes"

	"github.com/mortarmq/mortarmq/codec"
	"github.com/mortarmq/mortarmq/flow"
)

// declare serves a DECLARE: the control plane judges the name and answers.
func (s *session) declare(payload []byte) {
	m, err := codec.DecodeDeclare(payload)
	if err != nil {
		s.malformed(codec.OpDeclare, payload)
		return
	}
	if s.unserved(codec.OpDeclare) {
		return
	}
	m.Topic = bytes.Clone(m.Topic)
	s.control(&flow.Control{Op: codec.OpDeclare, Declare: m})
}

// subscribe serves a SUB. A group name that breaks its rules is a malformed
// payload and ends the session (G1); the rest is the control plane's.
func (s *session) subscribe(payload []byte) {
	m, err := codec.DecodeSub(payload)
	if err != nil {
		s.malformed(codec.OpSub, payload)
		return
	}
	if err := codec.CheckGroupName(m.Group); err != nil {
		text := ""
		if e, ok := err.(*codec.Error); ok {
			text = e.Message
		}
		s.dismiss(codec.OpSub, codec.CodeMalformedPayload, text)
		return
	}
	if s.unserved(codec.OpSub) {
		return
	}
	m.Group = bytes.Clone(m.Group)
	s.control(&flow.Control{Op: codec.OpSub, Sub: m})
}

// controlAck serves a CONTROL_ACK. It names a group; that touches this connection's members of it.
func (s *session) controlAck(payload []byte) {
	m, err := codec.DecodeControlAck(payload)
	if err != nil {
		s.malformed(codec.OpControlAck, payload)
		return
	}
	for _, sub := range s.subs {
		if sub != nil && sub.Group == m.GroupID {
			s.r.seen(sub)
		}
	}
	if s.unserved(codec.OpControlAck) {
		return
	}
	s.control(&flow.Control{Op: codec.OpControlAck, ControlAck: m})
}

// control hands a request to the control plane, behind everything staged before it.
func (s *session) control(c *flow.Control) {
	s.r.submit()
	c.Conn, c.Slot = &s.conn, s.next
	if !s.r.backend.Control(*c) {
		s.refuse(c.Op, codec.CodeBackpressure, "")
		return
	}
	s.next++
}
