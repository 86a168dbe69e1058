package cli

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// startTestBroker starts a broker of the test's own. It is killed when the test ends.
func startTestBroker(t *testing.T, flags ...string) (*process, string) {
	t.Helper()
	p, dir := &process{}, filepath.Join(t.TempDir(), "data")
	t.Cleanup(p.kill)
	if err := p.start(dir, flags, "", nil); err != nil {
		t.Fatal(err)
	}
	return p, dir
}

// patience is how long a command may take: far longer than it needs, far shorter than the test's own limit.
const patience = time.Minute

// command prepares a mortarmq command against a broker. Its standard error is kept. One that hangs is made to show its goroutines.
func (p *process) command(t *testing.T, args ...string) (*exec.Cmd, *bytes.Buffer) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, "mortarmq", args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGQUIT) }
	cmd.WaitDelay = 5 * time.Second
	cmd.Env = append(os.Environ(), "MORTARMQ_SERVER="+p.clients, "MORTARMQ_ADMIN="+p.admin)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	return cmd, &complaints
}

// run runs a command to its end, which must be exit code 0, and returns its standard output.
func (p *process) run(t *testing.T, args ...string) string {
	t.Helper()
	cmd, complaints := p.command(t, args...)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("mortarmq %s: %v\n%s\nbroker:\n%s", strings.Join(args, " "), err, complaints, p.log.String())
	}
	return string(out)
}

// numbered returns the lines first to last, "keyK line N".
func numbered(first, last int) string {
	var b strings.Builder
	for i := first; i <= last; i++ {
		fmt.Fprintf(&b, "key%d line %d\n", i%37, i)
	}
	return b.String()
}

// checkStored consumes a topic as a new group and checks that it holds exactly these lines: each once, each key in order, and in each partition the
// sequences from 1 on without a hole.
func checkStored(t *testing.T, p *process, topic, want string) {
	t.Helper()
	out := p.run(t, "sub", topic, "--group", "judge", "--idle", "1s", "--format", `%p %s %k %v\n`)
	next := map[string]uint64{}
	byKey := map[string][]string{}
	lines := 0
	for line := range strings.Lines(out) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 4)
		seq, err := strconv.ParseUint(f[1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if next[f[0]]++; seq != next[f[0]] {
			t.Fatalf("partition %s: sequence %d where %d was due", f[0], seq, next[f[0]])
		}
		byKey[f[2]] = append(byKey[f[2]], f[3])
		lines++
	}
	wantByKey := map[string][]string{}
	for line := range strings.Lines(want) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		wantByKey[key] = append(wantByKey[key], value)
	}
	if n := strings.Count(want, "\n"); lines != n {
		t.Errorf("%d messages are stored, %d lines were sent", lines, n)
	}
	for key, values := range wantByKey {
		if !slices.Equal(values, byKey[key]) {
			t.Errorf("%s: %d messages, want %d: %s", key, len(byKey[key]), len(values), firstDifference(byKey[key], values))
		}
	}
}

func TestPubSurvivesABrokerThatIsKilledTenTimes(t *testing.T) {
	const rounds, perRound = 10, 5000
	for _, id := range []string{"", "--producer-id=99"} {
		t.Run("numbers"+id, func(t *testing.T) {
			p, dir := startTestBroker(t)
			p.run(t, "topics", "create", "demo", "--partitions", "4")
			args := []string{"pub", "demo", "--key-sep", " "}
			if id != "" {
				args = append(args, id)
			}
			pub, complaints := p.command(t, args...)
			in, err := pub.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := pub.Start(); err != nil {
				t.Fatal(err)
			}
			for i := range rounds {
				// The pipe holds less than a round: when the write returns pub is at work on it.
				if _, err := io.WriteString(in, numbered(i*perRound+1, (i+1)*perRound)); err != nil {
					t.Fatalf("round %d: pub is gone: %v\n%s", i, err, complaints)
				}
				p.kill()
				if err := p.start(dir, nil, "", nil); err != nil {
					t.Fatal(err)
				}
			}
			if err := in.Close(); err != nil {
				t.Fatal(err)
			}
			if err := pub.Wait(); err != nil {
				t.Fatalf("pub: %v\n%s\nbroker:\n%s", err, complaints, p.log.String())
			}
			var stored, repeats, failed int
			summary := complaints.String()[strings.LastIndex(strings.TrimSpace(complaints.String()), "\n")+1:]
			if _, err := fmt.Sscanf(summary, "stored %d, repeats %d, failed %d", &stored, &repeats, &failed); err != nil || stored+repeats != rounds*perRound || failed != 0 {
				t.Errorf("summary %q (%v)", summary, err)
			}
			checkStored(t, p, "demo", numbered(1, rounds*perRound))
		})
	}
}

func TestAPubThatWasKilledCanBeStartedAgainFromTheBeginning(t *testing.T) {
	const lines = 20000
	p, _ := startTestBroker(t)
	p.run(t, "topics", "create", "demo", "--partitions", "3")
	path := filepath.Join(t.TempDir(), "in")
	if err := os.WriteFile(path, []byte(numbered(1, lines)), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, share := range []int{lines / 10, lines / 2, lines} { // each killed run got a little further
		pub, complaints := p.command(t, "pub", "demo", "--key-sep", " ", "--producer-id", "5")
		in, err := pub.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := pub.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(in, numbered(1, share)); err != nil {
			t.Fatalf("%v\n%s", err, complaints)
		}
		if err := pub.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := pub.Wait(); err == nil {
			t.Error("a killed pub ended with exit code 0")
		}
	}
	p.run(t, "pub", "demo", "--key-sep", " ", "--producer-id", "5", "--file", path)
	checkStored(t, p, "demo", numbered(1, lines))
}

func TestPubGivesUpWhenTheBrokerStaysAway(t *testing.T) {
	p, _ := startTestBroker(t)
	p.run(t, "topics", "create", "demo")
	pub, complaints := p.command(t, "pub", "demo", "--timeout", "1s")
	in, err := pub.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := pub.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(in, "one\n"); err != nil {
		t.Fatal(err)
	}
	for !strings.Contains(p.run(t, "topics", "list"), "\tdemo\t4\t1\t") { // stored: pub has its connection
	}
	p.kill()
	if _, err := io.WriteString(in, "two\nthree\n"); err != nil {
		t.Fatal(err)
	}
	// The input stays open: giving up must not wait for it.
	err = pub.Wait()
	if code := pub.ProcessState.ExitCode(); code != exitRefused {
		t.Errorf("%v\n%s", err, complaints)
	}
	if text := complaints.String(); !strings.Contains(text, "error: gave up after 1s without an answer: ") || !strings.HasSuffix(text, "stored 1, repeats 0, failed 2\n") {
		t.Errorf("it said:\n%s", text)
	}
}

func TestPubWaitsForABrokerThatIsBeingStarted(t *testing.T) {
	p, dir := startTestBroker(t)
	p.run(t, "topics", "create", "demo")
	p.kill()
	pub, _ := p.command(t, "pub", "demo")
	pub.Stdin = strings.NewReader("one\n")
	pub.Stderr = nil
	complaints, err := pub.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := pub.Start(); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(complaints)
	note, err := r.ReadString('\n')
	if note != "note: no broker answers yet; trying for 5s\n" {
		t.Errorf("it said %q, %v", note, err)
	}
	if err := p.start(dir, nil, "", nil); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(r)
	if err != nil || string(rest) != "stored 1, repeats 0, failed 0\n" {
		t.Errorf("it said %q, %v", rest, err)
	}
	if err := pub.Wait(); err != nil {
		t.Error(err)
	}
}

func TestAnInterruptedPubSaysHowFarItCame(t *testing.T) {
	p, _ := startTestBroker(t)
	p.run(t, "topics", "create", "demo")
	pub, complaints := p.command(t, "pub", "demo")
	in, err := pub.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := pub.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(in, "one\ntwo\nunfinished"); err != nil {
		t.Fatal(err)
	}
	for !strings.Contains(p.run(t, "topics", "list"), "\tdemo\t4\t2\t") {
	}
	if err := pub.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	err = pub.Wait()
	if code := pub.ProcessState.ExitCode(); code != exitInterrupted || !strings.HasSuffix(complaints.String(), "stored 2, repeats 0, failed 0\n") || strings.Contains(complaints.String(), "error") {
		t.Errorf("%v\n%s", err, complaints)
	}
}

func TestALineTooLongFailsAloneAndIsNamed(t *testing.T) {
	p, _ := startTestBroker(t)
	p.run(t, "topics", "create", "demo", "--partitions", "1")
	pub, complaints := p.command(t, "pub", "demo", "--key-sep", "=")
	largest := strings.Repeat("v", 16776192)
	pub.Stdin = strings.NewReader("a=1\n" + largest + "x\n" + strings.Repeat("k", 256) + "=2\n" +
		strings.Repeat("k", 255) + "=" + largest + "\nb=" + largest + "y\n" + strings.Repeat("z", 40<<20) + "\nc=3")
	err := pub.Run()
	want := "error: line 2: the value has 16776193 bytes; at most 16776192 are allowed\n" +
		"error: line 3: the key has 256 bytes; at most 255 are allowed\n" +
		"error: line 5: the value has 16776193 bytes; at most 16776192 are allowed\n" +
		"error: line 6: the line has 41943040 bytes; at most 16776192 fit into a value\n" +
		"stored 3, repeats 0, failed 4\n"
	if code := pub.ProcessState.ExitCode(); code != exitRefused || complaints.String() != want {
		t.Errorf("%v\n%s", err, complaints)
	}
	out := p.run(t, "sub", "demo", "--group", "g", "-n", "3")
	if out != "1\n"+largest+"\n3\n" {
		t.Errorf("%d bytes came out", len(out))
	}
}

// A consumer that is interrupted leaves: what it had is handed to the next at once, without a failed attempt.
func TestAnInterruptedSubLeavesItsGroup(t *testing.T) {
	p, _ := startTestBroker(t, "--delivery-lease-ms", "60000")
	p.run(t, "topics", "create", "demo", "--partitions", "2")
	pub, complaints := p.command(t, "pub", "demo")
	pub.Stdin = strings.NewReader(numbered(1, 500))
	if err := pub.Run(); err != nil {
		t.Fatalf("%v\n%s", err, complaints)
	}
	sub, complaints := p.command(t, "sub", "demo", "--group", "g", "--no-ack")
	out, err := sub.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := sub.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 1000)); err != nil {
		t.Fatalf("%v\n%s", err, complaints)
	}
	if err := sub.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, out); err != nil {
		t.Fatal(err)
	}
	if err := sub.Wait(); err != nil {
		t.Errorf("%v\n%s", err, complaints)
	}
	begin := time.Now()
	got := p.run(t, "sub", "demo", "--group", "g", "-n", "500", "--format", `%a\n`)
	if got != strings.Repeat("1\n", 500) {
		t.Errorf("attempts were counted: %q...", got[:min(len(got), 100)])
	}
	if d := time.Since(begin); d > 20*time.Second {
		t.Errorf("the next member got everything after %v only: the first did not leave", d)
	}
}

// Whoever closes the pipe has seen what is acknowledged, and nothing else is.
func TestASubWithoutAReaderAcknowledgesNothingMore(t *testing.T) {
	p, _ := startTestBroker(t)
	p.run(t, "topics", "create", "demo", "--partitions", "1")
	want := numbered(1, 20000)
	pub, complaints := p.command(t, "pub", "demo")
	pub.Stdin = strings.NewReader(want)
	if err := pub.Run(); err != nil {
		t.Fatalf("%v\n%s", err, complaints)
	}
	sub, complaints := p.command(t, "sub", "demo", "--group", "g")
	out, err := sub.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := sub.Start(); err != nil {
		t.Fatal(err)
	}
	head := make([]byte, 100)
	if _, err := io.ReadFull(out, head); err != nil {
		t.Fatalf("%v\n%s", err, complaints)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	pub, complaints = p.command(t, "pub", "demo") // something to write for a sub that may be idle
	pub.Stdin = strings.NewReader("more\n")
	if err := pub.Run(); err != nil {
		t.Fatalf("%v\n%s", err, complaints)
	}
	if err := sub.Wait(); err != nil {
		t.Errorf("%v (signal %v)", err, sub.ProcessState.Sys().(syscall.WaitStatus).Signal())
	}
	rest := p.run(t, "sub", "demo", "--group", "g", "--idle", "1s")
	// Messages that were handed back may come behind later ones: compare as sets.
	all, left := strings.SplitAfter(want+"more\n", "\n"), strings.SplitAfter(rest, "\n")
	end := slices.Clone(all[len(all)-len(left):])
	slices.Sort(end)
	slices.Sort(left)
	if !slices.Equal(end, left) {
		t.Errorf("what is left is not the end of what was sent: %s", firstDifference(left, end))
	}
	if seen := len(want) + len("more\n") - len(rest); seen > 64<<10+len(head) {
		t.Errorf("%d bytes are acknowledged, a pipe's worth was written", seen)
	}
}
