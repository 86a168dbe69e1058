package cli

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mortarmq/mortarmq/config"
	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain lets this test binary be the program itself when it is called mortarmq, which is on the PATH while tests run.
func TestMain(m *testing.M) {
	if os.Getenv("GORACE") == "" { // by default the race detector has every process sleep for a second at its end
		if err := os.Setenv("GORACE", "atexit_sleep_ms=10"); err != nil {
			panic(err)
		}
	}
	testscript.Main(m, map[string]func(){
		"mortarmq": func() { os.Exit(Main(os.Args[1:])) },
	})
}

// TestScripts runs the scenarios in testdata. What they have beyond testscript's own commands:
//
//	broker start [FLAG...]   a broker of the script's own; MORTARMQ_SERVER and MORTARMQ_ADMIN lead to it
//	broker restart [FLAG...] the same again, at the same address
//	broker stop              SIGTERM; it must end with exit code 0
//	broker kill              SIGKILL
//	status N COMMAND...      the command must end with exit code N
//	into FILE COMMAND...     the command must succeed; its standard output goes to the file
//	lines N FILE             writes N lines "keyK text"
//	samelines WANT GOT...    the lines of all GOT together are those of WANT, in any order, each as often
//	keyorder WANT GOT        the lines that begin with the same word stand in the same order in both
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("GORACE", os.Getenv("GORACE"))
			env.Values[brokerKey{}] = &process{}
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"broker":    cmdBroker,
			"status":    cmdStatus,
			"into":      cmdInto,
			"lines":     cmdLines,
			"samelines": cmdSameLines,
			"keyorder":  cmdKeyOrder,
		},
	})
}

type brokerKey struct{}

// settingsOf returns the script's variables that are settings of serve.
func settingsOf(ts *testscript.TestScript) (env []string) {
	for _, k := range config.Keys() {
		if v := ts.Getenv(k.Env()); v != "" {
			env = append(env, k.Env()+"="+v)
		}
	}
	return env
}

func cmdBroker(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: broker start|restart|stop|kill [FLAG...]")
	}
	p := ts.Value(brokerKey{}).(*process)
	switch args[0] {
	case "start":
		ts.Defer(p.kill)
		ts.Check(p.start(ts.MkAbs("data"), args[1:], ts.MkAbs("."), settingsOf(ts)))
		ts.Setenv("MORTARMQ_SERVER", p.clients)
		ts.Setenv("MORTARMQ_ADMIN", p.admin)
	case "restart":
		p.kill()
		ts.Check(p.start(ts.MkAbs("data"), args[1:], ts.MkAbs("."), settingsOf(ts)))
	case "stop":
		ts.Check(p.stop())
	case "kill":
		p.kill()
	default:
		ts.Fatalf("broker %s is not known", args[0])
	}
}

// process is a broker in a process of its own.
type process struct {
	cmd     *exec.Cmd
	clients string
	admin   string
	log     bytes.Buffer // its standard error
	ended   chan error
}

// start starts the broker and waits until it says that it is ready. Started again it takes the ports it had. folder is where it runs, "" the test's own.
func (p *process) start(dir string, flags []string, folder string, env []string) error {
	args := []string{"serve", "--data-dir", dir, "--listen-client", orFree(p.clients), "--listen-admin", orFree(p.admin), "--disk-reserve-bytes", "0"}
	p.cmd = exec.Command("mortarmq", append(args, flags...)...)
	p.cmd.Stderr = &p.log
	p.cmd.Dir = folder
	p.cmd.Env = append(os.Environ(), env...)
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	line, readErr := bufio.NewReader(out).ReadString('\n')
	p.ended = make(chan error, 1)
	go func() {
		_, _ = io.Copy(io.Discard, out)
		p.ended <- p.cmd.Wait()
	}()
	p.clients, p.admin = field(line, "clients="), field(line, "admin=")
	if readErr != nil || p.clients == "" || p.admin == "" {
		p.kill()
		return fmt.Errorf("the broker did not get ready (%v): %q\n%s", readErr, line, p.log.String())
	}
	return nil
}

// stop ends the broker as an operator does.
func (p *process) stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case err := <-p.ended:
		p.cmd = nil
		if err != nil {
			return fmt.Errorf("the broker ended with %w:\n%s", err, p.log.String())
		}
		return nil
	case <-time.After(30 * time.Second):
		p.kill()
		return fmt.Errorf("the broker did not end within 30 s:\n%s", p.log.String())
	}
}

// kill ends the broker as a power cut does, if it runs.
func (p *process) kill() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill() // it may have ended already
	<-p.ended
	p.cmd = nil
}

func orFree(addr string) string {
	if addr == "" {
		return "127.0.0.1:0"
	}
	return addr
}

// field returns the word behind a name in a line: "7" for "b=" in "a=1 b=7 c".
func field(line, name string) string {
	_, rest, ok := strings.Cut(line, " "+name)
	if !ok {
		return ""
	}
	word, _, _ := strings.Cut(rest, " ")
	return strings.TrimSpace(word)
}

func cmdStatus(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N COMMAND...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// cmdInto keeps long output out of the script's log.
func cmdInto(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: into FILE COMMAND...")
	}
	var b bytes.Buffer
	cmd := exec.Command(args[1], args[2:]...)
	cmd.Env = append(os.Environ(), "MORTARMQ_SERVER="+ts.Getenv("MORTARMQ_SERVER"))
	cmd.Stdout, cmd.Stderr = &b, ts.Stderr()
	ts.Check(cmd.Run())
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), b.Bytes(), 0o644))
}

func cmdLines(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	var b bytes.Buffer
	for i := range n {
		fmt.Fprintf(&b, "key%d line %d\n", i%37, i+1)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), b.Bytes(), 0o644))
}

func cmdSameLines(ts *testscript.TestScript, _ bool, args []string) {
	want := strings.Split(ts.ReadFile(args[0]), "\n")
	var got []string
	for _, name := range args[1:] {
		got = append(got, strings.Split(strings.TrimSuffix(ts.ReadFile(name), "\n"), "\n")...)
	}
	if want[len(want)-1] == "" {
		want = want[:len(want)-1]
	}
	got = slices.DeleteFunc(got, func(s string) bool { return s == "" })
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(want, got) {
		ts.Fatalf("%d lines, want %d; first difference: %s", len(got), len(want), firstDifference(got, want))
	}
}

func firstDifference(got, want []string) string {
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			return fmt.Sprintf("%q, want %q", got[i], want[i])
		}
	}
	return "one is longer"
}

func cmdKeyOrder(ts *testscript.TestScript, _ bool, args []string) {
	byKey := func(name string) map[string][]string {
		out := map[string][]string{}
		for line := range strings.Lines(ts.ReadFile(name)) {
			key, _, _ := strings.Cut(line, " ")
			out[key] = append(out[key], line)
		}
		return out
	}
	want, got := byKey(args[0]), byKey(args[1])
	for key, lines := range want {
		if !slices.Equal(lines, got[key]) {
			ts.Fatalf("%s: %d lines, want %d: %s", key, len(got[key]), len(lines), firstDifference(got[key], lines))
		}
	}
}
