package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/mortarmq/mortarmq/client"
	"github.com/mortarmq/mortarmq/codec"
	"github.com/spf13/cobra"
)

const (
	// subCount and subBytes are the credit window: what may be on its way to standard output and not acknowledged.
	subCount = 1024
	subBytes = 4 << 20
	// noAckCount and noAckBytes are the window of --no-ack, which is all that it can show.
	noAckCount = 65535
	noAckBytes = 256 << 20
	// subLost is how long --idle waits for a lost membership at most.
	subLost = time.Minute
)

// subFlags is what was asked for.
type subFlags struct {
	target *target
	group  string
	from   string
	format string
	n      int64
	idle   time.Duration
	noAck  bool
}

func (a *app) subCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sub TOPIC",
		Short: "Consume messages",
		Long: `Consume a topic as a member of a group and write each message to standard
output. A message is acknowledged once its bytes are written. The members of a
group share the partitions; each message goes to one of them. A message that
is not acknowledged comes again: after a crash some may be written twice, none
is lost.

Ends after -n messages, after --idle without one, at a signal, or when nobody
reads its output any more; it then leaves the group, and what was not written
goes to the others at once. A lost connection is made again.

--format says what is written of a message: %t topic, %p partition, %s
sequence, %k key, %v value, %a attempt (1 at first), %% a percent sign, and \t
\n \r \0 \\.

The topic NAME.dlq holds the messages of NAME that failed all their attempts.`,
		Example: `  mortarmq sub demo --group readers
  mortarmq sub demo --group export --idle 2s --format '%k\t%v\n' > demo.tsv
  mortarmq sub demo --group peek --no-ack -n 10`,
		Args: cobra.ExactArgs(1),
	}
	f := &subFlags{target: addTarget(cmd)}
	flags := cmd.Flags()
	flags.StringVar(&f.group, "group", "", "`NAME` of the group; it is made when it is new")
	flags.StringVar(&f.from, "from", "earliest", "where a new group begins: `earliest|latest`")
	flags.StringVar(&f.format, "format", `%v\n`, "`TEXT` to write for each message")
	flags.Int64VarP(&f.n, "max-messages", "n", 0, "end after `N` messages; 0: no limit")
	flags.DurationVar(&f.idle, "idle", 0, "end after `D` without a message; 0: never")
	flags.BoolVar(&f.noAck, "no-ack", false, "acknowledge nothing: everything is handed back at the end, at most 65,535 messages are shown")
	cobra.CheckErr(cmd.MarkFlagRequired("group"))
	cmd.RunE = runner(func(_ *cobra.Command, args []string) error {
		format, err := parseFormat(f.format)
		switch {
		case err != nil:
			return err
		case f.from != "earliest" && f.from != "latest":
			return usagef("--from %q: allowed is earliest or latest", f.from)
		case f.n < 0:
			return usagef("-n %d: allowed is a number of messages, or 0 for no limit", f.n)
		case f.idle < 0:
			return usagef("--idle %v: allowed is a positive duration such as 2s, or 0 for never", f.idle)
		}
		return a.sub(f, args[0], format)
	})
	return cmd
}

// sub consumes until there is a reason to end.
func (a *app) sub(f *subFlags, topic string, format lineFormat) error {
	signal.Ignore(syscall.SIGPIPE) // a closed pipe is told by the write, and ends in order
	interrupt, stop := a.untilSignal()
	defer stop()
	c, err := f.target.dial(interrupt, a)
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithCancel(interrupt)
	defer cancel()
	r := &subRun{out: a.out, complain: a.err, format: format, left: f.n, end: cancel, seen: time.Now()}
	r.consumer, err = c.NewConsumer(ctx, f.options(topic, r.rebalanced))
	if err != nil {
		return err
	}
	if f.idle > 0 {
		go r.watch(ctx, f.idle)
	}
	err = r.consumer.Run(ctx, r.handle)
	if late := r.consumer.Stats().Refused; late > 0 {
		fmt.Fprintf(a.err, "note: %d acknowledgements came too late; these messages come again\n", late)
	}
	switch {
	case errors.Is(r.failed, syscall.EPIPE):
		return nil // whoever read has seen enough
	case r.failed != nil:
		return refusedf("standard output: %w; what was not written is not acknowledged", r.failed)
	default:
		return err
	}
}

func (f *subFlags) options(topic string, rebalanced func(client.Rebalance)) client.ConsumerOptions {
	o := client.ConsumerOptions{
		Topic: topic, Group: f.group, NoAck: f.noAck, OnRebalance: rebalanced,
		CreditCount: subCount, CreditBytes: subBytes,
	}
	if source, twin := strings.CutSuffix(topic, codec.TwinSuffix); twin {
		o.Topic, o.DeadLetter = source, true
	}
	if f.from == "latest" {
		o.Start = client.Latest
	}
	if f.noAck {
		o.CreditCount, o.CreditBytes = noAckCount, noAckBytes
	}
	if f.n > 0 { // what lies beyond is left to the other members
		o.CreditCount = int(min(int64(o.CreditCount), f.n))
	}
	return o
}

// subRun is one run of sub.
type subRun struct {
	consumer *client.Consumer
	out      io.Writer
	complain io.Writer
	format   lineFormat
	end      func()

	// Touched by the handler only, and read when Run has returned.
	buf    []byte
	left   int64 // messages to go; below 1 from the start: no limit
	ended  bool  // what is still handed out goes back
	failed error // of standard output

	mu    sync.Mutex
	busy  bool      // a message is being written
	seen  time.Time // when there was a message, or reason to expect one
	lost  time.Time // since when the membership is lost; zero: it is not
	joins uint64    // memberships before the one that was lost
}

// errSubEnded hands a message back that came after the last one that was wanted.
var errSubEnded = errors.New("sub: ended")

// handle writes one message. It is acknowledged when handle returns without
// an error, so there is one write for each: nothing waits in a buffer that a crash would lose.
func (r *subRun) handle(_ context.Context, d *client.Delivery) error {
	if r.ended {
		return client.Release(errSubEnded)
	}
	r.writing(true)
	defer r.writing(false)
	rec := record{
		topic: d.Topic, partition: uint16(d.Partition), sequence: uint64(d.Sequence),
		attempt: uint16(d.Attempt), key: d.Key, value: d.Value,
	}
	r.buf = r.format.append(r.buf[:0], &rec)
	if _, err := r.out.Write(r.buf); err != nil {
		r.failed, r.ended = err, true
		r.end()
		return client.Release(err)
	}
	if r.left--; r.left == 0 {
		r.ended = true
		r.end()
	}
	return nil
}

// writing notes when a message begins and ends to be written.
func (r *subRun) writing(now bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.busy, r.seen, r.lost = now, time.Now(), time.Time{}
}

// rebalanced notes that partitions come and go: only a member that could get messages can be idle.
func (r *subRun) rebalanced(e client.Rebalance) {
	stats := r.consumer.Stats()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = time.Now()
	switch {
	case e.Assigned:
		r.lost = time.Time{}
	case e.Lost && r.lost.IsZero():
		r.lost, r.joins = r.seen, stats.Joins
		fmt.Fprintln(r.complain, "note: the membership is lost; joining the group again")
	}
}

// watch ends the run after d without a message. The time counts from joining, not while there is no broker to send one.
func (r *subRun) watch(ctx context.Context, d time.Duration) {
	ticker := time.NewTicker(max(d/20, time.Millisecond))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		joins := r.consumer.Stats().Joins
		r.mu.Lock()
		now := time.Now()
		away := joins == 0 || !r.lost.IsZero() && joins <= r.joins && now.Sub(r.lost) < subLost
		if away || r.busy {
			r.seen = now
		}
		idle := now.Sub(r.seen) >= d
		r.mu.Unlock()
		if idle {
			r.end()
			return
		}
	}
}
