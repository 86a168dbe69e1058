package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mortarmq/mortarmq/codec"
)

const (
	// maxUnanswered stops handing out while so many requests wait for an
	// answer; the broker refuses more than 4,096 (S7).
	maxUnanswered = 3500
	// ackBatch is how many acknowledgements gather before they are written
	// while there is more to handle.
	ackBatch = 64
	// slabSize is how many deliveries are allocated at a time.
	slabSize = 64
)

// member is one membership: one connection, one subscription. It ends with
// the connection; the Consumer then makes another.
//
// The handler runs on the goroutine of Run (turn); answers, messages and notices come in on the
// reader's goroutine (receive); the keeper's goroutine does what depends on time (tick).
type member struct {
	k    *Consumer
	d    *dialer
	opts *ConsumerOptions
	name string        // of the topic
	id   codec.TopicID // of the topic
	conn *conn

	wake   chan struct{} // capacity 1: turn should look
	alarm  chan struct{} // capacity 1: the keeper should look
	joined chan struct{} // closed when sub is known, or refusal
	left   chan struct{} // closed when LEAVE is answered
	gone   chan struct{} // closed by lost
	kept   chan struct{} // closed when the keeper has ended

	eventMu sync.Mutex // held while rebalance events run: one at a time, in order

	mu       sync.Mutex
	sub      codec.SubResult
	refusal  error // of SUB
	wire     ring[request]
	queue    ring[*Delivery] // received, not handed out
	leases   leases
	owned    []ownership // by partition
	events   []event
	later    []request // refused for now, to be sent again
	slab     []Delivery
	stopping bool  // nothing more is handed out
	leaving  bool  // LEAVE was sent
	cause    error // why the connection was lost
	fatal    error // why the membership is given up
	useful   bool  // something was delivered or assigned
	stats    ConsumerStats

	pulling   pulling
	unflushed int           // acknowledgements gathered since the last write was asked for
	held      int           // ManualAck: handed out and not settled
	settling  int           // ACKs and NACKs without a final answer
	named     time.Duration // when the subscription was named last
	laterAt   time.Duration // when to send what is in later
	pause     backoff
	busySince time.Duration // since when wire is not empty
}

// request is one request without an answer.
type request struct {
	op       codec.Op
	d        *Delivery     // ACK, NACK
	reason   uint8         // NACK
	progress bool          // ACK
	leave    bool          // HEARTBEAT
	wait     chan error    // capacity 1; nil: nobody waits
	sent     time.Duration // PULL
	grown    bool          // PULL: sent after the credit was enlarged
}

// join connects and subscribes. The keeper of the member runs when it returns without an error.
func (k *Consumer) join(ctx context.Context) (*member, error) {
	t := k.Topic()
	m := &member{
		k: k, d: k.client.d, opts: &k.opts, name: t.Name, id: t.ID,
		wake: make(chan struct{}, 1), alarm: make(chan struct{}, 1),
		joined: make(chan struct{}), left: make(chan struct{}),
		gone: make(chan struct{}), kept: make(chan struct{}),
		owned: make([]ownership, t.Partitions),
	}
	m.pulling.count, m.pulling.bytes = k.opts.CreditCount, k.opts.CreditBytes
	c, err := m.d.connect(ctx, &m.mu, m)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	m.conn = c
	c.start()
	m.push(request{op: codec.OpSub})
	c.out = codec.AppendSub(c.out, m.subscription())
	c.flush()
	m.mu.Unlock()
	go m.keep()
	k.attend(m)
	if err := m.awaitJoin(ctx); err != nil {
		m.end(err)
		return nil, err
	}
	return m, nil
}

func (m *member) subscription() *codec.Sub {
	s := &codec.Sub{
		Group: []byte(m.opts.Group), TopicID: m.id, Partition: codec.AnyPartition,
		StartPolicy: uint8(m.opts.Start),
		CreditCount: uint16(m.opts.CreditCount), CreditBytes: uint32(m.opts.CreditBytes),
	}
	if m.opts.NoCreate {
		s.Flags |= codec.SubNoCreate
	}
	return s
}

// awaitJoin waits for the answer to SUB. A context that ends meanwhile does not
// make the member vanish: once it has joined, run leaves in order.
func (m *member) awaitJoin(ctx context.Context) error {
	select {
	case <-m.joined:
	case <-m.gone:
		return m.cause
	case <-ctx.Done():
		patience := time.NewTimer(m.opts.LeaveTimeout)
		defer patience.Stop()
		select {
		case <-m.joined:
		case <-m.gone:
			return m.cause
		case <-patience.C:
			return context.Cause(ctx)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.refusal
}

// end takes the member down: nothing of it runs when it returns.
func (m *member) end(err error) {
	m.conn.fail(err)
	m.conn.wait()
	<-m.kept
	m.k.attend(nil)
}

// run handles messages until ctx ends (then it leaves, and returns how that
// went) or the membership does (then it returns why).
func (m *member) run(ctx context.Context, handler Handler) error {
	hctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	var watch sync.WaitGroup
	watch.Go(func() { m.watch(ctx, hctx, cancel) })
	defer watch.Wait()
	defer cancel(nil)

	var d *Delivery
	var result error
	for {
		if d = m.turn(ctx, d, result); d == nil {
			break
		}
		result = handler(hctx, d)
	}
	var err error
	if ctx.Err() != nil {
		err = m.leave()
	} else {
		err = m.failure()
	}
	m.end(ErrClosed)
	return err
}

// failure returns why the membership ended, or nil.
func (m *member) failure() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fatal != nil {
		return m.fatal
	}
	return m.cause
}

// watch stops the membership when ctx ends, and ends the handler's context when
// the handler has no reason to go on.
func (m *member) watch(ctx, hctx context.Context, cancel context.CancelCauseFunc) {
	var late <-chan time.Time
	done := ctx.Done()
	for {
		select {
		case <-hctx.Done():
			return
		case <-m.gone:
			cancel(outcome{ErrLostOwnership, m.cause})
			return
		case <-done:
			m.stop()
			timer := time.NewTimer(m.opts.LeaveTimeout)
			defer timer.Stop()
			done, late = nil, timer.C
		case <-late:
			cancel(context.Cause(ctx))
			return
		}
	}
}

// stop makes turn return nil once the handler has returned.
func (m *member) stop() {
	m.mu.Lock()
	m.stopping = true
	m.mu.Unlock()
	signal(m.wake)
}

// signal wakes whoever waits on a channel of capacity 1.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// turn takes the handler's result for the delivery it had, if any, and returns
// the next one. It returns nil when the handler is to stop.
func (m *member) turn(ctx context.Context, prev *Delivery, result error) *Delivery {
	m.mu.Lock()
	if prev != nil {
		m.handled(prev, result)
	}
	if ctx.Err() != nil {
		m.stopping = true
	}
	for {
		if len(m.events) > 0 {
			m.mu.Unlock()
			m.runEvents()
			m.mu.Lock()
		}
		if m.stopping || m.fatal != nil || m.cause != nil {
			m.mu.Unlock()
			return nil
		}
		if m.wire.n < maxUnanswered {
			if d := m.nextDelivery(); d != nil {
				if m.unflushed >= ackBatch {
					m.flushAcks()
				}
				m.mu.Unlock()
				return d
			}
		}
		m.flushAcks()
		m.mu.Unlock()
		<-m.wake
		m.mu.Lock()
	}
}

// nextDelivery takes the next message that is still this member's off the queue.
func (m *member) nextDelivery() *Delivery {
	for m.queue.n > 0 {
		d := m.queue.pop()
		o := m.ownership(d.Partition)
		if o.epoch != d.epoch || o.revoke != nil {
			m.drop(d)
			continue
		}
		d.state = handed
		d.handling = true
		o.handling++
		if m.opts.ManualAck {
			m.held++
			o.held++
			m.leases.remove(d)
		}
		m.stats.Delivered++
		m.stats.Bytes += uint64(d.size)
		return d
	}
	return nil
}

// drop forgets a delivery that is no longer this member's before it was handled.
func (m *member) drop(d *Delivery) {
	d.state = settled
	m.uncount(d)
	m.leases.remove(d)
	d.release()
}

// handled deals with what the handler returned.
func (m *member) handled(d *Delivery, result error) {
	o := m.ownership(d.Partition)
	d.handling = false
	o.handling--
	if d.state != settled && !m.opts.NoAck {
		switch {
		case !m.owns(d):
			m.settled(d)
		case result != nil:
			m.sendSettle(request{op: codec.OpNack, d: d, reason: nackReason(result)})
		case !m.opts.ManualAck:
			m.sendSettle(request{op: codec.OpAck, d: d})
		}
	}
	if d.state == settled || !m.opts.ManualAck {
		d.release()
	}
	m.checkRevoke(d.Partition)
}

func nackReason(err error) uint8 {
	switch {
	case errors.Is(err, ErrReject):
		return codec.NackReject
	case errors.Is(err, ErrRelease):
		return codec.NackRelease
	}
	return codec.NackRetry
}

// owns reports whether a delivery can still be settled.
func (m *member) owns(d *Delivery) bool {
	return m.cause == nil && m.fatal == nil && !m.leaving && m.ownership(d.Partition).epoch == d.epoch
}

// sendSettle sends an ACK or NACK.
func (m *member) sendSettle(r request) {
	d := r.d
	m.appendSettle(r)
	if r.progress {
		return
	}
	m.settled(d)
	m.unflushed++
	m.settling++
	m.ownership(d.Partition).settling++
}

// settled notes that a delivery is no longer in the client's hands.
func (m *member) settled(d *Delivery) {
	if d.state == handed && m.opts.ManualAck {
		m.held--
		m.ownership(d.Partition).held--
		signal(m.wake) // leave may wait for it
	}
	d.state = settled
	m.uncount(d)
	m.leases.remove(d)
}

// appendSettle puts an ACK or NACK on the wire.
func (m *member) appendSettle(r request) {
	d := r.d
	c := m.conn
	if len(c.out) == 0 {
		c.flushSoon()
	}
	if r.op == codec.OpAck {
		a := codec.Ack{
			SubscriptionID: m.sub.SubscriptionID, TopicID: m.id, Partition: d.Partition,
			Seq: d.Sequence, DeliveryID: d.id, OwnershipEpoch: d.epoch,
		}
		if r.progress {
			a.Flags = codec.AckProgress
		}
		c.out = codec.AppendAck(c.out, &a)
	} else {
		c.out = codec.AppendNack(c.out, &codec.Nack{
			SubscriptionID: m.sub.SubscriptionID, TopicID: m.id, Partition: d.Partition,
			Seq: d.Sequence, DeliveryID: d.id, OwnershipEpoch: d.epoch, Reason: r.reason,
		})
	}
	m.push(r)
}

// push notes a request that was put on the wire.
func (m *member) push(r request) {
	if m.wire.n == 0 {
		m.busySince = m.d.now()
	}
	m.wire.push(r)
	m.pulling.last = r.op == codec.OpPull
	if r.op == codec.OpPull || r.op == codec.OpHeartbeat {
		m.named = m.d.now()
	}
}

// flushAcks has everything written now, with the next PULL behind it.
func (m *member) flushAcks() {
	m.unflushed = 0
	m.pull()
	if len(m.conn.out) > 0 {
		m.conn.flush()
	}
}

// settle is the handler's own ACK, NACK or PROGRESS: it waits for the answer.
func (m *member) settle(ctx context.Context, d *Delivery, r request) error {
	r.wait = make(chan error, 1)
	m.mu.Lock()
	switch {
	case d.state == settled:
		m.mu.Unlock()
		return ErrSettled
	case !m.owns(d):
		m.settled(d)
		if !d.handling {
			d.release()
		}
		cause := m.cause
		m.mu.Unlock()
		return outcome{ErrLostOwnership, cause}
	}
	m.sendSettle(r)
	if d.state == settled && !d.handling {
		d.release()
	}
	m.checkRevoke(d.Partition)
	m.flushAcks()
	events := len(m.events) > 0
	m.mu.Unlock()
	if events {
		m.runEvents()
	}
	select {
	case err := <-r.wait:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// errLeaving is what Run returns when it could not leave in order.
var errLeaving = errors.New("client: the group could not be left in order; the broker does it when it notices the loss")

// leave ends the membership in order, once what was handled is known to be
// settled. Nothing is being handled any more, but with ManualAck deliveries may
// be in other hands: they have LeaveTimeout to be settled.
func (m *member) leave() error {
	patience := time.NewTimer(m.opts.LeaveTimeout)
	defer patience.Stop()
	late := false
	for {
		m.mu.Lock()
		ready := m.held == 0 && m.settling == 0 || late
		if m.settling > 0 {
			m.conn.flush()
		}
		m.mu.Unlock()
		if err := m.failure(); err != nil {
			return outcome{errLeaving, err}
		}
		if ready {
			m.sendLeave()
			break
		}
		select {
		case <-m.wake:
		case <-m.gone:
		case <-patience.C:
			late = true
		}
	}
	patience.Reset(m.opts.LeaveTimeout)
	select {
	case <-m.left:
		return nil
	case <-m.gone:
		return outcome{errLeaving, m.cause}
	case <-patience.C:
		return outcome{errLeaving, fmt.Errorf("no answer within %v", m.opts.LeaveTimeout)}
	}
}

// sendLeave tells that all partitions go, and then leaves.
func (m *member) sendLeave() {
	m.mu.Lock()
	m.leaving = true // nothing is assigned any more
	m.dropAll(false)
	m.mu.Unlock()
	m.runEvents()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cause != nil {
		return
	}
	m.push(request{op: codec.OpHeartbeat, leave: true})
	m.conn.out = codec.AppendHeartbeat(m.conn.out, m.heartbeat(codec.HeartbeatLeave))
	m.conn.flush()
}

func (m *member) heartbeat(state uint8) *codec.Heartbeat {
	return &codec.Heartbeat{
		SubscriptionID: m.sub.SubscriptionID, MemberID: m.sub.MemberID,
		MembershipEpoch: m.sub.MembershipEpoch, AssignmentEpoch: m.sub.AssignmentEpoch, State: state,
	}
}
