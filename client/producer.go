package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mortarmq/mortarmq/codec"
)

// Producer publishes to one topic on one connection of its own. Messages of
// the same partition are stored in the order in which they were accepted, and
// each is stored once, also when answers are lost and messages are sent again
// (unless NonIdempotent). Every message that was handed in gets exactly one report.
//
// All methods may be called from any goroutine. The key and the value of a message belong to the
// Producer until its report: they must not be changed before.
type Producer struct {
	client *Client
	d      *dialer
	opts   ProducerOptions
	topic  Topic
	log    *slog.Logger
	auto   bool // numbers are chosen, and may be chosen again, by the Producer

	turn     atomic.Uint64 // round robin
	reportMu sync.Mutex    // held while reports run: one at a time, in order

	mu      sync.Mutex
	conn    *conn // nil while there is none
	win     window
	lanes   []lane        // by partition
	wire    ring[slotRef] // requests on conn without an answer; none: a PING
	stalled []*lane
	closing bool // nothing more is accepted
	stopped bool // nothing is sent any more

	moving    bool          // to the leader, once wire is empty
	progress  bool          // something was stored since the connection was made
	busySince time.Duration // since when wire is not empty
	clock     time.Duration // the time, as of the last answers or look of the keeper
	latest    *conn         // the last connection made; the keeper's

	waiting int           // PublishAsync calls that wait for room
	room    chan struct{} // capacity 1: there may be room
	wake    chan struct{} // capacity 1: the keeper should look
	stop    chan struct{} // closed by shut
	ended   chan struct{} // closed by the keeper

	reports    []report // due, in order
	spare      []report
	unreported int
	flushes    []*flush
	stats      ProducerStats
}

// ProducerStats counts since NewProducer.
type ProducerStats struct {
	Stored     uint64 // reported without an error and not a duplicate
	Duplicates uint64 // reported without an error, stored before
	Failed     uint64 // reported with an error
	Resent     uint64 // PUBs beyond the first of each message
	Connects   uint64 // connections made
}

// NewProducer looks the topic up and returns a Producer for it. ctx bounds the
// look-up. The error wraps ErrUnknownTopic when there is no such topic.
func (c *Client) NewProducer(ctx context.Context, topic string, opts ProducerOptions) (*Producer, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	t, err := c.LookupTopic(ctx, topic)
	if err != nil {
		return nil, err
	}
	opts = opts.withDefaults()
	p := &Producer{
		client: c, d: c.d, opts: opts, topic: t,
		log:   c.d.log.With("topic", topic),
		auto:  opts.ProducerID == 0 && !opts.NonIdempotent,
		win:   newWindow(opts.MaxInFlight, opts.MaxInFlightBytes),
		lanes: make([]lane, t.Partitions),
		room:  make(chan struct{}, 1), wake: make(chan struct{}, 1),
		stop: make(chan struct{}), ended: make(chan struct{}),
	}
	id := opts.ProducerID
	if p.auto {
		id = freshID()
	}
	for i := range p.lanes {
		p.lanes[i] = lane{head: none, tail: none, unsent: none, id: id}
	}
	if err := c.adopt(p); err != nil {
		return nil, err
	}
	go p.keep()
	return p, nil
}

// freshID returns a producer id that nobody else has, but for one chance in 2^64.
func freshID() codec.ProducerID { return codec.ProducerID(rand.Uint64N(1<<64-1) + 1) }

// Topic returns the topic as it was when the Producer was made.
func (p *Producer) Topic() Topic { return p.topic }

// Publish sends a message and waits for its report. When ctx ends first the
// error wraps ErrOutcomeUnknown and the context's cause; the message is then still
// sent, from a copy of its bytes, until it is stored or given up.
func (p *Producer) Publish(ctx context.Context, m Message) (Receipt, error) {
	part, err := p.place(&m)
	if err != nil {
		return Receipt{Partition: part, Tag: m.Tag}, err
	}
	return p.publish(ctx, &m, part)
}

// PublishAsync sends a message and has its report made by calling report,
// which may be nil. It blocks only while the window is full; ctx bounds that
// wait and nothing else. A message that is not accepted is reported before
// PublishAsync returns; all others one after the other by a goroutine
// of the Producer. report must not block, and must not call the Producer's methods: it
// stands in the way of every other report.
func (p *Producer) PublishAsync(ctx context.Context, m Message, report func(Receipt, error)) {
	part, err := p.place(&m)
	if err == nil {
		err = p.accept(ctx, &m, part, 0, report, nil)
	}
	if err != nil && report != nil {
		report(Receipt{Partition: part, Tag: m.Tag}, err)
	}
}

// PublishSeq is PublishAsync for callers that number their messages
// themselves, beside ProducerOptions.ProducerID: seq counts the messages of
// the partition, without holes, from any number on. A message whose predecessor was not stored
// fails with SEQ_GAP. One that was stored before is reported with its sequence and Duplicate,
// or with ErrRepeat when it is too old for that.
func (p *Producer) PublishSeq(ctx context.Context, part codec.Partition, seq codec.ProducerSeq, m Message, report func(Receipt, error)) {
	m.Partition = &part
	_, err := p.place(&m)
	switch {
	case err != nil:
	case p.opts.ProducerID == 0:
		err = errors.New("client: PublishSeq needs a ProducerOptions.ProducerID to number for")
	case seq == 0:
		err = errors.New("client: PublishSeq counts from 1")
	default:
		err = p.accept(ctx, &m, part, seq, report, nil)
	}
	if err != nil && report != nil {
		report(Receipt{Partition: part, ProducerID: p.opts.ProducerID, ProducerSeq: seq, Tag: m.Tag}, err)
	}
}

// place checks the message and chooses its partition.
func (p *Producer) place(m *Message) (codec.Partition, error) {
	if err := m.checkSize(); err != nil {
		return 0, err
	}
	count := len(p.lanes)
	var part codec.Partition
	switch {
	case m.Partition != nil:
		part = *m.Partition
	case p.opts.Partitioner != nil:
		own := *m // what the function may keep; m itself stays on the stack
		part = p.opts.Partitioner(&own, count)
	case len(m.Key) > 0:
		return codec.PartitionFor(m.Key, uint16(count)), nil
	default:
		return codec.Partition((p.turn.Add(1) - 1) % uint64(count)), nil
	}
	if int(part) >= count {
		return part, &Error{
			Op: codec.OpPub, Code: codec.CodeUnknownPartition,
			Message: fmt.Sprintf("topic %s has partitions 0 to %d; %d is none of them", p.topic.Name, count-1, part),
		}
	}
	return part, nil
}

// accept puts a message into the window, and on the wire if it may go. It
// waits for room; an error means that the message was not accepted.
func (p *Producer) accept(ctx context.Context, m *Message, part codec.Partition, seq codec.ProducerSeq, report func(Receipt, error), wait *waiter) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	size := pubSize(len(m.Key), len(m.Value))
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		if p.closing {
			if p.waiting > 0 {
				p.signalRoom() // the next one has to know, too
			}
			return ErrClosed
		}
		if p.win.hasRoom(size) {
			break
		}
		if err := p.awaitRoom(ctx); err != nil {
			return err
		}
	}
	if p.win.used == 0 {
		p.clock = p.now()
	}
	i := p.win.take()
	s := &p.win.slots[i]
	s.key, s.value, s.tag = m.Key, m.Value, m.Tag
	s.report, s.wait = report, wait
	s.partition = part
	s.deadline = p.clock + p.opts.RetryTimeout
	ln := &p.lanes[part]
	if p.opts.ProducerID != 0 {
		if seq == 0 {
			seq = ln.next + 1
		}
		ln.next = seq
		s.id, s.seq = ln.id, seq
	}
	p.win.enter(ln, i)
	p.unreported++
	if wait != nil {
		wait.slot, wait.order = i, s.order
	}
	p.pump(ln)
	if p.waiting > 0 && p.win.free != none {
		p.signalRoom() // there is more room than one message's: pass it on
	}
	return nil
}

// awaitRoom gives the lock up until there may be room.
func (p *Producer) awaitRoom(ctx context.Context) error {
	p.waiting++
	p.mu.Unlock()
	var err error
	select {
	case <-p.room:
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-p.stop:
		err = ErrClosed
	}
	p.mu.Lock()
	p.waiting--
	return err
}

func (p *Producer) signalRoom() {
	select {
	case p.room <- struct{}{}:
	default:
	}
}

func (p *Producer) now() time.Duration { return p.d.now() }

// Flush waits until every message that was accepted before is reported, or ctx
// ends, whose cause it returns then.
func (p *Producer) Flush(ctx context.Context) error {
	p.mu.Lock()
	f := &flush{upTo: p.win.order, left: p.unreported, done: make(chan struct{})}
	if f.left == 0 {
		p.mu.Unlock()
		return nil
	}
	p.flushes = append(p.flushes, f)
	p.mu.Unlock()
	select {
	case <-f.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Close accepts nothing more, waits like Flush, and ends the connection. What has no answer when ctx
// ends is reported with ErrClosed; Close then returns the context's
// cause. A second Close returns ErrClosed at once.
func (p *Producer) Close(ctx context.Context) error {
	p.mu.Lock()
	if p.closing {
		p.mu.Unlock()
		return ErrClosed
	}
	p.closing = true
	if p.waiting > 0 {
		p.signalRoom()
	}
	p.mu.Unlock()
	err := p.Flush(ctx)
	p.shut()
	return err
}

// shut ends the producer now; what is in flight is reported with ErrClosed.
func (p *Producer) shut() {
	p.mu.Lock()
	p.closing = true
	first := !p.stopped
	p.stopped = true
	p.mu.Unlock()
	if first {
		close(p.stop)
	}
	<-p.ended
	p.client.forget(p)
}

// Stats returns what was counted so far.
func (p *Producer) Stats() ProducerStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats
}
