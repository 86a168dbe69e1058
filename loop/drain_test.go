package loop_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/mortarmq/mortarmq/codec"
	"github.com/mortarmq/mortarmq/loop"
)

func TestDrainAnswersWhatWasReceived(t *testing.T) {
	s, b := manual(t, loop.Config{})
	idle, fresh, busy := session(t, s), dial(t, s), session(t, s)
	fresh.alive()
	parked, held := join(t, s, b), join(t, s, b)
	parked.send(parked.pull(nil))
	waiting := b.next().pull
	deliver(waiting, 5)
	if !waiting.Park() {
		t.Fatal("cancelled already")
	}
	held.send(held.pull(nil), ping(), held.pull(nil), declare("d"))
	first := b.next().pull
	eventually(t, "the requests behind it are kept", first.Cancelled)
	busy.send(pub(1, 0, "x"), pub(1, 1, "y"), pub(1, 2, "half")[:20])
	x, y := b.next(), b.next()

	done := make(chan error)
	go func() { done <- s.Drain(within(patience)) }()

	parked.msg(5) // the waiting PULL ends with what it has
	parked.ok(codec.OpPull)
	idle.eof()
	fresh.eof()
	b.complete(b.answer(y), b.answer(x))
	busy.ok(codec.OpPub)
	busy.ok(codec.OpPub)
	busy.eof()
	b.complete(first.Completion(0))
	var second, d = job{}, job{}
	for second.pull == nil || d.control == nil {
		switch j := b.next(); {
		case j.pull != nil:
			second = j
			eventually(t, "a PULL served while draining may not wait", second.pull.Cancelled)
			b.complete(second.pull.Completion(0))
		case j.control != nil:
			d = j
			b.serveControl(j.control)
		}
	}
	held.ok(codec.OpPull)
	held.ok(codec.OpPing)
	held.ok(codec.OpPull)
	held.ok(codec.OpDeclare)
	held.eof()
	for _, p := range []*peer{idle, fresh, busy, parked.peer, held.peer} {
		p.c.Close()
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if _, err := net.DialTimeout("tcp", s.Addr().String(), time.Second); err == nil {
		t.Error("a drained server accepts connections")
	}
	if st := s.Stats(); st.Connections != 0 || st.Closed["drain"] == 0 {
		t.Errorf("after Drain: %+v", st)
	}
}

func TestDrainGivesUpInTime(t *testing.T) {
	s, b := manual(t, loop.Config{})
	p := session(t, s)
	p.send(pub(1, 0, "never answered"))
	b.next()
	if err := s.Drain(within(50 * time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Drain returned %v", err)
	}
}

func TestDrainWithoutConnections(t *testing.T) {
	s, _ := manual(t, loop.Config{Reactors: 3})
	if err := s.Drain(within(patience)); err != nil {
		t.Error(err)
	}
}

// Completions may come at any time around Close.
func TestAnswersAroundClose(t *testing.T) {
	b := newBackend(t, 2)
	s, err := loop.Listen(loop.Config{Listen: "127.0.0.1:0", Reactors: 2}, b)
	if err != nil {
		t.Fatal(err)
	}
	b.srv = s
	p := session(t, s)
	p.send(pub(1, 0, "x"), pub(1, 0, "y"))
	x := b.next()
	b.next()
	stop := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		c := b.answer(x)
		b.complete(c)
		c.Slot++
		for {
			select {
			case <-stop:
				return
			default:
				s.Revoked(b.deadSub(c.Conn))
			}
		}
	}()
	p.ok(codec.OpPub)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	b.complete(b.answer(x))
	close(stop)
	<-stopped
	if err := s.Close(); err != nil {
		t.Errorf("a second Close: %v", err)
	}
	b.chunksReturned()
}
