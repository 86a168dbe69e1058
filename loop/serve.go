package loop

import (
	"github.com/mortarmq/mortarmq/codec"
	"github.com/mortarmq/mortarmq/flow"
)

// verdicts says what the state of a session has against an op, before its
// payload is looked at (S1): by connected, then op.
var verdicts = [2][16]codec.Code{
	0: {
		codec.OpMsg: codec.CodeUnknownOp, codec.OpNotice: codec.CodeUnknownOp,
		codec.OpDeclare: codec.CodeNotAuthenticated, codec.OpPub: codec.CodeNotAuthenticated,
		codec.OpSub: codec.CodeNotAuthenticated, codec.OpAck: codec.CodeNotAuthenticated,
		codec.OpNack: codec.CodeNotAuthenticated, codec.OpOK: codec.CodeNotAuthenticated,
		codec.OpPull: codec.CodeNotAuthenticated, codec.OpHeartbeat: codec.CodeNotAuthenticated,
		codec.OpControlAck: codec.CodeNotAuthenticated, codec.OpCredit: codec.CodeNotAuthenticated,
	},
	1: {
		codec.OpMsg: codec.CodeUnknownOp, codec.OpNotice: codec.CodeUnknownOp,
		codec.OpConnect: codec.CodeMalformedPayload,
	},
}

func (s *session) verdict(op codec.Op) codec.Code {
	if s.connected {
		return verdicts[1][op]
	}
	return verdicts[0][op]
}

// serve serves one whole frame. It ends in exactly one of these: the request has
// a slot and is answered, staged or handed over; the session is ended; or
// the frame was an ERR or OK, which are never answered.
func (s *session) serve(op codec.Op, payload []byte, own *flow.Chunk) {
	if code := s.verdict(op); code != 0 {
		s.dismiss(op, code, "")
		return
	}
	switch op {
	case codec.OpPub:
		s.pub(payload, own)
	case codec.OpAck:
		s.ack(payload)
	case codec.OpNack:
		s.nack(payload)
	case codec.OpPull:
		s.servePull(payload)
	case codec.OpCredit:
		s.credit(payload)
	case codec.OpHeartbeat:
		s.heartbeat(payload)
	case codec.OpControlAck:
		s.controlAck(payload)
	case codec.OpSub:
		s.subscribe(payload)
	case codec.OpDeclare:
		s.declare(payload)
	case codec.OpPing:
		s.ping(payload)
	case codec.OpConnect:
		s.connect(payload)
	case codec.OpErr:
		s.clientErr(payload)
	case codec.OpOK:
		if _, err := codec.DecodeOK(payload); err != nil {
			s.malformed(op, payload)
		}
	}
}

// malformed ends the session over a payload that breaks a rule of its op.
func (s *session) malformed(op codec.Op, payload []byte) {
	code := codec.CodeMalformedPayload
	if err := codec.CheckPrefix(op, payload, len(payload)); err != nil {
		code = errCode(err)
	}
	s.dismiss(op, code, codec.Explain(op, payload, len(payload)))
}

// refuse answers the next request with an ERR. The session goes on.
func (s *session) refuse(op codec.Op, code codec.Code, text string) {
	s.put(&flow.Completion{Slot: s.slot(), Op: op, Code: code, Message: text})
}

// ok answers the next request with an OK; nil is an empty result.
func (s *session) ok(op codec.Op, result []byte) {
	s.put(&flow.Completion{Slot: s.slot(), Op: op, Result: result})
}

// slot numbers the next request.
func (s *session) slot() uint64 {
	s.next++
	return s.next - 1
}

// unserved answers a request that the node's state or the limit of unanswered
// requests keeps from being served, and reports whether it did.
func (s *session) unserved(op codec.Op) bool {
	if code, text := s.r.refusal(op); code != 0 {
		s.refuse(op, code, text)
		return true
	}
	return s.overLimit(op)
}

// overLimit answers a request 0x4001 when too many are unanswered (S7).
func (s *session) overLimit(op codec.Op) bool {
	if s.full() {
		s.refuse(op, codec.CodeBackpressure, "")
		return true
	}
	return false
}

func (s *session) ping(payload []byte) {
	switch {
	case codec.DecodePing(payload) != nil:
		s.malformed(codec.OpPing, payload)
	case !s.overLimit(codec.OpPing):
		s.ok(codec.OpPing, nil)
	}
}

// clientErr notes what a client complains about (S4).
func (s *session) clientErr(payload []byte) {
	m, err := codec.DecodeErr(payload)
	if err != nil {
		s.malformed(codec.OpErr, payload)
		return
	}
	s.r.offence("a client sent an ERR", s, "code", m.Code, "request_op", m.RequestOp, "text", string(m.Message))
}
