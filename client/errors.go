package client

import (
	"errors"
	"fmt"
	"strings"

	"github.com/mortarmq/mortarmq/codec"
)

// The sentinels below are matched with errors.Is; what is returned usually wraps them
// together with the cause.
var (
	// ErrClosed is returned by every method of a Client, Producer or Consumer
	// that is closed, and reported for messages that were accepted and had no
	// answer when it was.
	ErrClosed = errors.New("client: closed")

	// ErrUnreachable is returned when no server could be connected to. The
	// text has one line per address.
	ErrUnreachable = errors.New("client: no server could be reached")

	// ErrUnknownTopic is returned by LookupTopic, NewProducer, NewConsumer and
	// Run for a topic that does not exist.
	ErrUnknownTopic = errors.New("client: unknown topic")

	// ErrTooLarge is reported for a key over 255 bytes or a value over
	// 16,776,192 bytes. Nothing was sent and no number was used.
	ErrTooLarge = errors.New("client: message too large")

	// ErrOutcomeUnknown is part of what is reported for a message that may or
	// may not have been stored. It is never sent again.
	ErrOutcomeUnknown = errors.New("client: it is not known whether the message was stored")

	// ErrRetryTimeout is part of what is reported for a message that was not
	// stored within ProducerOptions.RetryTimeout, and returned by requests that
	// had no success within Options.RequestTimeout. It wraps the last cause.
	ErrRetryTimeout = errors.New("client: gave up retrying")

	// ErrRepeat is reported for a message with a number of the caller's own
	// (ProducerOptions.ProducerID) that is not above the last stored one but too old
	// for the broker to tell its sequence: when a run is started again from its
	// beginning, such a message was stored by the earlier run.
	ErrRepeat = errors.New("client: repeat of an older message")

	// ErrLostOwnership is returned when a delivery can no longer be settled: its
	// connection is gone, its partition has moved or its lease ran out. The message is
	// delivered again to whoever owns the partition.
	ErrLostOwnership = errors.New("client: the delivery is no longer this consumer's")

	// ErrSettled is returned by Ack and Nack of a delivery that was settled before.
	ErrSettled = errors.New("client: the delivery is already settled")

	// ErrReject in the error a handler returns sends the message to the
	// dead-letter topic at once. Wrap it, or use Reject.
	ErrReject = errors.New("client: message rejected")

	// ErrRelease in the error a handler returns hands the message back without
	// counting the attempt as failed. Wrap it, or use Release.
	ErrRelease = errors.New("client: message released")
)

// Error is a refusal by the broker: what an ERR frame said. A few requests
// that are bound to be refused get one without being sent; Server is then empty.
type Error struct {
	Op      codec.Op   // the request that was refused; 0: the connection was
	Code    codec.Code // may be one this build does not know
	Message string     // the broker's text; it says what to do
	Server  string     // the address that answered
}

// Error returns one line with the request, the server, the code's name and
// number, and the text.
func (e *Error) Error() string {
	var b strings.Builder
	if e.Op == 0 {
		b.WriteString("connection")
	} else {
		b.WriteString(e.Op.String())
	}
	b.WriteString(" refused")
	if e.Server != "" {
		b.WriteString(" by ")
		b.WriteString(e.Server)
	}
	text := e.Message
	if text == "" {
		text = e.Code.Hint()
	}
	fmt.Fprintf(&b, ": %s: %s", e.Code, text)
	return b.String()
}

// Name returns the code's name in the protocol, such as UNKNOWN_TOPIC.
func (e *Error) Name() string { return e.Code.Name() }

// Hint returns one sentence that says what to do about the code.
func (e *Error) Hint() string { return e.Code.Hint() }

// Is matches *Error and *codec.Error values by code, and the sentinels that
// stand for a code.
func (e *Error) Is(target error) bool {
	switch t := target.(type) {
	case *Error:
		return t.Code == e.Code
	case *codec.Error:
		return t.Code == e.Code
	}
	switch target {
	case ErrUnknownTopic:
		return e.Code == codec.CodeUnknownTopic
	case ErrLostOwnership:
		return e.Code == codec.CodeStaleOwner || e.Code == codec.CodeUnknownDelivery ||
			e.Code == codec.CodeStaleGeneration
	}
	return false
}

// CodeOf returns the code of the refusal that err wraps, or 0 when there is
// none: a connection or a context failed then.
func CodeOf(err error) codec.Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return 0
}

// Reject wraps the reason why a message can never be handled: the handler
// returns it and the message goes to the dead-letter topic now.
func Reject(reason error) error { return outcome{ErrReject, reason} }

// Release wraps the reason why a message cannot be handled here and now: the
// handler returns it and the message is delivered again, to whomever, without a
// failed attempt.
func Release(reason error) error { return outcome{ErrRelease, reason} }

// outcome ties a sentinel to its cause. A nil cause leaves the sentinel alone.
type outcome struct {
	kind  error
	cause error
}

func (o outcome) Error() string {
	if o.cause == nil {
		return o.kind.Error()
	}
	return o.kind.Error() + ": " + o.cause.Error()
}

func (o outcome) Unwrap() []error {
	if o.cause == nil {
		return []error{o.kind}
	}
	return []error{o.kind, o.cause}
}

// leaderHint returns the address after the last "leader=" of an ERR text.
func leaderHint(message string) string {
	i := strings.LastIndex(message, "leader=")
	if i < 0 {
		return ""
	}
	addr := message[i+len("leader="):]
	if end := strings.IndexAny(addr, " ,;)"); end >= 0 {
		addr = addr[:end]
	}
	return strings.TrimRight(addr, ".")
}

// notLeader reports whether code says that the request belongs to another node.
func notLeader(code codec.Code) bool {
	return code == codec.CodeStaleLeaderEpoch || code == codec.CodeProducerEpochStale
}
