package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"
)

// Options says how a Client connects and waits. The zero value is usable:
// every field then has its default.
type Options struct {
	// Token is sent with CONNECT on every connection. Empty: none, which a
	// broker without configured tokens accepts.
	Token string

	// Logger receives lost connections and retries (Debug, Info) and what the
	// caller cannot see otherwise (Warn). Default: nothing is logged.
	Logger *slog.Logger

	// DialTimeout bounds the attempt to connect to one address, TCP and
	// CONNECT together. Default 5 s. Shorter moves on to the next address
	// sooner; too short gives up on a busy broker.
	DialTimeout time.Duration

	// RequestTimeout bounds DeclareTopic, LookupTopic, DeleteTopic and Ping
	// with all their retries, beside the caller's context. Default 30 s.
	// Longer rides out an election, shorter tells sooner that nobody answers.
	RequestTimeout time.Duration

	// SilenceTimeout is how long a connection may owe an answer without sending
	// anything before it is given up and another is made. Default 15 s, at least 1 s
	// more than MaxWait of every consumer: a PULL may wait that long. Shorter
	// notices a vanished broker sooner, too short cuts connections of a slow one.
	SilenceTimeout time.Duration

	// KeepAlive is how long a connection may be silent before a PING or a
	// HEARTBEAT is sent on it. Default 15 s, at most 30 s: the broker closes
	// what is silent for 45 s. Shorter costs traffic on idle connections.
	KeepAlive time.Duration

	// RetryBackoffMin and RetryBackoffMax bound the pause before something is
	// tried again. It doubles from the one to the other and has up to 20 %
	// of jitter. Defaults 10 ms and 2 s. Longer is kinder to a broker in trouble, shorter
	// goes on sooner when it is well again.
	RetryBackoffMin time.Duration
	RetryBackoffMax time.Duration

	// DialFunc makes the network connection. Default: a net.Dialer. For
	// proxies, TLS and tests.
	DialFunc func(ctx context.Context, network, address string) (net.Conn, error)
}

// Validate returns all faults of o at once, or nil.
func (o Options) Validate() error {
	o = o.withDefaults()
	var faults []error
	positive := func(name string, d time.Duration) {
		if d <= 0 {
			faults = append(faults, fmt.Errorf("client: Options.%s is %v; set a positive duration, or 0 for the default", name, d))
		}
	}
	if len(o.Token) > 0xFFFF {
		faults = append(faults, fmt.Errorf("client: Options.Token has %d bytes; at most 65535 fit into CONNECT", len(o.Token)))
	}
	positive("DialTimeout", o.DialTimeout)
	positive("RequestTimeout", o.RequestTimeout)
	positive("SilenceTimeout", o.SilenceTimeout)
	positive("KeepAlive", o.KeepAlive)
	positive("RetryBackoffMin", o.RetryBackoffMin)
	positive("RetryBackoffMax", o.RetryBackoffMax)
	if o.KeepAlive > 30*time.Second {
		faults = append(faults, fmt.Errorf("client: Options.KeepAlive is %v; at most 30s, because the broker closes a connection that is silent for 45s", o.KeepAlive))
	}
	if o.RetryBackoffMax < o.RetryBackoffMin {
		faults = append(faults, fmt.Errorf("client: Options.RetryBackoffMax (%v) is below RetryBackoffMin (%v)", o.RetryBackoffMax, o.RetryBackoffMin))
	}
	return errors.Join(faults...)
}

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	defaultTo(&o.DialTimeout, 5*time.Second)
	defaultTo(&o.RequestTimeout, 30*time.Second)
	defaultTo(&o.SilenceTimeout, 15*time.Second)
	defaultTo(&o.KeepAlive, 15*time.Second)
	defaultTo(&o.RetryBackoffMin, 10*time.Millisecond)
	defaultTo(&o.RetryBackoffMax, 2*time.Second)
	if o.DialFunc == nil {
		o.DialFunc = (&net.Dialer{}).DialContext
	}
	return o
}

// defaultTo replaces a zero by the default.
func defaultTo[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
