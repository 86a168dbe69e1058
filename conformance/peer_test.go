package conformance

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"
)

const (
	// patience bounds every wait for an answer that is due at once. It only matters when something is wrong, or the machine is very busy.
	patience = 10 * time.Second
	// traceLen is how many of the latest frames a failure shows.
	traceLen = 40
)

// peer is one raw connection to the broker. Its methods are for the test's own
// goroutine, except write, which may run beside the reading ones.
type peer struct {
	t       testing.TB
	nc      net.Conn
	in      *bufio.Reader
	born    time.Time
	notices []notice // read while waiting for an answer (S6), not yet looked at

	mu    sync.Mutex
	trace []string
}

// dial opens a connection and sends nothing.
func dial(t testing.TB, addr string) *peer {
	t.Helper()
	nc, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		t.Fatalf("cannot connect to the broker: %v", err)
	}
	t.Cleanup(func() { nc.Close() })
	return &peer{t: t, nc: nc, in: bufio.NewReaderSize(nc, 64<<10), born: time.Now()}
}

// session opens a connection and completes CONNECT without a token.
func session(t testing.TB, addr string) *peer {
	t.Helper()
	p := dial(t, addr)
	p.send(connect{version: wireVersion}.frame())
	p.ok("CONNECT is answered OK", opConnect)
	return p
}

func (p *peer) note(arrow string, what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.trace) == traceLen {
		p.trace = append(p.trace[:0], p.trace[1:]...)
	}
	p.trace = append(p.trace, fmt.Sprintf("%8.3fs %s %s", time.Since(p.born).Seconds(), arrow, what))
}

// failf ends the test with the rule, what went wrong, and the latest frames in hex.
func (p *peer) failf(rule, format string, args ...any) {
	p.t.Helper()
	p.mu.Lock()
	trace := strings.Join(p.trace, "\n")
	p.mu.Unlock()
	p.t.Fatalf("%s\n  %s\nframes of this connection, oldest first:\n%s", rule, fmt.Sprintf(format, args...), trace)
}

// send writes all frames in one write.
func (p *peer) send(frames ...[]byte) {
	p.t.Helper()
	if err := p.write(bytes.Join(frames, nil)); err != nil {
		p.failf("the broker reads what is sent", "write: %v", err)
	}
}

// write sends bytes within the deadline.
func (p *peer) write(b []byte) error {
	p.note("→", brief(b))
	if err := p.nc.SetWriteDeadline(time.Now().Add(3 * patience)); err != nil {
		return err
	}
	_, err := p.nc.Write(b)
	return err
}

// read returns the next frame, or why there is none by the deadline.
func (p *peer) read(deadline time.Time) (frame, error) {
	if err := p.nc.SetReadDeadline(deadline); err != nil {
		return frame{}, err
	}
	var prefix [4]byte
	if n, err := io.ReadFull(p.in, prefix[:]); err != nil {
		if n > 0 {
			err = fmt.Errorf("stream ends %d bytes into a length: %w", n, err)
		}
		p.note("←", err.Error())
		return frame{}, err
	}
	n := binary.BigEndian.Uint32(prefix[:])
	if n == 0 || n > maxFrame {
		return frame{}, fmt.Errorf("the broker announced a frame of %d bytes", n)
	}
	body := make([]byte, n)
	if got, err := io.ReadFull(p.in, body); err != nil {
		err = fmt.Errorf("stream ends after %d of %d bytes of a frame (%s): %w", got, n, brief(body[:got]), err)
		p.note("←", err.Error())
		return frame{}, err
	}
	f := frame{op: body[0], payload: body[1:]}
	p.note("←", f.String())
	return f, nil
}

// next returns the next frame of any op.
func (p *peer) next(rule string, within time.Duration) frame {
	p.t.Helper()
	f, err := p.read(time.Now().Add(within))
	if err != nil {
		p.failf(rule, "no frame within %v: %v", within, err)
	}
	return f
}

// answer returns the next frame that is not a NOTICE; notices are kept.
func (p *peer) answer(rule string, within time.Duration) frame {
	p.t.Helper()
	deadline := time.Now().Add(within)
	for {
		f := p.next(rule, time.Until(deadline))
		if f.op != opNotice {
			return f
		}
		p.keep(rule, f)
	}
}

func (p *peer) keep(rule string, f frame) {
	p.t.Helper()
	n, err := decodeNotice(f.payload)
	if err != nil {
		p.failf(rule, "%v", err)
	}
	p.notices = append(p.notices, n)
}

// ok expects OK for op and returns its result.
func (p *peer) ok(rule string, op byte) []byte {
	p.t.Helper()
	return p.okWithin(rule, op, patience)
}

func (p *peer) okWithin(rule string, op byte, within time.Duration) []byte {
	p.t.Helper()
	f := p.answer(rule, within)
	return p.asOK(rule, f, op)
}

func (p *peer) asOK(rule string, f frame, op byte) []byte {
	p.t.Helper()
	if f.op == opErr {
		m, err := decodeErr(f.payload)
		p.failf(rule, "want OK for %s, got ERR 0x%04x for %s %q (%v)", opName(op), m.code, opName(m.request), m.message, err)
	}
	if f.op != opOK {
		p.failf(rule, "want OK for %s, got %v", opName(op), f)
	}
	m, err := decodeOK(f.payload)
	if err != nil {
		p.failf(rule, "%v", err)
	}
	if m.request != op {
		p.failf(rule, "want OK for %s, got OK for %s", opName(op), opName(m.request))
	}
	return m.result
}

// empty expects OK without a result.
func (p *peer) empty(rule string, op byte) {
	p.t.Helper()
	if got := p.ok(rule, op); len(got) != 0 {
		p.failf(rule, "OK for %s has no result, got %s", opName(op), brief(got))
	}
}

// err expects ERR with code for op and returns the text.
func (p *peer) err(rule string, op byte, code uint16) string {
	p.t.Helper()
	return p.asErr(rule, p.answer(rule, patience), op, code)
}

func (p *peer) asErr(rule string, f frame, op byte, code uint16) string {
	p.t.Helper()
	if f.op != opErr {
		p.failf(rule, "want ERR 0x%04x for %s, got %v", code, opName(op), f)
	}
	m, err := decodeErr(f.payload)
	if err != nil {
		p.failf(rule, "%v", err)
	}
	if m.code != code || m.request != op {
		p.failf(rule, "want ERR 0x%04x for %s, got ERR 0x%04x for %s %q", code, opName(op), m.code, opName(m.request), m.message)
	}
	if len(m.message) > maxErrMessage || !utf8.ValidString(m.message) || m.message == "" {
		p.failf(rule, "an ERR message says what to do, in UTF-8 of at most %d bytes, got %q", maxErrMessage, m.message)
	}
	return m.message
}

// refused expects ERR with a closing code and then the end of the stream.
func (p *peer) refused(rule string, op byte, code uint16) {
	p.t.Helper()
	p.err(rule, op, code)
	p.closed(rule, patience)
}

// closed expects that the broker ends the connection and sends nothing before.
func (p *peer) closed(rule string, within time.Duration) {
	p.t.Helper()
	f, err := p.read(time.Now().Add(within))
	if err == nil {
		p.failf(rule, "want the connection closed, got %v", f)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		p.failf(rule, "the connection is still open after %v", within)
	}
}

// quiet expects nothing at all for a while: neither a byte nor the end.
func (p *peer) quiet(rule string, d time.Duration) {
	p.t.Helper()
	f, err := p.read(time.Now().Add(d))
	if err == nil {
		p.failf(rule, "want nothing for %v, got %v", d, f)
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		p.failf(rule, "want nothing for %v, but: %v", d, err)
	}
}

// alive shows by a PING that the session works and owes nothing else.
func (p *peer) alive(rule string) {
	p.t.Helper()
	p.send(ping())
	p.empty(rule, opPing)
}

// declare makes a topic and returns what OK says.
func (p *peer) declare(rule string, m declare) declareResult {
	p.t.Helper()
	p.send(m.frame())
	return p.declared(rule)
}

func (p *peer) declared(rule string) declareResult {
	p.t.Helper()
	res, err := decodeDeclareResult(p.ok(rule, opDeclare))
	if err != nil {
		p.failf(rule, "%v", err)
	}
	return res
}

// topic makes a topic of its own for this test.
func (p *peer) topic(partitions uint16) uint16 {
	p.t.Helper()
	res := p.declare("DECLARE of a new topic", declare{topic: unique("t"), count: partitions})
	return res.topic
}

// pub publishes one message and returns what OK says.
func (p *peer) pub(rule string, m pub) pubResult {
	p.t.Helper()
	p.send(m.frame())
	return p.published(rule)
}

func (p *peer) published(rule string) pubResult {
	p.t.Helper()
	res, err := decodePubResult(p.ok(rule, opPub))
	if err != nil {
		p.failf(rule, "%v", err)
	}
	if res.commit < res.seq {
		p.failf(rule, "P3: commit_seq %d is below sequence %d", res.commit, res.seq)
	}
	if res.flags&^pubDeduplicated != 0 {
		p.failf(rule, "result_flags knows bit0 only, got %#02x", res.flags)
	}
	return res
}

// fill publishes values, in order, to one partition, in one write.
func (p *peer) fill(topic, partition uint16, values ...string) {
	p.t.Helper()
	frames := make([][]byte, len(values))
	for i, v := range values {
		frames[i] = pub{topic: topic, partition: partition, value: []byte(v)}.frame()
	}
	p.send(frames...)
	for range values {
		p.published("PUB is answered OK")
	}
}

// credit sends CREDIT and returns what OK says.
func (p *peer) credit(rule string, m credit) creditResult {
	p.t.Helper()
	p.send(m.frame())
	res, err := decodeCreditResult(p.ok(rule, opCredit))
	if err != nil {
		p.failf(rule, "%v", err)
	}
	return res
}

func deadlineIn(d time.Duration) time.Time { return time.Now().Add(d) }
