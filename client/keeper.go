package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mortarmq/mortarmq/codec"
)

// errMoving ends a connection to a server that is not the leader.
var errMoving = errors.New("client: moving to the leader")

// producerLink ties one connection to its producer.
type producerLink struct {
	p    *Producer
	conn *conn
}

// receive takes the answers of one read under one lock, then makes their reports.
func (l *producerLink) receive(f *frames) error {
	p := l.p
	p.mu.Lock()
	err := p.takeAnswers(l.conn, f)
	if err == nil && p.moving && p.wire.n == 0 {
		err = errMoving
	}
	p.mu.Unlock()
	p.makeReports()
	return err
}

func (p *Producer) takeAnswers(c *conn, f *frames) error {
	if p.conn != c {
		return ErrClosed
	}
	p.clock = c.lastIO()
	for {
		op, payload, ok := f.next()
		if !ok {
			return nil
		}
		if op != codec.OpOK && op != codec.OpErr {
			continue // a push that is not meant for producers
		}
		if err := p.takeAnswer(c, op, payload); err != nil {
			return err
		}
	}
}

func (p *Producer) takeAnswer(c *conn, op codec.Op, payload []byte) error {
	var request codec.Op
	i := none
	if p.wire.n > 0 {
		if i = *p.wire.front(); i == none {
			request = codec.OpPing
		} else {
			request = codec.OpPub
		}
	}
	a, err := c.decodeAnswer(op, payload, request)
	if err != nil {
		return err
	}
	p.wire.pop()
	if i == none {
		return nil
	}
	return p.answered(i, a)
}

// lost takes everything off the wire of a connection that has ended.
func (l *producerLink) lost(err error) {
	p := l.p
	p.mu.Lock()
	if p.conn == l.conn {
		p.detach(err)
	}
	p.mu.Unlock()
	p.makeReports()
	p.wakeKeeper()
}

// detach prepares everything unanswered to be sent again, per lane in order
// and with the same numbers. What must not be sent again is given up.
func (p *Producer) detach(err error) {
	p.conn = nil
	p.moving = false
	for p.wire.n > 0 {
		i := p.wire.pop()
		if i == none {
			continue
		}
		s := &p.win.slots[i]
		s.onWire = false
		s.last = err
		switch {
		case !p.idempotent(), s.orphan:
			p.finish(i, Receipt{}, outcome{ErrOutcomeUnknown, err})
		case s.seq != 0:
			s.maybe = true
		}
	}
	for i := range p.lanes {
		ln := &p.lanes[i]
		ln.onWire, ln.stalled, ln.unsent = 0, false, ln.head
	}
	p.stalled = p.stalled[:0]
}

// attach begins to use a new connection, once nothing is left of the old one.
func (p *Producer) attach(c *conn) {
	if p.latest != nil {
		p.latest.wait()
	}
	p.latest = c
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conn = c
	p.progress = false
	p.stats.Connects++
	c.start()
	for i := range p.lanes {
		p.pump(&p.lanes[i])
	}
}

// dialed is the result of an attempt to connect.
type dialed struct {
	link *producerLink
	err  error
}

// keep is the producer's keeper: it makes connections, and looks after
// everything that depends on time. It runs until shut.
func (p *Producer) keep() {
	defer close(p.ended)
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	dials := make(chan dialed, 1)
	timer := time.NewTimer(0)
	defer timer.Stop()
	var pause backoff
	dialing, nextDial := false, time.Duration(0)
	for {
		select {
		case <-p.stop:
			cancel(ErrClosed)
			p.end(dialing, dials)
			return
		case d := <-dials:
			dialing = false
			if d.err == nil {
				p.attach(d.link.conn)
			} else {
				p.log.Debug("connecting failed", "error", d.err)
				p.noteCause(d.err)
			}
			nextDial = p.now() + pause.next(&p.d.opts)
		case <-p.wake:
		case <-timer.C:
		}
		up, progress, next := p.tick()
		p.makeReports()
		if progress {
			pause.reset()
		}
		if !up && !dialing {
			if wait := nextDial - p.now(); wait > 0 {
				next = min(next, wait)
			} else {
				dialing = true
				go p.dial(ctx, dials)
			}
		}
		timer.Reset(next)
	}
}

func (p *Producer) dial(ctx context.Context, dials chan<- dialed) {
	link := &producerLink{p: p}
	c, err := p.d.connect(ctx, &p.mu, link)
	link.conn = c
	dials <- dialed{link, err}
}

// end takes the producer down: nothing is left running when it returns.
func (p *Producer) end(dialing bool, dials <-chan dialed) {
	if dialing {
		if d := <-dials; d.err == nil {
			d.link.conn.fail(ErrClosed)
		}
	}
	if p.latest != nil {
		p.latest.fail(ErrClosed)
		p.latest.wait()
	}
	p.mu.Lock()
	for i := range p.lanes {
		for ln := &p.lanes[i]; ln.head != none; {
			err := ErrClosed
			if p.win.slots[ln.head].maybe {
				err = outcome{ErrOutcomeUnknown, ErrClosed}
			}
			p.finish(ln.head, Receipt{}, err)
		}
	}
	p.mu.Unlock()
	p.makeReports()
}

// noteCause remembers, for those who wait, why there is no connection.
func (p *Producer) noteCause(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.win.slots {
		if s := &p.win.slots[i]; s.order != 0 {
			s.last = err
		}
	}
}

// tick does what is due. It reports whether there is a connection, whether
// something was stored on it, and when to look again at the latest.
func (p *Producer) tick() (up, progress bool, next time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	p.clock = now
	next = p.interval()
	p.resumeStalled(now, &next)
	p.expire(now)
	if p.conn != nil {
		p.checkConn(now)
	}
	return p.conn != nil, p.progress, next
}

// interval is how often to look at what no event announces.
func (p *Producer) interval() time.Duration {
	o := &p.d.opts
	return max(min(time.Second, p.opts.RetryTimeout/8, o.SilenceTimeout/4, o.KeepAlive/4), time.Millisecond)
}

// resumeStalled goes on with the lanes whose answers are in and whose pause is over.
func (p *Producer) resumeStalled(now time.Duration, next *time.Duration) {
	still := p.stalled[:0]
	for _, ln := range p.stalled {
		switch {
		case ln.onWire > 0 || p.moving:
			still = append(still, ln)
		case ln.resumeAt > now:
			*next = min(*next, ln.resumeAt-now)
			still = append(still, ln)
		default:
			p.resume(ln)
		}
	}
	p.stalled = still
}

// expire gives up what is overdue. A message on the wire has half a RetryTimeout
// more to be answered, so that one that was sent just now is not reported with an unknown outcome; then
// the connection goes, and what it leaves behind is given up at the next look.
func (p *Producer) expire(now time.Duration) {
	if p.win.used == 0 {
		return
	}
	for i := range p.lanes {
		ln := &p.lanes[i]
		for ln.head != none && p.win.slots[ln.head].deadline <= now {
			s := &p.win.slots[ln.head]
			if s.onWire {
				if now-s.deadline < p.opts.RetryTimeout/2 {
					break
				}
				p.conn.fail(fmt.Errorf("%s did not answer a PUB within the RetryTimeout of %v", p.conn.server, p.opts.RetryTimeout))
				return
			}
			p.giveUp(ln.head, outcome{ErrRetryTimeout, s.last})
		}
	}
}

// checkConn gives up a connection that is silent though answers are due, and
// keeps an idle one alive.
func (p *Producer) checkConn(now time.Duration) {
	o := &p.d.opts
	switch {
	case p.moving && p.wire.n == 0:
		p.conn.fail(errMoving)
	case p.wire.n > 0 && now-max(p.busySince, p.conn.lastIO()) > o.SilenceTimeout:
		p.conn.fail(fmt.Errorf("%s owes answers and was silent for %v", p.conn.server, o.SilenceTimeout))
	case p.wire.n == 0 && now-p.conn.lastIO() > o.KeepAlive:
		p.conn.trim()
		p.busySince = now
		p.wire.push(none)
		p.conn.out = codec.AppendPing(p.conn.out)
		p.conn.flush()
	}
}
