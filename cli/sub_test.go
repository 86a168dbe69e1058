package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/mortarmq/mortarmq/client"
	"github.com/mortarmq/mortarmq/codec"
	"github.com/mortarmq/mortarmq/config"
)

// brokenPipe takes n bytes and then fails as a pipe without a reader does.
type brokenPipe struct{ n int }

func (w *brokenPipe) Write(p []byte) (int, error) {
	if len(p) > w.n {
		return w.n, syscall.EPIPE
	}
	w.n -= len(p)
	return len(p), nil
}

func newSubRun(t *testing.T, w io.Writer, n int64) (r *subRun, ended *bool) {
	format, err := parseFormat(`%v\n`)
	if err != nil {
		t.Fatal(err)
	}
	ended = new(bool)
	return &subRun{out: w, format: format, left: n, end: func() { *ended = true }}, ended
}

func delivery(value string) *client.Delivery { return &client.Delivery{Value: []byte(value)} }

func TestNoMoreThanNMessagesAreTaken(t *testing.T) {
	var out bytes.Buffer
	r, ended := newSubRun(t, &out, 2)
	ctx := context.Background()
	if r.handle(ctx, delivery("a")) != nil || *ended || r.handle(ctx, delivery("b")) != nil || !*ended {
		t.Fatal("the first two are not taken, or the second is not the last")
	}
	// What was handed out before the end was noticed goes back without a failed attempt.
	if err := r.handle(ctx, delivery("c")); !errors.Is(err, client.ErrRelease) {
		t.Errorf("the third: %v", err)
	}
	if out.String() != "a\nb\n" {
		t.Errorf("written: %q", out.String())
	}
}

func TestWhatCannotBeWrittenGoesBack(t *testing.T) {
	r, ended := newSubRun(t, &brokenPipe{n: 3}, 0)
	ctx := context.Background()
	if err := r.handle(ctx, delivery("a")); err != nil || *ended {
		t.Fatalf("%v, ended %v", err, *ended)
	}
	for range 2 { // half of the second fits: half is nothing
		if err := r.handle(ctx, delivery("b")); !errors.Is(err, client.ErrRelease) || !*ended || !errors.Is(r.failed, syscall.EPIPE) {
			t.Errorf("%v, ended %v, failed %v", err, *ended, r.failed)
		}
	}
}

func TestExitCodes(t *testing.T) {
	refusal := &client.Error{Op: codec.OpPub, Code: codec.CodeUnknownTopic, Message: "there is none", Server: "h:1"}
	dial := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	for _, c := range []struct {
		err  error
		code int
		text string
	}{
		{usagef("bad %d", 1), 2, "error: bad 1\n"},
		{unreachablef("gone: %w", bare(dial)), 3, "error: gone: connection refused\n"},
		{errors.Join(client.ErrUnreachable, dial), 3, "error: no server could be reached; dial: connection refused\n"},
		{refusal, 4, "error: UNKNOWN_TOPIC (0x0008): there is none\n"},
		{errors.Join(client.ErrRetryTimeout, refusal), 4, "error: UNKNOWN_TOPIC (0x0008): there is none\n"},
		{&codec.Error{Code: codec.CodeInvalidTopic, Message: "no"}, 4, "error: INVALID_TOPIC (0x000B): no\n"},
		{context.Canceled, 130, "error: context canceled\n"},
		{io.ErrShortWrite, 4, "error: short write\n"},
		{&exitError{exitUsage, errors.Join(&config.Fault{Problem: "one"}, &config.Fault{Problem: "two"})}, 2, "error: one\nerror: two\n"},
	} {
		var b strings.Builder
		printError(&b, c.err)
		if code := exitCode(c.err); code != c.code || b.String() != c.text {
			t.Errorf("%v: exit code %d, want %d; %q", c.err, code, c.code, b.String())
		}
	}
}

func TestRunsAreCountedByWhatBecameOfTheirLines(t *testing.T) {
	r := &pubRun{}
	r.ctx, r.cancel = context.WithCancelCause(context.Background())
	gap := &client.Error{Code: codec.CodeSeqGap}
	full := &client.Error{Code: codec.CodeStorageHighWatermark}
	r.answered(client.Receipt{}, nil)
	r.answered(client.Receipt{Duplicate: true}, nil)
	r.answered(client.Receipt{}, client.ErrRepeat)
	if r.ctx.Err() != nil {
		t.Error("stopped without a failure")
	}
	r.answered(client.Receipt{}, gap)
	r.answered(client.Receipt{}, full)
	r.answered(client.Receipt{}, gap)
	r.answered(client.Receipt{}, context.Cause(r.ctx)) // never sent: not a failure
	if s, d, f := r.stored.Load(), r.repeats.Load(), r.failed.Load(); s != 1 || d != 2 || f != 3 {
		t.Errorf("stored %d, repeats %d, failed %d", s, d, f)
	}
	if !errors.Is(r.first, full) || !errors.Is(context.Cause(r.ctx), errPubStopped) {
		t.Errorf("first %v, cause %v", r.first, context.Cause(r.ctx))
	}
}
