package conformance

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// announcers open n connections that announce 16 MiB each and send nothing more.
func announcers(t *testing.T, addr string, n int) []*peer {
	t.Helper()
	all := make([]*peer, n)
	for i := range all {
		if i%2 == 0 {
			all[i] = dial(t, addr)
			all[i].send([]byte{1, 0, 0, 0})
			continue
		}
		all[i] = session(t, addr)
		all[i].send(header(maxFrame, opPub, w{}.u16(1).u16(0).u64(0).u64(0).u16(unknownFlag).u16(0).u32(maxValue)))
	}
	return all
}

// garbage are beginnings that no client of ours would send.
func garbage(i int, seed uint64) []byte {
	rnd := rand.New(rand.NewPCG(seed, uint64(i)))
	switch i % 4 {
	case 0:
		return []byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
	case 1:
		return append([]byte{0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00}, make([]byte, 500)...) // TLS
	case 2:
		return bytes.Repeat([]byte{0}, 4096)
	default:
		b := make([]byte, 4+rnd.IntN(60_000))
		for j := range b {
			b[j] = byte(rnd.Uint32())
		}
		b[0] |= 2 // a length above the cap
		return b
	}
}

// deaf opens n sessions that are sent data and never read.
func deaf(t *testing.T, addr string, topic uint16, n int) {
	t.Helper()
	for i := range n {
		p := session(t, addr)
		m := p.join(subTo(topic, fmt.Sprintf("deaf-%d", i)), 1)
		p.send(bytes.Repeat(m.pullOf(pull{}).frame(), 20), bytes.Repeat(ping(), 2000))
	}
}

// steady publishes, consumes and acknowledges one message at a time and returns how long each PUB took.
func (m *member) steady(d time.Duration) []time.Duration {
	m.t.Helper()
	var took []time.Duration
	for end := time.Now().Add(d); time.Now().Before(end); {
		since := time.Now()
		res := m.pub("a well-behaved client", pub{topic: m.topic, value: []byte("steady")})
		took = append(took, time.Since(since))
		x := m.take("a well-behaved client", 1)[0]
		if x.seq != res.seq {
			m.failf("a well-behaved client", "published %+v, got %s", res, show([]message{x}))
		}
		m.ack("a well-behaved client", x)
	}
	slices.Sort(took)
	return took
}

// rss is the process's resident memory in bytes: the broker and this test.
func rss() (int64, error) {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return kib << 10, err
		}
	}
	return 0, errors.New("no VmRSS in /proc/self/status")
}

// watchMemory returns a function that ends the watch and says what the peak was.
func watchMemory(t *testing.T) func() int64 {
	peak, stop := make(chan int64), make(chan struct{})
	go func() {
		top := int64(0)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			now, err := rss()
			if err != nil {
				t.Errorf("cannot watch the memory: %v", err)
			}
			top = max(top, now)
			select {
			case <-stop:
				peak <- top
				return
			case <-tick.C:
			}
		}
	}()
	return func() int64 { close(stop); return <-peak }
}

// TestHostile_Traffic runs alone, because it looks at time and memory.
func TestHostile_Traffic(t *testing.T) {
	n := own(t, knobs{})
	p := session(t, n.addr)
	backlog := p.topic(1)
	for range 64 {
		p.pub("PUB", pub{topic: backlog, value: make([]byte, 64<<10)})
	}
	m := p.join(subTo(p.topic(1), "g"), 1)
	for range 100 {
		m.steady(0)
	}
	before := m.steady(700 * time.Millisecond)
	debug.FreeOSMemory()
	base, err := rss()
	if err != nil {
		t.Fatal(err)
	}
	peak := watchMemory(t)

	announced := announcers(t, n.addr, 500)
	deaf(t, n.addr, backlog, 100)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	ended := make(chan error, 200)
	for i := range 200 {
		go func() { ended <- untilClosed(n.addr, garbage(i, seed)) }()
	}
	long := 2500 * time.Millisecond
	if testing.Short() {
		long = time.Second
	}
	during := m.steady(long)
	grown := peak() - base
	for i := range 200 {
		if err := <-ended; err != nil {
			t.Errorf("garbage %d of 200 (seed %d): every offender is closed in time: %v", i+1, seed, err)
		}
	}
	median := func(d []time.Duration) time.Duration { return d[len(d)/2] }
	t.Logf("PUB median %v before, %v during (max %v, %d rounds); memory %d MiB, grown by %d MiB", median(before), median(during), during[len(during)-1], len(during), base>>20, grown>>20)
	if median(during) > 10*median(before)+20*time.Millisecond {
		t.Errorf("other clients notice nothing: the median PUB took %v, %v before", median(during), median(before))
	}
	if worst := during[len(during)-1]; worst > 2*time.Second {
		t.Errorf("other clients notice nothing: one PUB took %v", worst)
	}
	limit := int64(200 << 20)
	if pace > 1 {
		limit *= 4 // its shadow memory
	}
	if grown > limit {
		t.Errorf("S1, S8: memory follows the bytes received: grown by %d MiB", grown>>20)
	}
	for _, q := range announced {
		q.nc.Close()
	}
	session(t, n.addr).alive("the broker goes on")
}

// untilClosed sends bytes and expects the broker to end the connection within patience.
func untilClosed(addr string, b []byte) error {
	nc, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		return err
	}
	defer nc.Close()
	if err := nc.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if _, err := nc.Write(b); err != nil && errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("write: %w", err)
	}
	_, err = io.Copy(io.Discard, bufio.NewReader(nc))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("still open after %v: %w", patience, err)
	}
	return nil // the end or a reset
}

// TestHostile_AnnouncersAreClosedInTime: 10 s after their last byte (S5), or after accept (0x0007).
func TestHostile_AnnouncersAreClosedInTime(t *testing.T) {
	slow(t)
	t.Parallel()
	addr := ordinary.addr(t)
	since := time.Now()
	all := announcers(t, addr, 200)
	opened := time.Since(since)
	for i, p := range all {
		rule := "every offender is closed in time"
		deadline := since.Add(10*time.Second + opened + late + time.Second)
		f, err := p.read(deadline)
		if err == nil { // no CONNECT within 10 s
			p.asErr(rule, f, opNone, codeAuthTimeout)
			_, err = p.read(deadline)
		}
		if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			p.failf(rule, "offender %d is still open: %v", i, err)
		}
	}
}

// TestHostile_Vanishing opens and resets connections in mid-request; the broker must not mind.
func TestHostile_Vanishing(t *testing.T) {
	t.Parallel()
	addr := ordinary.addr(t)
	p := session(t, addr)
	topic := p.topic(1)
	whole := bytes.Join([][]byte{connect{version: wireVersion}.frame(), pub{topic: topic, value: make([]byte, 2000)}.frame(), subTo(topic, "g").frame(), ping()}, nil)
	for i := range 300 {
		nc, err := net.DialTimeout("tcp", addr, patience)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := nc.Write(whole[:1+i*(len(whole)-1)/299]); err != nil {
			t.Fatal(err)
		}
		if err := nc.(*net.TCPConn).SetLinger(i % 2); err != nil { // 0: RST
			t.Fatal(err)
		}
		nc.Close()
	}
	m := p.join(subTo(topic, "h"), 1) // the vanished ones' group may still be full for a moment
	got := uint64(0)
	for {
		msgs := m.pull("P2", pull{waitMS: 200})
		if len(msgs) == 0 {
			break
		}
		for _, x := range msgs {
			if got++; x.seq != got {
				m.failf("P2: sequences have no hole", "want %d, got %s", got, show([]message{x}))
			}
		}
		m.ack("ACK", msgs...)
	}
	if got > 300 {
		m.failf("P2", "%d messages of 300 connections", got)
	}
}
