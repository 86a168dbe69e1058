package conformance

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"testing"
	"time"
)

func TestS9_Tokens(t *testing.T) {
	t.Parallel()
	first, second := []byte("the first token"), []byte("the second token")
	n := own(t, knobs{tokens: [][32]byte{sha256.Sum256(first), sha256.Sum256(second)}})
	for i, token := range [][]byte{first, second} {
		t.Run(fmt.Sprintf("configured token %d is accepted", i+1), func(t *testing.T) {
			p := dial(t, n.addr)
			p.send(connect{version: wireVersion, token: token}.frame())
			p.empty("S9: several digests at once, for rotation", opConnect)
			p.alive("S9")
		})
	}
	digest := sha256.Sum256(first)
	texts := map[string]bool{}
	for _, c := range []struct {
		name  string
		token []byte
	}{
		{"empty", nil}, {"wrong", []byte("wrong")}, {"prefix of a right one", first[:len(first)-1]},
		{"right one and a byte", append(bytes.Clone(first), 0)}, {"the digest itself", digest[:]},
		{"the digest in hex", fmt.Appendf(nil, "%x", digest)}, {"the longest", make([]byte, 65535)},
	} {
		t.Run("refused: "+c.name, func(t *testing.T) {
			p := dial(t, n.addr)
			since := time.Now()
			p.send(connect{version: wireVersion, token: c.token}.frame())
			texts[p.err("0x0006: token digest not known", opConnect, codeAuthFailed)] = true
			p.notBefore("0x0006: sent after 100 ms", since, 100*time.Millisecond)
			p.closed("0x0006 closes", patience)
		})
	}
	if len(texts) != 1 {
		t.Errorf("0x0006: the same text for every cause, got %v", texts)
	}
	t.Run("requests behind a refused CONNECT are not served", func(t *testing.T) {
		name := unique("t")
		p := dial(t, n.addr)
		p.send(connect{version: wireVersion, token: []byte("wrong")}.frame(), ping(), declare{topic: name, count: 3}.frame())
		p.refused("S9: nothing is served behind a refused CONNECT", opConnect, codeAuthFailed)
		q := dial(t, n.addr)
		q.send(connect{version: wireVersion, token: first}.frame(), declare{topic: name, count: 2}.frame())
		q.empty("S9", opConnect)
		if got := q.declared("S9: the refused DECLARE made nothing"); got.created != 0 {
			q.failf("S9: the refused DECLARE made nothing", "got %+v", got)
		}
	})
	t.Run("a second try on the same connection is not possible", func(t *testing.T) {
		p := dial(t, n.addr)
		p.send(connect{version: wireVersion, token: []byte("wrong")}.frame(), connect{version: wireVersion, token: first}.frame())
		p.refused("0x0006 closes", opConnect, codeAuthFailed)
	})
	t.Run("many refusals at once hold up nobody", func(t *testing.T) {
		all := make([]*peer, 200)
		for i := range all {
			all[i] = dial(t, n.addr)
		}
		good := dial(t, n.addr)
		for _, p := range all {
			p.send(connect{version: wireVersion, token: []byte("wrong")}.frame())
		}
		since := time.Now()
		good.send(connect{version: wireVersion, token: second}.frame())
		good.empty("S9: a good CONNECT beside bad ones", opConnect)
		for _, p := range all {
			p.refused("0x0006", opConnect, codeAuthFailed)
		}
		if d := time.Since(since); d > 10*time.Second { // one after the other they would take 20 s
			t.Errorf("the 100 ms of one refusal must not add up: 200 took %v", d)
		}
	})
}

func TestS9_NoTokenConfigured(t *testing.T) {
	t.Parallel()
	t.Run("any token is accepted", func(t *testing.T) {
		t.Parallel()
		for _, token := range []string{"", "x", "\x00\xff"} {
			p := dial(t, ordinary.addr(t))
			p.send(connect{version: wireVersion, token: []byte(token)}.frame())
			p.empty("S9: without any configured token every token is accepted", opConnect)
		}
	})
	t.Run("a non-loopback address needs allow_anonymous", func(t *testing.T) {
		t.Parallel()
		if external != "" {
			t.Skip("starts a broker: not with MORTARMQ_CONFORMANCE_ADDR")
		}
		n, err := start(knobs{dir: t.TempDir(), listen: "0.0.0.0:0"})
		if err == nil {
			n.stop()
			t.Fatal("S9: the broker started on 0.0.0.0 without a token")
		}
		t.Logf("refused with: %v", err)
	})
	t.Run("allow_anonymous says so", func(t *testing.T) {
		t.Parallel()
		n := own(t, knobs{listen: "0.0.0.0:0", allowAnonymous: true})
		session(t, n.addr).alive("S9: allow_anonymous")
	})
	t.Run("a token will do", func(t *testing.T) {
		t.Parallel()
		n := own(t, knobs{listen: "0.0.0.0:0", tokens: [][32]byte{sha256.Sum256([]byte("t"))}})
		p := dial(t, n.addr)
		p.send(connect{version: wireVersion, token: []byte("t")}.frame())
		p.empty("S9", opConnect)
	})
}
