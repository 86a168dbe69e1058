package cli

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortarmq/mortarmq/config"
)

// fakeNode is a broker that does nothing but end as it is told.
type fakeNode struct {
	failed  chan error
	closing chan struct{} // closed when Close was called
	closed  chan error    // what Close returns, and when
}

func newFakeNode() *fakeNode {
	return &fakeNode{failed: make(chan error, 1), closing: make(chan struct{}), closed: make(chan error, 1)}
}

func (n *fakeNode) ClientAddr() string   { return "127.0.0.1:1" }
func (n *fakeNode) AdminAddr() string    { return "127.0.0.1:2" }
func (n *fakeNode) Failed() <-chan error { return n.failed }
func (n *fakeNode) Close() error         { close(n.closing); return <-n.closed }

// serving is a serve command with a fake node behind it.
type serving struct {
	node    *fakeNode
	signals chan os.Signal
	out     bytes.Buffer
	err     bytes.Buffer
	code    chan int
	cfg     config.Config
}

func startServing(startErr error, args ...string) *serving {
	s := &serving{node: newFakeNode(), signals: make(chan os.Signal, 2), code: make(chan int, 1)}
	a := &app{
		in: strings.NewReader(""), out: &s.out, err: &s.err,
		signals: func() (<-chan os.Signal, func()) { return s.signals, func() {} },
		start: func(cfg config.Config, _ *slog.Logger) (node, error) {
			s.cfg = cfg
			return s.node, startErr
		},
	}
	go func() { s.code <- a.run(append([]string{"serve"}, args...)) }()
	return s
}

func TestServeSaysWhenItIsReadyAndDrainsAtASignal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServing(nil, "--data-dir", "some where", "--shards", "3")
		synctest.Wait()
		want := "mortarmq " + fullVersion() + " is ready: clients=127.0.0.1:1 admin=127.0.0.1:2 data=some where\n"
		if s.out.String() != want || s.cfg.Shards != 3 {
			t.Errorf("said %q, shards %d", s.out.String(), s.cfg.Shards)
		}
		s.signals <- syscall.SIGTERM
		<-s.node.closing
		synctest.Wait()
		select {
		case code := <-s.code:
			t.Errorf("ended with %d before it had drained", code)
		default:
		}
		s.node.closed <- nil
		if code := <-s.code; code != exitDone {
			t.Errorf("exit code %d\n%s", code, s.err.String())
		}
	})
}

func TestASecondSignalDoesNotWaitForTheDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServing(nil)
		s.signals <- os.Interrupt
		<-s.node.closing
		s.signals <- os.Interrupt
		if code := <-s.code; code != exitInterrupted {
			t.Errorf("exit code %d", code)
		}
		s.node.closed <- nil
	})
}

func TestABrokerThatCannotStartOrStopIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServing(errors.New("data directory ./data: in use by process 7"))
		if code := <-s.code; code != exitRefused || s.err.String() != "error: data directory ./data: in use by process 7\n" || s.out.Len() != 0 {
			t.Errorf("exit code %d, %q, %q", code, s.err.String(), s.out.String())
		}
		s = startServing(nil)
		s.signals <- os.Interrupt
		s.node.closed <- errors.New("disk gone")
		if code := <-s.code; code != exitRefused || !strings.Contains(s.err.String(), "error: the broker did not stop cleanly: disk gone\n") {
			t.Errorf("exit code %d, %q", code, s.err.String())
		}
	})
}

// A broker that failed stays up to say why; when it is ended at last, that was no success.
func TestAFailedBrokerStaysUpUntilItIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServing(nil)
		s.node.failed <- errors.New("shard 1: write failed")
		synctest.Wait()
		select {
		case code := <-s.code:
			t.Errorf("ended by itself with %d", code)
		default:
		}
		s.signals <- os.Interrupt
		s.node.closed <- nil
		if code := <-s.code; code != exitRefused || !strings.Contains(s.err.String(), "shard 1: write failed") {
			t.Errorf("exit code %d, %q", code, s.err.String())
		}
	})
}

func TestTheLogHasTheFormAndLevelThatWereAskedFor(t *testing.T) {
	c := config.Default()
	c.LogFormat, c.LogLevel = config.LogJSON, slog.LevelWarn
	var b bytes.Buffer
	l := newLogger(&b, c)
	l.Info("no")
	l.Warn("yes")
	if !strings.HasPrefix(b.String(), "{") || strings.Contains(b.String(), "no") || !strings.Contains(b.String(), `"msg":"yes"`) {
		t.Error(b.String())
	}
}

func TestProgressSpeaksOnlyOfLongRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w lockedBuffer
		p := startProgress(&w, func() string { return "half" })
		p.end()
		if w.String() != "" {
			t.Errorf("a short run says %q", w.String())
		}
		p = startProgress(&w, func() string { return "half" })
		time.Sleep(progressAfter + 2*progressPlain + progressPlain/2)
		p.end()
		if w.String() != "half\nhalf\nhalf\n" {
			t.Errorf("a long run says %q", w.String())
		}
	})
}

func TestProgressOnATerminalStaysOnOneLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w lockedBuffer
		texts := []string{"1234", "12"}
		p := &progress{w: &w, terminal: true, line: func() string { s := texts[0]; texts = texts[1:]; return s }, stop: make(chan struct{})}
		p.stopped.Go(func() { p.run(progressTerminal) })
		time.Sleep(progressAfter + progressTerminal + progressTerminal/2)
		p.end()
		if w.String() != "\r1234\r12  \r  \r" {
			t.Errorf("it shows %q", w.String())
		}
	})
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
