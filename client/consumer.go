package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mortarmq/mortarmq/codec"
)

// Handler handles one message. nil settles it; an error gives it back, to be
// delivered again after a pause as the next attempt, or as Reject or Release say.
//
// ctx has the values of Run's context. It ends when the delivery can no longer be settled
// because the connection is gone, and LeaveTimeout after Run was told to end: then the
// handler should give up.
type Handler func(ctx context.Context, d *Delivery) error

// Consumer is a member of a group, while Run runs. It has a connection of its own.
type Consumer struct {
	client *Client
	opts   ConsumerOptions

	mu     sync.Mutex
	topic  Topic
	ended  chan struct{} // of the Run that runs; nil: none
	member *member       // the present one; nil: none
	stats  ConsumerStats // of those before it
}

// ConsumerStats counts since NewConsumer.
type ConsumerStats struct {
	Joins     uint64 // times the group was joined
	Delivered uint64 // messages handed to the handler
	Acked     uint64 // ACKs that the broker took
	Nacked    uint64 // NACKs that the broker took
	Refused   uint64 // ACKs and NACKs that came too late or were refused otherwise
	Bytes     uint64 // key and value bytes handed to the handler
}

// NewConsumer looks the topic up and returns a Consumer, which has not joined
// its group yet. The error wraps ErrUnknownTopic when there is no such topic.
func (c *Client) NewConsumer(ctx context.Context, opts ConsumerOptions) (*Consumer, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	opts = opts.withDefaults()
	if least := opts.MaxWait + time.Second; c.d.opts.SilenceTimeout < least {
		return nil, fmt.Errorf("client: Options.SilenceTimeout is %v; it must be at least %v for a MaxWait of %v", c.d.opts.SilenceTimeout, least, opts.MaxWait)
	}
	k := &Consumer{client: c, opts: opts}
	if err := k.lookup(ctx); err != nil {
		return nil, err
	}
	return k, nil
}

// lookup learns the id of the topic that has the name now.
func (k *Consumer) lookup(ctx context.Context) error {
	t, err := k.client.LookupTopic(ctx, k.opts.Topic)
	if err != nil {
		return err
	}
	if k.opts.DeadLetter {
		t.ID = t.ID.Twin()
		t.Name += codec.TwinSuffix
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.topic = t
	return nil
}

// Topic returns the topic as it was known last; with DeadLetter the twin.
func (k *Consumer) Topic() Topic {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.topic
}

// Stats returns what was counted so far.
func (k *Consumer) Stats() ConsumerStats {
	k.mu.Lock()
	s, m := k.stats, k.member
	k.mu.Unlock()
	if m != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		s.add(&m.stats)
	}
	return s
}

// attend makes m the member that counts; what the one before it counted is kept.
func (k *Consumer) attend(m *member) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.member != nil {
		k.stats.add(&k.member.stats) // it has ended: nobody else touches it
	}
	k.member = m
}

func (s *ConsumerStats) add(o *ConsumerStats) {
	s.Joins += o.Joins
	s.Delivered += o.Delivered
	s.Acked += o.Acked
	s.Nacked += o.Nacked
	s.Refused += o.Refused
	s.Bytes += o.Bytes
}

// Run joins the group and hands messages to handler until ctx ends: one at a
// time, on the goroutine that called Run, those of a partition in order (but
// for messages that are delivered again). Then it stops taking
// messages, lets the handler in hand finish, leaves the group, which hands back
// what was not handled, and returns nil; or why it could not leave in order.
//
// A connection that is lost is made again, and the group joined again. What
// was delivered on the old one is delivered again, to whoever owns the partition then. Run
// returns early with an error when joining is refused for good, and when the topic is
// deleted.
func (k *Consumer) Run(ctx context.Context, handler Handler) error {
	if handler == nil {
		return errors.New("client: Run needs a handler")
	}
	ended := make(chan struct{})
	k.mu.Lock()
	if k.ended != nil {
		k.mu.Unlock()
		return errors.New("client: the consumer runs already; make one Consumer per member")
	}
	k.ended = ended
	k.mu.Unlock()
	defer func() {
		k.mu.Lock()
		k.ended = nil
		k.mu.Unlock()
		close(ended)
	}()
	if err := k.client.adopt(k); err != nil {
		return err
	}
	defer k.client.forget(k)
	ctx, cancel := either(ctx, k.client.ctx)
	defer cancel()
	return k.loop(ctx, handler)
}

// shut waits for Run, whose context the Client has ended.
func (k *Consumer) shut() {
	k.mu.Lock()
	ended := k.ended
	k.mu.Unlock()
	if ended != nil {
		<-ended
	}
}

// loop is one membership after the other.
func (k *Consumer) loop(ctx context.Context, handler Handler) error {
	var pause backoff
	var troubled time.Time // since when nothing works; zero: all is well
	joined := false
	for {
		m, err := k.join(ctx)
		if err == nil {
			joined = true
			err = m.run(ctx, handler)
			if m.useful {
				pause.reset()
				troubled = time.Time{}
			}
		}
		if ctx.Err() != nil {
			if m == nil {
				return nil // there was nothing to leave
			}
			return err // how the leaving went
		}
		if !k.mayRejoin(err, joined) {
			return err
		}
		if troubled.IsZero() {
			troubled = time.Now()
		}
		if k.opts.RetryTimeout > 0 && time.Since(troubled) > k.opts.RetryTimeout {
			return outcome{ErrRetryTimeout, err}
		}
		k.client.d.log.Info("joining the group again", "topic", k.opts.Topic, "group", k.opts.Group, "cause", err)
		if err := k.prepare(ctx, err); errors.Is(err, ErrUnknownTopic) {
			return err
		}
		if sleep(ctx, pause.next(&k.client.d.opts)) != nil {
			return nil
		}
	}
}

// mayRejoin reports whether joining again can help after err.
func (k *Consumer) mayRejoin(err error, joined bool) bool {
	var e *Error
	if !errors.As(err, &e) {
		return !errors.Is(err, ErrClosed)
	}
	switch e.Code {
	case codec.CodeGroupMemberLimit:
		return joined // it may be the lost membership itself that fills the group
	case codec.CodeStaleGeneration, codec.CodeNotOwner, codec.CodeUnknownMember, codec.CodeStaleOwner,
		codec.CodeUnknownTopic, codec.CodeInternal:
		return true
	}
	return e.Code.Retriable()
}

// prepare does what err asks for before the next join.
func (k *Consumer) prepare(ctx context.Context, err error) error {
	var e *Error
	if !errors.As(err, &e) {
		return nil
	}
	if notLeader(e.Code) {
		k.client.d.prefer(leaderHint(e.Message), e.Server)
	}
	if e.Code == codec.CodeUnknownTopic {
		return k.lookup(ctx)
	}
	return nil
}
