package loop

import (
	"crypto/sha256"
	"crypto/subtle"

	"github.com/mortarmq/mortarmq/codec"
)

// connect serves the first request of a session (S9).
func (s *session) connect(payload []byte) {
	m, err := codec.DecodeConnect(payload)
	if err != nil {
		s.malformed(codec.OpConnect, payload)
		return
	}
	if !s.r.srv.cfg.admits(m.Token) {
		// The pause takes the speed out of guessing; the text is the same for every cause.
		s.dismissLater(codec.OpConnect, codec.CodeAuthFailed, s.r.limits.AuthDelay)
		return
	}
	s.connected = true
	s.phase = phaseOpen
	s.ok(codec.OpConnect, nil)
}

// admits reports whether a token may connect. It takes the same time whichever
// digest matches, and whether one does.
func (c *Config) admits(token []byte) bool {
	if len(c.Tokens) == 0 {
		return true
	}
	digest := sha256.Sum256(token)
	match := 0
	for i := range c.Tokens {
		match |= subtle.ConstantTimeCompare(digest[:], c.Tokens[i][:])
	}
	return match == 1
}
