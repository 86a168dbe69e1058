package conformance

import (
	"flag"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// external is the address of a broker that is already up; "" starts our own.
var external = os.Getenv("MORTARMQ_CONFORMANCE_ADDR")

// slowTimers runs the tests that wait for the 45-second timers.
var slowTimers = flag.Bool("timers", false, "run the tests of the 45-second timers too")

// TestMain runs the tests with more parallelism than there are CPUs: most of
// them wait for the broker's timers.
func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		parallel := "24"
		if pace > 1 {
			parallel = "8" // here they do keep the CPUs busy
		}
		if err := f.Value.Set(parallel); err != nil {
			panic(err)
		}
	}
	code := m.Run()
	for _, s := range []*shared{&ordinary, &hasty, &patient} {
		if s.node == nil {
			continue
		}
		if err := s.node.stop(); err != nil {
			fmt.Fprintln(os.Stderr, "a broker shared by the tests did not close cleanly:", err)
			code = max(code, 1)
		}
		if err := os.RemoveAll(s.node.dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	os.Exit(code)
}

// shared is a broker that many tests use, each with topics of its own.
type shared struct {
	once  sync.Once
	knobs knobs
	node  *node
	err   error
}

var (
	// ordinary has the default settings.
	ordinary shared
	// hasty retries and dead-letters soon.
	hasty = shared{knobs: knobs{shards: 3, lease: pace * 500 * time.Millisecond, backoffBase: 200 * time.Millisecond, backoffMax: 300 * time.Millisecond, maxAttempts: 3}}
	// patient has leases that end long before the retry comes.
	patient = shared{knobs: knobs{lease: 300 * time.Millisecond, backoffBase: 2500 * time.Millisecond, backoffMax: 2500 * time.Millisecond}}
)

// addr returns where the shared broker listens, and starts it when it is the first to ask.
func (s *shared) addr(t testing.TB) string {
	t.Helper()
	if external != "" {
		if s != &ordinary {
			t.Skip("needs short leases and retries: not with MORTARMQ_CONFORMANCE_ADDR")
		}
		return external
	}
	s.once.Do(func() {
		dir, err := os.MkdirTemp("", "mortarmq-conformance-")
		if err != nil {
			s.err = err
			return
		}
		s.knobs.dir = dir
		s.node, s.err = start(s.knobs)
	})
	if s.err != nil {
		t.Fatalf("the broker does not start: %v", s.err)
	}
	return s.node.addr
}

// own starts a broker for this test alone; it stops with the test.
func own(t testing.TB, k knobs) *node {
	t.Helper()
	if external != "" {
		t.Skip("needs a broker with settings of its own: not with MORTARMQ_CONFORMANCE_ADDR")
	}
	if k.dir == "" {
		k.dir = t.TempDir()
	}
	n, err := start(k)
	if err != nil {
		t.Fatalf("the broker does not start: %v", err)
	}
	t.Cleanup(func() {
		if err := n.stop(); err != nil {
			t.Errorf("the broker does not close cleanly: %v", err)
		}
	})
	return n
}

// restart stops a broker and starts it again on the same directory.
func (n *node) restart(t testing.TB) *node {
	t.Helper()
	if err := n.stop(); err != nil {
		t.Fatalf("the broker does not close cleanly: %v", err)
	}
	return own(t, n.knobs)
}

// knobs are the settings a test may want; zero means the broker's default.
type knobs struct {
	dir                     string
	listen                  string // default 127.0.0.1:0
	allowAnonymous          bool
	tokens                  [][32]byte
	lease                   time.Duration
	backoffBase, backoffMax time.Duration
	maxAttempts             uint16
	pollMaxWait             time.Duration
	rate                    int
	partitionMax            uint16
	shards                  int
	flushInterval           time.Duration // not 0: flush_policy interval
	idleExpiry              time.Duration
	segmentBytes            int64 // default 4 MiB here, to write less
}

var (
	run    = fmt.Sprintf("%x", time.Now().UnixNano())
	serial atomic.Uint64
)

// unique returns a topic or group name that no other test has, nor an earlier run.
func unique(what string) string {
	return fmt.Sprintf("conf-%s.%s-%d", run, what, serial.Add(1))
}

// slow skips a test that waits for seconds, most of them for one of the broker's 10-second timers.
func slow(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("waits for seconds: not with -short")
	}
}
