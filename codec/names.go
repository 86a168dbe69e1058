package codec

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// TwinSuffix ends the display name of a dead-letter twin (T3) and no other.
const TwinSuffix = ".dlq"

// CheckTopicName checks a name that a user gives a topic. The error is an
// *Error with CodeInvalidTopic that says which rule the name breaks; it never
// repeats the name. The rules:
//
//   - 1 to MaxTopicLen bytes of UTF-8
//   - no control and no white space character
//   - none of the wildcards * > # + anywhere
//   - no empty token: no dot at the start or the end, no two in a row
//   - no $ at the start
//   - not the reserved suffix TwinSuffix
//
// Everything else is allowed, also "/": a name never becomes a file name.
// Names are compared byte by byte (T4).
func CheckTopicName(name []byte) error {
	switch {
	case len(name) == 0:
		return invalidTopic("the topic name is empty; give one such as orders.eu")
	case len(name) > MaxTopicLen:
		return invalidTopic(fmt.Sprintf("the topic name has %d bytes; use at most %d", len(name), MaxTopicLen))
	case name[0] == '$':
		return invalidTopic("the topic name starts with $, which is reserved; start it with another character")
	case name[0] == '.' || name[len(name)-1] == '.' || bytes.Contains(name, []byte("..")):
		return invalidTopic("the topic name has an empty token; put something before, between and behind its dots")
	case bytes.HasSuffix(name, []byte(TwinSuffix)):
		return invalidTopic("the topic name ends in .dlq, which is reserved for dead-letter topics; choose another ending")
	}
	at, what := badRune(name, "*>#+")
	if what != "" {
		return invalidTopic(fmt.Sprintf("the topic name has %s at byte %d; leave it out", what, at))
	}
	return nil
}

// CheckGroupName checks a group name (G1): 1 to MaxGroupLen bytes of UTF-8
// without control and white space characters. The error is an *Error with
// CodeMalformedPayload that says which rule the name breaks.
func CheckGroupName(name []byte) error {
	switch {
	case len(name) == 0:
		return malformed("the group name is empty; give one such as billing")
	case len(name) > MaxGroupLen:
		return malformed(fmt.Sprintf("the group name has %d bytes; use at most %d", len(name), MaxGroupLen))
	}
	at, what := badRune(name, "")
	if what != "" {
		return malformed(fmt.Sprintf("the group name has %s at byte %d; leave it out", what, at))
	}
	return nil
}

// badRune finds the first character that no name may have, or that is in
// forbidden. It returns its offset and what it is, or "".
func badRune(name []byte, forbidden string) (at int, what string) {
	for at < len(name) {
		r, size := utf8.DecodeRune(name[at:])
		switch {
		case r == utf8.RuneError && size <= 1:
			return at, "a byte that is not UTF-8"
		case unicode.IsSpace(r):
			return at, "a white space character"
		case unicode.IsControl(r):
			return at, "a control character"
		case strings.ContainsRune(forbidden, r):
			return at, fmt.Sprintf("the wildcard %c", r)
		}
		at += size
	}
	return at, ""
}

func invalidTopic(text string) error { return &Error{Code: CodeInvalidTopic, Message: text} }
func malformed(text string) error    { return &Error{Code: CodeMalformedPayload, Message: text} }
