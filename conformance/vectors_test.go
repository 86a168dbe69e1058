package conformance

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"slices"
	"testing"
	"time"
)

// vector is one entry of vectors.json (C2); the fields are codec's business.
type vector struct {
	Name   string `json:"name"`
	Hex    string `json:"hex"`
	Expect string `json:"expect"`
	Error  uint16 `json:"error"`
}

// TestC2_Vectors sends every vector to the broker.
func TestC2_Vectors(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../codec/testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []vector
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	if len(all) < 200 {
		t.Fatalf("only %d vectors", len(all))
	}
	addr := own(t, knobs{}).addr // the vectors use topic ids that could be another test's
	for _, v := range all {
		b, err := hex.DecodeString(v.Hex)
		if err != nil {
			t.Fatalf("%s: %v", v.Name, err)
		}
		t.Run(v.Name, func(t *testing.T) {
			t.Parallel()
			v.play(t, addr, b)
		})
	}
}

// refusedEarly are the unfinished vectors whose payload so far already decides:
// a frame's first bytes are "need" for a decoder, but S1 lets the broker not wait.
var refusedEarly = map[string]uint16{
	"frame.need_one_byte_of_connect_body": codeVersion,   // version 0x41
	"frame.need_body_at_exact_max_length": codeMalformed, // a PING with a payload
}

// play sends one vector in the session state it belongs to.
func (v vector) play(t *testing.T, addr string, b []byte) {
	serverOnly := len(b) >= 5 && slices.Contains([]byte{opMsg, opNotice}, b[4])
	connects := len(b) >= 5 && b[4] == opConnect
	p := dial(t, addr)
	if !connects {
		p.send(connect{version: wireVersion}.frame())
		p.ok("CONNECT", opConnect)
	}
	p.send(b)
	switch {
	case refusedEarly[v.Name] != 0:
		p.refused("S1: refused on its earliest decisive byte", b[4], refusedEarly[v.Name])
	case v.Expect == "need":
		p.quiet("C2: an unfinished frame is waited for", 60*time.Millisecond)
	case serverOnly:
		p.refused("0x0002: MSG and NOTICE are for the server only", b[4], codeUnknownOp)
	case v.Expect == "error":
		p.refused("C2: "+v.Name, b[4], v.Error)
	case v.Expect != "ok":
		t.Fatalf("unknown expectation %q", v.Expect)
	case b[4] == opErr || b[4] == opOK:
		p.alive("S4: a client's ERR and OK are not answered")
	default:
		f := p.answer("C2: a valid frame is answered", patience)
		if f.op == opErr {
			if m, err := decodeErr(f.payload); err != nil || m.code == codeMalformed || m.request != b[4] {
				p.failf("C2: "+v.Name+" is well-formed", "got %v (%v)", f, err)
			}
		} else {
			p.asOK("C2: "+v.Name, f, b[4])
		}
		p.alive("C2: the session goes on")
	}
}
