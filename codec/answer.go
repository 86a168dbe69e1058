package codec

import (
	"encoding/binary"
	"unicode/utf8"
)

const (
	errFixed = 2 + 1 + 2
	okFixed  = 1 + 4
)

// DecodeErr decodes an ERR payload. Code and request_op are kept as numbers,
// known or not (C1).
func DecodeErr(p []byte) (Err, error) {
	if len(p) < errFixed {
		return Err{}, ErrMalformed
	}
	n := int(binary.BigEndian.Uint16(p[3:]))
	if n > MaxErrMessage || len(p) != errFixed+n {
		return Err{}, ErrMalformed
	}
	return Err{
		Code:      Code(binary.BigEndian.Uint16(p)),
		RequestOp: p[2],
		Message:   p[errFixed:len(p):len(p)],
	}, nil
}

// AppendErr appends a whole ERR frame. The message may be MaxErrMessage bytes long.
func AppendErr(dst []byte, m *Err) []byte {
	mustFit("ERR.message", len(m.Message), MaxErrMessage)
	dst, b := frame(dst, OpErr, errFixed+len(m.Message))
	binary.BigEndian.PutUint16(b, uint16(m.Code))
	b[2] = m.RequestOp
	binary.BigEndian.PutUint16(b[3:], uint16(len(m.Message)))
	copy(b[errFixed:], m.Message)
	return dst
}

// AppendErrCode appends a whole ERR frame with a text. A message over
// MaxErrMessage bytes is cut between two characters; "" stands for the code's
// hint. requestOp is 0 for an ERR that answers no request (S4).
func AppendErrCode(dst []byte, code Code, requestOp uint8, message string) []byte {
	if message == "" {
		message = code.Hint()
	}
	message = cutText(message, MaxErrMessage)
	dst, b := frame(dst, OpErr, errFixed+len(message))
	binary.BigEndian.PutUint16(b, uint16(code))
	b[2] = requestOp
	binary.BigEndian.PutUint16(b[3:], uint16(len(message)))
	copy(b[errFixed:], message)
	return dst
}

// cutText returns the longest start of s that has at most most bytes and does
// not end inside a character. Bytes that are no UTF-8 are cut anywhere.
func cutText(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for i := most; i > most-utf8.UTFMax; i-- {
		if utf8.RuneStart(s[i]) {
			return s[:i]
		}
	}
	return s[:most]
}

// DecodeOK decodes an OK payload. request_op is one of the 15 ops (C1).
func DecodeOK(p []byte) (OK, error) {
	if len(p) < okFixed {
		return OK{}, ErrMalformed
	}
	n := binary.BigEndian.Uint32(p[1:])
	if !Op(p[0]).Known() || n > MaxOKResult || len(p)-okFixed != int(n) {
		return OK{}, ErrMalformed
	}
	return OK{RequestOp: Op(p[0]), Result: p[okFixed:len(p):len(p)]}, nil
}

// AppendOK appends a whole OK frame. The result may be MaxOKResult bytes long.
func AppendOK(dst []byte, m *OK) []byte {
	mustFit("OK.result", len(m.Result), MaxOKResult)
	dst, b := frame(dst, OpOK, okFixed+len(m.Result))
	b[0] = byte(m.RequestOp)
	binary.BigEndian.PutUint32(b[1:], uint32(len(m.Result)))
	copy(b[okFixed:], m.Result)
	return dst
}

// AppendEmptyOK appends the whole OK frame without a result that answers request.
func AppendEmptyOK(dst []byte, request Op) []byte {
	dst, b := frame(dst, OpOK, okFixed)
	b[0] = byte(request)
	binary.BigEndian.PutUint32(b[1:], 0)
	return dst
}
