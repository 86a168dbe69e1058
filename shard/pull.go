package shard

import (
	"container/heap"
	"time"

	"github.com/mortarmq/mortarmq/codec"
	"github.com/mortarmq/mortarmq/flow"
	"github.com/valyala/bytebufferpool"
)

// maxPullBody is where a PULL is answered whatever it asked for, so that one
// answer stays far below the outbound limit of a connection (S8). One message may be larger.
const maxPullBody = 8 << 20

// quantum is how many messages a PULL takes from one partition before it looks
// at the member's next one.
const quantum = 64

// member is a group member as this shard sees it.
type member struct {
	sub     *flow.Subscription
	ledgers []*ledger // it owns here, ascending by partition
	next    int       // where the next PULL starts, for fairness
	// pull is the last PULL that came by: news for the member is news for it. It
	// may be held by another shard or be answered already; Claim tells.
	pull  *flow.Pull
	woken bool // stands in Core.woken
}

func (c *Core) member(sub *flow.Subscription) *member {
	m := c.members[sub.Member]
	if m == nil {
		m = &member{sub: sub}
		c.members[sub.Member] = m
	}
	return m
}

// wake remembers that there may be something for a member's PULL.
func (c *Core) wake(m *member) {
	if m.pull != nil && !m.woken {
		m.woken = true
		c.woken = append(c.woken, m)
	}
}

// serveWoken goes on with the PULLs of woken members.
func (c *Core) serveWoken() {
	for i := 0; i < len(c.woken); i++ {
		m := c.woken[i]
		c.woken[i] = nil
		m.woken = false
		if m.pull != nil && m.pull.News() {
			m.pull.Hops = 0
			c.serve(m, m.pull)
		}
	}
	c.woken = c.woken[:0]
}

// Pull takes the token of a PULL and serves it as far as this shard can.
func (c *Core) Pull(p *flow.Pull) {
	if p.Deadline == 0 {
		p.Deadline = c.now + p.Wait
	}
	c.serve(c.member(p.Sub), p)
}

// serve delivers what there is. Then the PULL is answered, goes on to the next
// shard, or, after a whole round without enough, is parked (V1).
func (c *Core) serve(m *member, p *flow.Pull) {
	m.pull = p
	for {
		if c.exhausted(p) {
			c.complete(m, p, codec.CodeNoCredit)
			return
		}
		if full := c.fill(m, p); full || satisfied(p) {
			c.complete(m, p, p.Verdict)
			return
		}
		p.Hops++
		if p.Hops < c.cfg.Shards {
			c.forwards = append(c.forwards, forward{(c.cfg.ID + 1) % c.cfg.Shards, p})
			return
		}
		if p.Verdict != 0 || p.Cancelled() || c.now >= p.Deadline || !m.sub.Alive.Load() {
			c.complete(m, p, p.Verdict)
			return
		}
		p.Hops = 0
		if !p.TakeNews() && p.Park() {
			heap.Push(&c.parked, parkedPull{p.Deadline, m, p})
			return
		}
		if c.cfg.Shards > 1 {
			c.forwards = append(c.forwards, forward{(c.cfg.ID + 1) % c.cfg.Shards, p})
			return
		}
	}
}

// satisfied reports whether a PULL has what it waits for, or all that it may take (V1).
func satisfied(p *flow.Pull) bool {
	if p.Msgs == 0 {
		return false
	}
	count, bytes := p.Sub.Credit.Window()
	outCount, outBytes := p.Sub.Credit.Outstanding()
	return p.Bytes >= p.MinBytes || p.Bytes >= p.MaxBytes || p.Msgs >= p.MaxMsgs ||
		outCount >= count || outBytes >= bytes
}

// exhausted reports whether no count is left in the window of a PULL that has delivered nothing (V6).
func (c *Core) exhausted(p *flow.Pull) bool {
	count, _ := p.Sub.Credit.Window()
	out, _ := p.Sub.Credit.Outstanding()
	return p.Msgs == 0 && out >= count
}

// complete answers a PULL.
func (c *Core) complete(m *member, p *flow.Pull, code codec.Code) {
	m.pull = nil
	if len(m.ledgers) == 0 && !m.sub.Alive.Load() {
		delete(c.members, m.sub.Member)
	}
	c.reply(p.Completion(code))
}

// expirePulls answers the PULLs whose wait is over and returns the next deadline.
func (c *Core) expirePulls() time.Duration {
	for len(c.parked) > 0 {
		next := c.parked[0]
		if next.deadline > c.now {
			return next.deadline
		}
		heap.Pop(&c.parked)
		if next.pull.Claim() {
			c.complete(next.member, next.pull, next.pull.Verdict)
		}
	}
	return 0
}

// fill delivers to a PULL from the member's partitions in turn. It reports
// whether the PULL cannot take more.
func (c *Core) fill(m *member, p *flow.Pull) (full bool) {
	n := len(m.ledgers)
	if n == 0 {
		return false
	}
	idle := 0
	for i := m.next; idle < n; i++ {
		l := m.ledgers[i%n]
		took, stop := c.fillFrom(l, p)
		if stop {
			m.next = i % n
			return true
		}
		if took == 0 {
			idle++
		} else {
			idle = 0
		}
		m.next = (i + 1) % n
	}
	return false
}

// fillFrom delivers up to a quantum from one partition: retries that are due,
// then messages never delivered, in sequence order (V4).
func (c *Core) fillFrom(l *ledger, p *flow.Pull) (took int, full bool) {
	for took < quantum {
		seq, due := l.nextRetry(c.now)
		if !due || l.slot(seq).batch > c.applied {
			break
		}
		if len(l.part.lost) > 0 && l.part.lostAt(seq) != 0 {
			c.passLost(l, 0)
			continue
		}
		switch c.offer(l, seq, p) {
		case offerTaken:
			heap.Pop(&l.retries)
			took++
		case offerLost:
		case offerFull:
			return took, true
		default:
			return took, false
		}
	}
	for took < quantum && l.cursor < l.part.committed && l.cursor-l.floor < maxUnsettled {
		if len(l.part.lost) > 0 {
			if to := l.part.lostAt(l.cursor + 1); to != 0 {
				if !c.passLost(l, to) {
					return took, false
				}
				continue
			}
		}
		switch c.offer(l, l.cursor+1, p) {
		case offerTaken:
			took++
		case offerLost:
		case offerFull:
			return took, true
		default:
			return took, false
		}
	}
	return took, false
}

type offerResult uint8

const (
	offerTaken   offerResult = iota
	offerFull                // the PULL can take no more
	offerLost                // the message is lost: look again
	offerBlocked             // this partition's next message cannot be delivered now; another's may
)

// offer delivers one message if it fits (V5, V6).
func (c *Core) offer(l *ledger, seq codec.Sequence, p *flow.Pull) offerResult {
	rec, key, value, err := c.read(l, seq)
	if err != nil {
		c.cfg.Logger.Error("a message cannot be read", "topic", l.part.topic, "partition", l.part.id, "sequence", seq, "err", err)
		if l.part.lostAt(seq) != 0 {
			return offerLost
		}
		p.Verdict = codec.CodeInternal
		return offerBlocked
	}
	size := key + value
	credit := &l.owner.sub.Credit
	count, bytes := credit.Window()
	outCount, outBytes := credit.Outstanding()
	switch {
	case p.Msgs >= p.MaxMsgs || outCount >= count,
		p.Msgs > 0 && (p.Bytes+max(size, 1) > p.MaxBytes || len(p.Body.B) >= maxPullBody):
		return offerFull
	case int64(size) > bytes:
		credit.Blocked.Store(int64(size))
		p.Verdict = codec.CodeMessageExceedsCredit
		return offerBlocked
	case outBytes+int64(size) > bytes:
		if p.Verdict == 0 {
			p.Verdict = codec.CodeNoCredit
		}
		if p.Msgs > 0 {
			return offerFull
		}
		return offerBlocked
	}
	c.deliver(l, seq, rec, size, p)
	return offerTaken
}

// deliver puts one MSG frame behind the others: 37 bytes of header in front of
// the stored bytes.
func (c *Core) deliver(l *ledger, seq codec.Sequence, rec []byte, size int, p *flow.Pull) {
	var s *slot
	if seq > l.cursor {
		s = l.advance()
		c.markLedger(l)
	} else {
		s = l.slot(seq)
		c.note(l, mark{seq, markInFlight, s.attempts, s.reason})
	}
	c.lastDelivery++
	s.delivery = c.lastDelivery
	s.state = slotInFlight
	s.size = uint32(size)
	s.deadline = c.now + c.cfg.DeliveryLease
	if p.MinBytes > p.Bytes+max(size, 1) {
		// It may lie in a PULL that goes on gathering; the lease counts from the
		// latest moment the PULL may be answered.
		s.deadline = max(s.deadline, p.Deadline+c.cfg.DeliveryLease)
	}
	l.leases.push(lease{seq, s.delivery, s.deadline})
	c.watch(l)
	l.inFlight++
	sub := l.owner.sub
	sub.Credit.Take(size)
	sub.Credit.Blocked.Store(0)

	if p.Body == nil {
		p.Body = bytebufferpool.Get()
	}
	m := codec.Msg{
		SubscriptionID: sub.ID, TopicID: l.part.topic, Partition: l.part.id, Sequence: seq,
		DeliveryID: s.delivery, Attempt: s.attempts + 1, OwnershipEpoch: l.epoch,
	}
	p.Body.B = codec.AppendMsgHeader(p.Body.B, &m, len(rec))
	p.Body.B = append(p.Body.B, rec...)
	p.Msgs++
	p.Bytes += max(size, 1)
}

// parkedPull is a waiting PULL that this shard parked; stale once it was claimed.
type parkedPull struct {
	deadline time.Duration
	member   *member
	pull     *flow.Pull
}

// parkHeap orders parked PULLs by deadline.
type parkHeap []parkedPull

func (h parkHeap) Len() int           { return len(h) }
func (h parkHeap) Less(i, j int) bool { return h[i].deadline < h[j].deadline }
func (h parkHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *parkHeap) Push(x any) { *h = append(*h, x.(parkedPull)) }

// Pop implements heap.Interface.
func (h *parkHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	old[len(old)-1] = parkedPull{}
	*h = old[:len(old)-1]
	return x
}
