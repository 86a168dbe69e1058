package loop_test

import (
	"crypto/sha256"
	"testing"
	"time"

	"github.com/mortarmq/mortarmq/codec"
	"github.com/mortarmq/mortarmq/loop"
)

func TestTokens(t *testing.T) {
	s, b := manual(t, loop.Config{Tokens: [][32]byte{sha256.Sum256([]byte("one")), sha256.Sum256([]byte("two"))}})
	for _, good := range []string{"one", "two"} {
		p := dial(t, s)
		p.send(connect(good), ping())
		p.ok(codec.OpConnect)
		p.ok(codec.OpPing)
	}
	digest := sha256.Sum256([]byte("one"))
	texts := map[string]bool{}
	for _, bad := range []string{"", "on", "onee", string(digest[:])} {
		p := dial(t, s)
		since := time.Now()
		p.send(ping(), connect(bad), connect("one"), declare("not served"))
		p.ok(codec.OpPing)
		texts[p.err(codec.OpConnect, codec.CodeAuthFailed)] = true
		if d := time.Since(since); d < 100*time.Millisecond {
			t.Errorf("0x0006 came after %v", d)
		}
		p.eof()
		if j := b.next(); j.closed == nil {
			t.Errorf("served behind a refused CONNECT: %v", j)
		}
	}
	if len(texts) != 1 {
		t.Errorf("0x0006 has several texts: %v", texts)
	}
}

func TestAnyTokenWhenNoneIsConfigured(t *testing.T) {
	s, _ := automatic(t, loop.Config{})
	p := dial(t, s)
	p.send(connect("\x00\xff"))
	p.ok(codec.OpConnect)
}

// The pauses before 0x0006 run side by side.
func TestManyRefusedTokensAtOnce(t *testing.T) {
	s, _ := automatic(t, loop.Config{Tokens: [][32]byte{{}}, Limits: loop.Limits{AuthDelay: 200 * time.Millisecond}})
	since := time.Now()
	var all []*peer
	for range 30 {
		p := dial(t, s)
		p.send(connect("wrong"))
		all = append(all, p)
	}
	for _, p := range all {
		p.refused(codec.OpConnect, codec.CodeAuthFailed)
	}
	if d := time.Since(since); d > 3*time.Second {
		t.Errorf("30 pauses of 200 ms took %v", d)
	}
}
