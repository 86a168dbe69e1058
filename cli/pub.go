package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mortarmq/mortarmq/client"
	"github.com/mortarmq/mortarmq/codec"
	"github.com/spf13/cobra"
)

const (
	// pubTimeout is how long a line is tried without an answer.
	pubTimeout = time.Minute
	// pubPatience is how long a broker is waited for that is not there at the start, when nothing else was said: it may be starting.
	pubPatience = 5 * time.Second
	// pubDrain is how long lines on their way may still be answered after pub was told to stop, or had to.
	pubDrain = 5 * time.Second
	// pubComplaints is how many lines that failed are named one by one.
	pubComplaints = 10
)

// errPubStopped is why lines are no longer sent after the first refusal: it is not a failure of theirs.
var errPubStopped = errors.New("pub: stopped")

// pubFlags is what was asked for.
type pubFlags struct {
	target  *target
	file    string
	keySep  string
	id      uint64
	timeout time.Duration
	patient bool // --timeout was given: it counts for the first connection too
}

func (a *app) pubCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pub TOPIC",
		Short: "Publish lines",
		Long: `Publish one message per line of standard input or of --file, until its end.
Only a line feed ends a line; an empty line is an empty message; the last line
needs no line feed. A value may have up to 16,776,192 bytes, a key 255: a
longer one fails, its line is named, and the others go on.

With --key-sep the text in front of its first occurrence in a line is the
message's key and the text behind it the value; a line without it has no key.
Messages with the same key go to the same partition and keep their order.
Lines without key go to the partitions in turn, by line number.

A lost connection is made again and what was not answered is sent again,
without storing anything twice. With --producer-id the lines of each partition
are numbered in input order for good: a run that broke off can be started
again from the beginning with the same id, the same input and the same
separator, and stores only what is missing. Use an id for one input only, and
never in two runs at the same time.

At the end one line on standard error tells how many lines were stored, were
repeats of stored ones, and failed. The exit code is 4 when any failed.`,
		Example: `  mortarmq pub demo --file lines.txt --key-sep ' '
  tail -F app.log | mortarmq pub logs
  mortarmq pub orders --file orders.csv --key-sep , --producer-id 20260930`,
		Args: cobra.ExactArgs(1),
	}
	f := &pubFlags{target: addTarget(cmd)}
	flags := cmd.Flags()
	flags.StringVar(&f.file, "file", "", "read lines from `FILE` instead of standard input")
	flags.StringVar(&f.keySep, "key-sep", "", "`TEXT` between key and value; a tab is $'\\t' in most shells")
	flags.Uint64Var(&f.id, "producer-id", 0, "`ID` of this input, 1 to 18446744073709551615, to make the run repeatable")
	flags.DurationVar(&f.timeout, "timeout", pubTimeout, "give up after `D` without progress")
	cmd.RunE = runner(func(cmd *cobra.Command, args []string) error {
		switch {
		case flags.Changed("producer-id") && f.id == 0:
			return usagef("--producer-id 0: allowed is 1 to 18446744073709551615; 0 means no numbers at all")
		case flags.Changed("key-sep") && f.keySep == "":
			return usagef("--key-sep is empty: allowed is any text; leave it out when lines have no key")
		case f.timeout <= 0:
			return usagef("--timeout %v: allowed is a positive duration such as 30s or 10m", f.timeout)
		}
		f.patient = flags.Changed("timeout")
		return a.pub(f, args[0])
	})
	return cmd
}

// pub publishes the whole input and tells what became of it.
func (a *app) pub(f *pubFlags, topic string) error {
	input, name := a.in, "standard input"
	if f.file != "" {
		file, err := os.Open(f.file)
		if err != nil {
			return usagef("--file: %w", err)
		}
		defer file.Close()
		input, name = file, f.file
	}
	interrupt, stop := a.untilSignal()
	defer stop()
	c, err := f.connect(interrupt, a)
	if err != nil {
		return err
	}
	defer c.Close()
	p, err := c.NewProducer(interrupt, topic, client.ProducerOptions{ProducerID: codec.ProducerID(f.id), RetryTimeout: f.timeout})
	if err != nil {
		return err
	}
	r := newPubRun(interrupt, p, f)
	defer r.cancel(nil)
	prog := startProgress(a.err, r.progress)
	err = r.run(input, name)
	prog.end()
	return a.pubSummary(r, err, interrupt.Err() != nil)
}

// connect makes the first connection. It has a little patience with a broker
// that is being started, or as much as --timeout says.
func (f *pubFlags) connect(ctx context.Context, a *app) (*client.Client, error) {
	patience := pubPatience
	if f.patient {
		patience = f.timeout
	}
	deadline := time.Now().Add(patience)
	for first := true; ; first = false {
		c, err := f.target.dial(ctx, a)
		if err == nil || exitCode(err) != exitUnreachable || time.Now().After(deadline) {
			return c, err
		}
		if first {
			fmt.Fprintf(a.err, "note: no broker answers yet; trying for %v\n", patience)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(min(100*time.Millisecond, patience)):
		}
	}
}

// pubSummary prints the complaints and the final line, and picks the exit code.
func (a *app) pubSummary(r *pubRun, err error, interrupted bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, complaint := range r.complaints {
		fmt.Fprintf(a.err, "error: %s\n", complaint)
	}
	switch {
	case errors.Is(r.first, client.ErrRetryTimeout) && client.CodeOf(r.first) == 0:
		fmt.Fprintf(a.err, "error: gave up after %v without an answer: %s; with --producer-id the run can be started again from its beginning\n", r.timeout, errorText(bare(r.first)))
	case r.first != nil:
		fmt.Fprintf(a.err, "error: %s\n", errorText(r.first))
	}
	if err != nil {
		printError(a.err, err)
	}
	failed := r.failed.Load()
	fmt.Fprintf(a.err, "stored %d, repeats %d, failed %d\n", r.stored.Load(), r.repeats.Load(), failed)
	switch {
	case failed > 0:
		return &silentError{refusedf("%d lines failed", failed)}
	case err != nil:
		return &silentError{err}
	case interrupted:
		return &silentError{context.Canceled}
	default:
		return nil
	}
}

// pubRun is one run from the first line to the last answer.
type pubRun struct {
	producer   *client.Producer
	partitions []codec.Partition // 0, 1, 2 ...: messages point into it
	keySep     []byte
	timeout    time.Duration

	ctx    context.Context // ends when no further line is to be sent
	cancel context.CancelCauseFunc
	begin  time.Time

	read, stored, repeats, failed atomic.Uint64

	mu         sync.Mutex
	complaints []string // lines that could not be sent, the first few
	first      error    // what the broker, or the lack of one, did to the first line that failed on its way
}

func newPubRun(interrupt context.Context, p *client.Producer, f *pubFlags) *pubRun {
	r := &pubRun{producer: p, partitions: make([]codec.Partition, p.Topic().Partitions), keySep: []byte(f.keySep), timeout: f.timeout, begin: time.Now()}
	for i := range r.partitions {
		r.partitions[i] = codec.Partition(i)
	}
	r.ctx, r.cancel = context.WithCancelCause(interrupt)
	return r
}

// run sends every line and waits for the answers. The error is about reading the input; what became of the lines is in r.
func (r *pubRun) run(input io.Reader, name string) error {
	ended := make(chan error, 1)
	go func() { ended <- r.sendAll(input, name) }() // reading may block for ever; a signal does not wait for it
	var readErr error
	select {
	case readErr = <-ended:
	case <-r.ctx.Done():
	}
	// While lines are sent as usual their answers have all the time they need. After a stop they have little.
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-r.ctx.Done():
		case <-ctx.Done():
			return
		}
		select {
		case <-time.After(pubDrain):
			cancel()
		case <-ctx.Done():
		}
	}()
	if err := r.producer.Close(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return readErr
}

// sendAll reads lines and hands them to the producer until the input or r.ctx ends.
func (r *pubRun) sendAll(input io.Reader, name string) error {
	longest := codec.MaxValueLen
	if len(r.keySep) > 0 {
		longest += codec.MaxKeyLen + len(r.keySep)
	}
	lines := newLineReader(input, longest)
	for {
		text, length, err := lines.next()
		if r.ctx.Err() != nil || errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return refusedf("reading %s behind line %d: %w", name, lines.number, err)
		}
		r.read.Add(1)
		key, value := r.split(text)
		switch {
		case length > int64(longest):
			r.refuse(lines.number, "the line has %d bytes; at most %d fit into a value", length, codec.MaxValueLen)
		case len(key) > codec.MaxKeyLen:
			r.refuse(lines.number, "the key has %d bytes; at most %d are allowed", len(key), codec.MaxKeyLen)
		case len(value) > codec.MaxValueLen:
			r.refuse(lines.number, "the value has %d bytes; at most %d are allowed", len(value), codec.MaxValueLen)
		default:
			r.send(lines.number, key, value)
		}
	}
}

// split cuts a line into key and value, views of it.
func (r *pubRun) split(text []byte) (key, value []byte) {
	if len(r.keySep) > 0 {
		if key, value, found := bytes.Cut(text, r.keySep); found {
			return key, value
		}
	}
	return nil, text
}

// send hands one line over. Both its partition and its number follow from the input alone, so that a second run gives it the same.
func (r *pubRun) send(number uint64, key, value []byte) {
	own := make([]byte, 0, len(key)+len(value)) // the producer keeps it until the answer
	own = append(append(own, key...), value...)
	m := client.Message{Key: own[:len(key):len(key)], Value: own[len(key):], Tag: number}
	if len(key) == 0 {
		m.Partition = &r.partitions[(number-1)%uint64(len(r.partitions))]
	}
	r.producer.PublishAsync(r.ctx, m, r.answered)
}

// answered counts what became of a line. The first one that failed stops the run: with numbers of its own
// nothing behind it could be stored anyway, and a reason that holds for one line holds for the next million.
func (r *pubRun) answered(receipt client.Receipt, err error) {
	switch {
	case err == nil && !receipt.Duplicate:
		r.stored.Add(1)
	case err == nil, errors.Is(err, client.ErrRepeat):
		r.repeats.Add(1)
	case errors.Is(err, errPubStopped), errors.Is(err, context.Canceled): // never sent
	default:
		r.failed.Add(1)
		r.mu.Lock()
		if r.first == nil || client.CodeOf(r.first) == codec.CodeSeqGap && client.CodeOf(err) != codec.CodeSeqGap {
			r.first = err
		}
		r.mu.Unlock()
		r.cancel(errPubStopped)
	}
}

// refuse counts a line that no frame can carry.
func (r *pubRun) refuse(number uint64, format string, args ...any) {
	if n := r.failed.Add(1); n > pubComplaints {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.complaints = append(r.complaints, fmt.Sprintf("line %d: ", number)+fmt.Sprintf(format, args...))
}

// progress is the state in one line.
func (r *pubRun) progress() string {
	stored, repeats := r.stored.Load(), r.repeats.Load()
	var b strings.Builder
	fmt.Fprintf(&b, "%d lines read, %d stored", r.read.Load(), stored)
	if repeats > 0 {
		fmt.Fprintf(&b, ", %d repeats", repeats)
	}
	if failed := r.failed.Load(); failed > 0 {
		fmt.Fprintf(&b, ", %d failed", failed)
	}
	fmt.Fprintf(&b, ", %.0f/s", float64(stored+repeats)/time.Since(r.begin).Seconds())
	return b.String()
}
