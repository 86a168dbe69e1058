package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/mortarmq/mortarmq/codec"
)

func TestTopics(t *testing.T) {
	b := newFakeBroker(t)
	c := dialFake(t, b)
	ctx := t.Context()
	if _, err := c.LookupTopic(ctx, "orders"); !errors.Is(err, ErrUnknownTopic) || !strings.Contains(err.Error(), "mortarmq topics create orders") {
		t.Errorf("LookupTopic of nothing: %v", err)
	}
	if len(b.byName) != 0 {
		t.Error("LookupTopic created a topic")
	}
	for i, want := range []Topic{
		{Name: "orders", ID: 1, Partitions: 3, Created: true},
		{Name: "orders", ID: 1, Partitions: 3},
		{Name: "orders", ID: 1, Partitions: 3},
	} {
		got, err := c.DeclareTopic(ctx, "orders", []int{3, 3, 0}[i])
		if err != nil || got != want {
			t.Errorf("DeclareTopic: %+v, %v, want %+v", got, err, want)
		}
	}
	if _, err := c.DeclareTopic(ctx, "orders", 4); CodeOf(err) != codec.CodeTopicExistsMismatch {
		t.Errorf("another partition count: %v", err)
	}
	if got, err := c.LookupTopic(ctx, "orders"); err != nil || got != (Topic{Name: "orders", ID: 1, Partitions: 3}) {
		t.Errorf("LookupTopic: %+v, %v", got, err)
	}
	if got, err := c.DeclareTopic(ctx, "invoices", 0); err != nil || got != (Topic{Name: "invoices", ID: 3, Partitions: 4, Created: true}) {
		t.Errorf("the default: %+v, %v", got, err)
	}
	if err := c.DeleteTopic(ctx, "orders"); err != nil {
		t.Error(err)
	}
	if err := c.DeleteTopic(ctx, "orders"); !errors.Is(err, ErrUnknownTopic) {
		t.Errorf("DeleteTopic of nothing: %v", err)
	}
	if err := c.Ping(ctx); err != nil {
		t.Error(err)
	}
}

func TestNamesAndCountsAreRefusedWithoutAsking(t *testing.T) {
	b := newFakeBroker(t)
	c := dialFake(t, b)
	_, lookup := c.LookupTopic(t.Context(), "orders.dlq")
	_, declare := c.DeclareTopic(t.Context(), "", 1)
	for _, err := range []error{lookup, declare, c.DeleteTopic(t.Context(), "a*")} {
		if CodeOf(err) != codec.CodeInvalidTopic {
			t.Errorf("bad name: %v", err)
		}
	}
	for _, n := range []int{-1, 65535, 70000} {
		if _, err := c.DeclareTopic(t.Context(), "orders", n); err == nil {
			t.Errorf("%d partitions were declared", n)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.requests != 0 {
		t.Errorf("%d requests were sent", b.requests)
	}
}

func TestRequestsAreSentAgain(t *testing.T) {
	for name, f := range map[string]fault{
		"cut before": {cutBefore: true}, "cut after": {cutAfter: true}, "mute": {mute: true},
		"fenced": {code: codec.CodeMutationFenced}, "read-only": {code: codec.CodeMetadataReadOnly},
	} {
		b := newFakeBroker(t)
		o := fast()
		o.SilenceTimeout = 50 * time.Millisecond
		c, err := Dial(t.Context(), []string{b.addr}, o)
		if err != nil {
			t.Fatal(err)
		}
		b.setHook(func(r *fakeRequest) fault {
			if r.n <= 2 {
				return f
			}
			return fault{}
		})
		if got, err := c.DeclareTopic(t.Context(), "orders", 2); err != nil || got.ID != 1 {
			t.Errorf("%s: DeclareTopic: %+v, %v", name, got, err)
		}
		// The answer to a deletion is lost: that the topic is gone is no error then.
		b.setHook(nil)
		n := 0
		b.setHook(func(r *fakeRequest) fault {
			if n++; n == 1 {
				return fault{cutAfter: true}
			}
			return fault{}
		})
		if err := c.DeleteTopic(t.Context(), "orders"); err != nil {
			t.Errorf("%s: DeleteTopic: %v", name, err)
		}
		c.Close()
	}
}

func TestRequestsEndWithTheirContext(t *testing.T) {
	b := newFakeBroker(t)
	o := fast()
	o.RequestTimeout = 60 * time.Millisecond
	c, err := Dial(t.Context(), []string{b.addr}, o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	b.setHook(func(*fakeRequest) fault { return fault{mute: true} })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := c.Ping(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Ping: %v", err)
	}
	if err := c.Ping(t.Context()); !errors.Is(err, ErrRetryTimeout) {
		t.Errorf("Ping without a context's end: %v", err)
	}
	b.setHook(func(*fakeRequest) fault { return fault{code: codec.CodeMetadataReadOnly} })
	if _, err := c.DeclareTopic(t.Context(), "orders", 1); !errors.Is(err, ErrRetryTimeout) || CodeOf(err) != codec.CodeMetadataReadOnly {
		t.Errorf("DeclareTopic: %v", err)
	}
	b.setHook(nil)
	patient := dialFake(t, b)
	b.cutAll()
	if err := patient.Ping(t.Context()); err != nil {
		t.Errorf("Ping after a loss: %v", err)
	}
}

func TestDialTriesTheServersInTurn(t *testing.T) {
	b := newFakeBroker(t)
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := dead.Addr().String()
	dead.Close()

	c, err := Dial(t.Context(), []string{gone, b.addr}, fast())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	c.Close()

	_, err = Dial(t.Context(), []string{gone}, fast())
	if !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), gone) {
		t.Errorf("Dial to nobody: %v", err)
	}
	if _, err := Dial(t.Context(), nil, fast()); err == nil {
		t.Error("Dial without servers")
	}
}

func TestDialIsRefused(t *testing.T) {
	b := newFakeBroker(t)
	b.token = "secret"
	o := fast()
	o.Token = "guess"
	_, err := Dial(t.Context(), []string{b.addr}, o)
	var refusal *Error
	if !errors.As(err, &refusal) || refusal.Code != codec.CodeAuthFailed || refusal.Op != codec.OpConnect || refusal.Server != b.addr {
		t.Errorf("wrong token: %v", err)
	}
	o.Token = "secret"
	c, err := Dial(t.Context(), []string{b.addr}, o)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

// Whatever listens at the address: one clear error, in time.
func TestDialToSomethingElse(t *testing.T) {
	for name, greet := range map[string][]byte{
		"HTTP":          []byte("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"),
		"zeros":         make([]byte, 64),
		"another frame": codec.AppendNotice(nil, &codec.Notice{}),
		"another OK":    codec.AppendEmptyOK(nil, codec.OpPing),
		"half an OK":    codec.AppendEmptyOK(nil, codec.OpConnect)[:7],
		"16 MiB":        {1, 0, 0, 0, 9},
		"silence":       nil,
	} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for {
				nc, err := ln.Accept()
				if err != nil {
					return
				}
				nc.Write(greet)
				defer nc.Close()
			}
		}()
		o := fast()
		o.DialTimeout = 50 * time.Millisecond
		if _, err := Dial(t.Context(), []string{ln.Addr().String()}, o); !errors.Is(err, ErrUnreachable) {
			t.Errorf("%s: %v", name, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := Dial(ctx, []string{ln.Addr().String()}, o); !errors.Is(err, context.Canceled) {
			t.Errorf("%s, cancelled: %v", name, err)
		}
		ln.Close()
	}
}

func TestEverythingIsGoneAfterClose(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("orders", 2)
	before := runtime.NumGoroutine()
	for round := range 3 {
		c, err := Dial(t.Context(), []string{b.addr}, fast())
		if err != nil {
			t.Fatal(err)
		}
		p := newProducer(t, c, "orders", ProducerOptions{})
		idle := newProducer(t, c, "orders", ProducerOptions{})
		if _, err := p.Publish(t.Context(), Message{}); err != nil {
			t.Error(err)
		}
		k, err := c.NewConsumer(t.Context(), ConsumerOptions{Topic: "orders", Group: "workers"})
		if err != nil {
			t.Fatal(err)
		}
		ran := make(chan error)
		handled := make(chan struct{}, 100)
		go func() {
			ran <- k.Run(context.Background(), func(context.Context, *Delivery) error { handled <- struct{}{}; return nil })
		}()
		<-handled
		if round == 1 {
			b.setDown(true)
		}
		closing := make(chan error)
		go func() { closing <- c.Close() }()
		if err := <-ran; err != nil && round != 1 {
			t.Errorf("Run: %v", err)
		}
		if err := <-closing; err != nil {
			t.Error(err)
		}
		b.setDown(false)
		if _, err := idle.Publish(t.Context(), Message{}); !errors.Is(err, ErrClosed) {
			t.Errorf("Publish after Client.Close: %v", err)
		}
		if err := c.Ping(t.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("Ping after Close: %v", err)
		}
		if _, err := c.NewProducer(t.Context(), "orders", ProducerOptions{}); !errors.Is(err, ErrClosed) {
			t.Errorf("NewProducer after Close: %v", err)
		}
		if err := k.Run(t.Context(), func(context.Context, *Delivery) error { return nil }); !errors.Is(err, ErrClosed) {
			t.Errorf("Run after Close: %v", err)
		}
		if err := c.Close(); !errors.Is(err, ErrClosed) {
			t.Errorf("second Close: %v", err)
		}
	}
	until(t, "the goroutines to end", func() bool {
		return runtime.NumGoroutine() <= before
	})
}

func TestOptionsTellAllFaults(t *testing.T) {
	for _, c := range []struct {
		err  error
		want []string
	}{
		{Options{}.Validate(), nil},
		{Options{Token: strings.Repeat("x", 65536), DialTimeout: -1, KeepAlive: time.Minute, RetryBackoffMin: 3 * time.Second}.Validate(),
			[]string{"Token", "DialTimeout", "KeepAlive", "RetryBackoffMax"}},
		{ProducerOptions{}.Validate(), nil},
		{ProducerOptions{NonIdempotent: true, ProducerID: 1, MaxInFlight: 5000, MaxInFlightBytes: -1, RetryTimeout: -1}.Validate(),
			[]string{"NonIdempotent", "MaxInFlight ", "MaxInFlightBytes", "RetryTimeout"}},
		{ConsumerOptions{Topic: "orders", Group: "workers"}.Validate(), nil},
		{ConsumerOptions{Topic: "or ders", Start: 2, CreditCount: 70000, CreditBytes: -1, MaxMsgs: -1, MaxWait: time.Hour, ManualAck: true, NoAck: true, LeaveTimeout: -1}.Validate(),
			[]string{"Topic", "Group", "Start", "CreditCount", "CreditBytes", "MaxMsgs", "MaxWait", "NoAck", "LeaveTimeout"}},
	} {
		text := fmt.Sprint(c.err)
		if c.want == nil && c.err != nil {
			t.Errorf("fault in what is fine: %v", c.err)
		}
		for _, w := range c.want {
			if !strings.Contains(text, w) {
				t.Errorf("%s is not named in:\n%s", w, text)
			}
		}
		if n := strings.Count(text, "\n") + 1; c.want != nil && n != len(c.want) {
			t.Errorf("%d lines for %d faults:\n%s", n, len(c.want), text)
		}
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	e := &Error{Op: codec.OpPub, Code: codec.CodeBackpressure, Server: "h:1"}
	if got := e.Error(); got != "PUB refused by h:1: BACKPRESSURE (0x4001): "+codec.CodeBackpressure.Hint() {
		t.Error(got)
	}
	if !errors.Is(e, &codec.Error{Code: codec.CodeBackpressure}) || !errors.Is(fmt.Errorf("x: %w", e), &Error{Code: codec.CodeBackpressure}) {
		t.Error("errors.Is does not match by code")
	}
	if errors.Is(e, ErrUnknownTopic) || CodeOf(errors.New("x")) != 0 {
		t.Error("matches what it is not")
	}
	for text, want := range map[string]string{
		"not the leader: leader=10.0.0.1:7188":  "10.0.0.1:7188",
		"leader=[::1]:7188. Ask it":             "[::1]:7188",
		"leader=a:1, leader=b:2":                "b:2",
		"nobody knows":                          "",
		"leader=":                               "",
		"STALE leader=n1.example.com:7188 here": "n1.example.com:7188",
	} {
		if got := leaderHint(text); got != want {
			t.Errorf("leaderHint(%q) = %q, want %q", text, got, want)
		}
	}
	cause := errors.New("cannot be read")
	if err := Reject(cause); !errors.Is(err, ErrReject) || !errors.Is(err, cause) || errors.Is(err, ErrRelease) {
		t.Errorf("Reject: %v", err)
	}
	if err := Release(nil); !errors.Is(err, ErrRelease) || err.Error() != ErrRelease.Error() {
		t.Errorf("Release(nil): %v", err)
	}
}
