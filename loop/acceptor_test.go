package loop_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/mortarmq/mortarmq/loop"
	"golang.org/x/sys/unix"
)

// failing is a listener whose next accepts fail.
type failing struct {
	net.Listener
	left  atomic.Int64
	calls atomic.Int64
	err   error
}

func (f *failing) Accept() (net.Conn, error) {
	f.calls.Add(1)
	if f.left.Add(-1) >= 0 {
		return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", f.err)}
	}
	return f.Listener.Accept()
}

func TestAcceptingResumes(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED, syscall.EPERM} {
		t.Run(errno.Error(), func(t *testing.T) {
			t.Parallel()
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			f := &failing{Listener: ln, err: errno}
			f.left.Store(4)
			b := newBackend(t, 1)
			s, err := loop.Serve(f, loop.Config{Reactors: 1}, b)
			if err != nil {
				t.Fatal(err)
			}
			b.srv = s
			session(t, s).alive()
			if n := s.Stats().AcceptErrors; n != 4 {
				t.Errorf("%d errors were counted", n)
			}
			if n := f.calls.Load(); n > 6 {
				t.Errorf("Accept was called %d times", n)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A listener that fails for ever is asked less and less often, and Close does not wait for it.
func TestAcceptingDoesNotSpin(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &failing{Listener: ln, err: syscall.EMFILE}
	f.left.Store(1 << 40)
	s, err := loop.Serve(f, loop.Config{Reactors: 1}, newBackend(t, 1))
	if err != nil {
		t.Fatal(err)
	}
	since := time.Now()
	eventually(t, "five attempts", func() bool { return f.calls.Load() >= 5 })
	if d := time.Since(since); d < 75*time.Millisecond { // 5 + 10 + 20 + 40
		t.Errorf("five attempts within %v", d)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestMaxConns(t *testing.T) {
	s, b := automatic(t, loop.Config{MaxConns: 3})
	var all []*peer
	for range 3 {
		all = append(all, session(t, s))
	}
	for range 5 {
		dial(t, s).eof()
	}
	if st := s.Stats(); st.Rejected != 5 || st.Accepted != 3 || st.Connections != 3 {
		t.Errorf("rejected %d, accepted %d, open %d", st.Rejected, st.Accepted, st.Connections)
	}
	all[0].c.Close()
	eventually(t, "one place is free", func() bool { return s.Stats().Connections == 2 })
	session(t, s).alive()
	_ = b
}

func TestConnectionsAreSpreadEvenly(t *testing.T) {
	s, b := manual(t, loop.Config{Reactors: 3})
	count := map[int]int{}
	for range 9 {
		session(t, s).send(declare("x"))
		count[b.next().control.Conn.Loop]++
	}
	for i := range 3 {
		if count[i] != 3 {
			t.Errorf("reactors have %v", count)
		}
	}
}

// fewFiles is set in the process that TestOutOfFiles starts: it serves with too few
// files and an absurd MaxConns.
const fewFiles = "LOOP_TEST_FEW_FILES"

func TestMain(m *testing.M) {
	if os.Getenv(fewFiles) == "" {
		os.Exit(m.Run())
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 64, Max: 64}); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	b := newBackend(nil, 1)
	s, err := loop.Listen(loop.Config{Listen: "127.0.0.1:0", MaxConns: 100_000}, b)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	b.srv = s
	b.auto()
	fmt.Println(s.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin) // until the test is done
	var used unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &used)
	fmt.Println(s.Stats().AcceptErrors, time.Duration(used.Utime.Nano()+used.Stime.Nano()).Milliseconds())
}

// Out of files the broker neither dies nor spins, those connected are served, and accepting
// resumes by itself.
func TestOutOfFiles(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), fewFiles+"=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatal("the process said nothing")
	}
	to := func() *peer {
		c, err := net.Dial("tcp", lines.Text())
		if err != nil {
			t.Fatal(err)
		}
		return &peer{t: t, c: c.(*net.TCPConn)}
	}
	first := to()
	first.send(connect(""))
	first.alive2()
	var crowd []*peer
	for range 200 {
		crowd = append(crowd, to())
	}
	first.alive()
	for _, p := range crowd {
		p.c.Close()
	}
	later := to()
	later.send(connect(""))
	later.alive2()
	first.alive()
	in.Close()
	if !lines.Scan() {
		t.Fatal("the process did not report")
	}
	var failed, cpu int
	if _, err := fmt.Sscan(lines.Text(), &failed, &cpu); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if failed == 0 || failed > 300 || cpu > 5000 {
		t.Errorf("accepting failed %d times, %d ms of CPU were used", failed, cpu)
	}
}

// alive2 is alive right behind a CONNECT.
func (p *peer) alive2() {
	p.t.Helper()
	p.send(ping())
	p.ok(1)
	p.ok(7)
}

// Idle connections cost little, and nothing is left of them.
func TestIdleConnections(t *testing.T) {
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		t.Fatal(err)
	}
	n := min(10_000, int(files.Cur-300)/2)
	if raceEnabled {
		n = min(n, 1000)
	}
	s, b := automatic(t, loop.Config{})
	session(t, s).alive() // what is allocated once is there
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	goroutines, before := runtime.NumGoroutine(), heap()
	fds := make([]int, n)
	addr := s.Addr().(*net.TCPAddr)
	sa := &unix.SockaddrInet4{Port: addr.Port, Addr: [4]byte(addr.IP.To4())}
	greet := connect("")
	for i := range fds { // plain sockets: they cost no heap on the test's side
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		fds[i] = fd
		if err := unix.Connect(fd, sa); err != nil {
			t.Fatal(err)
		}
		if _, err := unix.Write(fd, greet); err != nil {
			t.Fatal(err)
		}
	}
	var answer [64]byte
	for _, fd := range fds {
		if got, err := unix.Read(fd, answer[:]); err != nil || got != 10 {
			t.Fatalf("CONNECT was answered with %d bytes, %v", got, err)
		}
	}
	each := (int64(heap()) - int64(before)) / int64(n)
	t.Logf("%d idle connections: %d bytes of heap each, gnet's part included; %d goroutines more", n, each, runtime.NumGoroutine()-goroutines)
	if each > 2048 {
		t.Errorf("an idle connection costs %d bytes of heap", each)
	}
	if g := runtime.NumGoroutine(); g > goroutines+2 {
		t.Errorf("%d goroutines for %d connections", g-goroutines, n)
	}
	for i, fd := range fds {
		if i%2 == 0 { // by RST
			if err := unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}); err != nil {
				t.Fatal(err)
			}
		}
		if err := unix.Close(fd); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "all are closed", func() bool { return s.Stats().Connections == 1 })
	if left := int64(heap()) - int64(before); left > 512*int64(n) { // gnet's map of connections does not shrink
		t.Errorf("%d bytes are left of %d connections", left, n)
	}
	if g := runtime.NumGoroutine(); g > goroutines+2 {
		t.Errorf("%d goroutines are left", g-goroutines)
	}
	if st := s.Stats(); st.Closed["peer"] != uint64(n) {
		t.Errorf("closed: %v", st.Closed)
	}
	_ = b
}

func TestBadConfig(t *testing.T) {
	b := newBackend(t, 1)
	_, err := loop.Listen(loop.Config{Listen: "127.0.0.1:0", Reactors: -1, MaxConns: -1, PublishRate: -1, Limits: loop.Limits{Keepalive: -1}}, b)
	for _, name := range []string{"Reactors", "MaxConns", "PublishRate", "Keepalive"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s is not named: %v", name, err)
		}
	}
	s, _ := automatic(t, loop.Config{})
	if _, err := loop.Listen(loop.Config{Listen: s.Addr().String()}, b); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a second server on one address: %v", err)
	}
}
