package codec

// Error is a failure with a wire code: what an ERR frame carries, and what the
// functions of this package return. Two Errors match under errors.Is when
// their codes are equal, whatever their messages say.
type Error struct {
	Code    Code
	Message string // what was wrong and what to do about it; "" means the code's hint
}

// Error returns the code's name and number and the message.
func (e *Error) Error() string {
	if e.Message == "" {
		return e.Code.String() + ": " + e.Code.Hint()
	}
	return e.Code.String() + ": " + e.Message
}

// Is reports whether target is an *Error with the same code.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// The failures of cutting and decoding. They are always these very values, so
// that refusing a frame allocates nothing; Explain tells what was wrong.
var (
	// ErrBadLength is returned by Cut for a length of 0 or above MaxFrameLen.
	ErrBadLength error = &Error{Code: CodeBadLength}
	// ErrUnknownOp is returned by Cut for an op byte outside the 15 ops.
	ErrUnknownOp error = &Error{Code: CodeUnknownOp}
	// ErrMalformed is returned by CheckPrefix and by every decoder for a payload
	// that breaks a rule of its op.
	ErrMalformed error = &Error{Code: CodeMalformedPayload}
	// ErrUnsupportedVersion is returned by CheckPrefix and DecodeConnect for a
	// CONNECT whose first byte is not WireVersion.
	ErrUnsupportedVersion error = &Error{Code: CodeUnsupportedVersion}
)
