package loop_test

import (
	"bytes"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/mortarmq/mortarmq/codec"
	"github.com/mortarmq/mortarmq/flow"
	"github.com/mortarmq/mortarmq/loop"
)

// lines collects a log.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func TestAPanicEndsOneSession(t *testing.T) {
	var out lines
	b := newBackend(t, 1)
	b.bomb = func(j job) {
		switch {
		case j.control != nil && strings.HasPrefix(string(j.control.Declare.Topic), "bomb"),
			j.pull != nil && j.pull.MaxMsgs == 66, j.req != nil && strings.Contains(j.tail, "bomb"):
			panic("boom")
		}
	}
	s := start(t, loop.Config{Reactors: 1, Logger: slog.New(slog.NewTextHandler(&out, nil))}, b)
	other := session(t, s)
	other.send(pub(1, 0, "pending"))
	pending := b.next()

	p := session(t, s)
	p.send(pub(1, 0, "x"), declare("bomb"), ping())
	x := b.next()
	b.complete(b.answer(x))
	p.ok(codec.OpPub) // what came before is answered, what comes behind is not served
	text := p.refused(codec.OpDeclare, codec.CodeInternal)
	id := regexp.MustCompile(`[0-9a-f]{8}`).FindString(text)
	if id == "" || !strings.Contains(out.String(), "id="+id) || !strings.Contains(out.String(), "boom") || !strings.Contains(out.String(), "guard_test.go") {
		t.Errorf("the id of %q with the cause and the stack is not in the log:\n%s", text, out.String())
	}
	b.nextClosed()

	// In Submit and in Pull the slot is taken already: the ERR waits for an answer
	// that never comes, then the connection is closed.
	m := join(t, s, b)
	m.send(m.pull(func(p *codec.Pull) { p.MaxMsgs = 66 }))
	q := session(t, s)
	q.send(pub(1, 0, "bomb"))
	eventually(t, "three panics", func() bool { return s.Stats().Panics == 3 })

	b.complete(b.answer(pending))
	other.ok(codec.OpPub)
	other.alive()
}

// A panic over one answer of a batch: the others of the batch arrive.
func TestAPanicOverAnAnswer(t *testing.T) {
	s, b := manual(t, loop.Config{Reactors: 1})
	p, q := session(t, s), session(t, s)
	p.send(pub(1, 0, "p"))
	x := b.next()
	q.send(pub(1, 0, "q"))
	y := b.next()
	bad := b.answer(x)
	bad.Slot += 1000
	s.Complete(0, []flow.Completion{bad, b.answer(y), {Conn: &flow.Conn{}}, b.answer(x)})
	q.ok(codec.OpPub)
	p.ok(codec.OpPub)
	p.refused(codec.OpPub, codec.CodeInternal)
	q.alive()
	if n := s.Stats().Panics; n != 2 {
		t.Errorf("%d panics", n)
	}
}
