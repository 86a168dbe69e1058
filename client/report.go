package client

import (
	"context"

	"github.com/mortarmq/mortarmq/codec"
)

// report is what became of a message, to be told to its publisher.
type report struct {
	receipt Receipt
	err     error
	fn      func(Receipt, error)
	wait    *waiter
	order   uint64
}

// waiter is a Publish that waits for its report.
type waiter struct {
	done  chan struct{} // capacity 1
	slot  slotRef
	order uint64 // tells whether slot is still the same message
	// Set before done is signalled:
	receipt Receipt
	err     error
}

// flush is a Flush that waits: left counts the unreported messages that were
// accepted not after upTo.
type flush struct {
	upTo uint64
	left int
	done chan struct{}
}

// publish is the waiting form of accept.
func (p *Producer) publish(ctx context.Context, m *Message, part codec.Partition) (Receipt, error) {
	w := &waiter{done: make(chan struct{}, 1)}
	if err := p.accept(ctx, m, part, 0, nil, w); err != nil {
		return Receipt{Partition: part, Tag: m.Tag}, err
	}
	select {
	case <-w.done:
		return w.receipt, w.err
	case <-ctx.Done():
	}
	if p.abandon(w) {
		return Receipt{Partition: part, Tag: m.Tag}, outcome{ErrOutcomeUnknown, context.Cause(ctx)}
	}
	<-w.done
	return w.receipt, w.err
}

// abandon detaches a waiter from its message, whose bytes are copied because
// they are the caller's again. It reports false when the report is under way.
func (p *Producer) abandon(w *waiter) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &p.win.slots[w.slot]
	if s.order != w.order || s.wait != w {
		return false
	}
	s.wait = nil
	s.key = append([]byte(nil), s.key...)
	s.value = append([]byte(nil), s.value...)
	return true
}

// finish takes a message out of the window and lets its report be made.
func (p *Producer) finish(i slotRef, receipt Receipt, err error) {
	s := &p.win.slots[i]
	receipt.Partition = s.partition
	receipt.ProducerID, receipt.ProducerSeq, receipt.Tag = s.id, s.seq, s.tag
	switch {
	case err != nil:
		p.stats.Failed++
	case receipt.Duplicate:
		p.stats.Duplicates++
	default:
		p.stats.Stored++
	}
	p.reports = append(p.reports, report{receipt: receipt, err: err, fn: s.report, wait: s.wait, order: s.order})
	p.win.leave(&p.lanes[s.partition], i)
}

// makeReports makes every report that is due, in order. Called without the lock.
func (p *Producer) makeReports() {
	p.reportMu.Lock()
	defer p.reportMu.Unlock()
	p.mu.Lock()
	for len(p.reports) > 0 {
		batch := p.reports
		p.reports, p.spare = p.spare[:0], nil
		if p.waiting > 0 {
			p.signalRoom()
		}
		p.mu.Unlock()
		for i := range batch {
			batch[i].tell()
		}
		p.mu.Lock()
		p.unreported -= len(batch)
		p.countFlushes(batch)
		clear(batch)
		p.spare = batch[:0]
	}
	p.mu.Unlock()
}

func (r *report) tell() {
	switch {
	case r.wait != nil:
		r.wait.receipt, r.wait.err = r.receipt, r.err
		r.wait.done <- struct{}{}
	case r.fn != nil:
		r.fn(r.receipt, r.err)
	}
}

// countFlushes tells the flushes that are waiting what was reported.
func (p *Producer) countFlushes(batch []report) {
	if len(p.flushes) == 0 {
		return
	}
	still := p.flushes[:0]
	for _, f := range p.flushes {
		for i := range batch {
			if batch[i].order <= f.upTo {
				f.left--
			}
		}
		if f.left > 0 {
			still = append(still, f)
		} else {
			close(f.done)
		}
	}
	clear(p.flushes[len(still):])
	p.flushes = still
}
