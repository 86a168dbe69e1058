package shard

import (
	"fmt"
	"slices"

	"github.com/mortarmq/mortarmq/codec"
	"github.com/mortarmq/mortarmq/flow"
	mlog "github.com/mortarmq/mortarmq/log"
)

// pub is one accepted message of a batch.
type pub struct {
	conn  *flow.Conn
	slot  uint64
	part  *partition
	seq   codec.Sequence
	tail  []byte // view into chunk until the batch is sealed
	chunk *flow.Chunk
	next  int32 // the next of the same partition in this batch, or noPub
}

// batch is what becomes one log entry, and whom to answer when it is committed.
type batch struct {
	number uint64
	age    int64      // age clock when its first message was staged
	index  mlog.Index // of its entry, once sealed
	pubs   []pub      // in order of arrival
	parts  []stretch
	bytes  int

	groups []groupStart
	deads  []deadMove
	forget []forgotten
	done   []func()
}

// stretch is one partition's messages in a batch.
type stretch struct {
	part  *partition
	first codec.Sequence
	count int
	off   int // of the first record in data, once sealed
}

// deadMove is a message on its way to its twin (V11).
type deadMove struct {
	ledger *ledger
	seq    codec.Sequence
	twin   codec.Sequence
	off    int // of the twin's record in data
}

// forgotten is a producer whose window goes (P5).
type forgotten struct {
	part *partition
	id   codec.ProducerID
}

// hasWork reports whether the batch must become an entry soon, ledgers aside.
func (b *batch) hasWork() bool {
	return len(b.pubs) > 0 || len(b.groups) > 0 || len(b.deads) > 0 || len(b.forget) > 0
}

// Handle serves one PUB, ACK or NACK. The request's reference to its chunk is
// taken over.
func (c *Core) Handle(r *flow.Request) {
	switch r.Op {
	case codec.OpPub:
		c.publish(r)
	case codec.OpAck:
		c.ack(r)
	case codec.OpNack:
		c.nack(r)
	}
}

// publish judges and stages a PUB (P4). The OK follows the commit.
func (c *Core) publish(r *flow.Request) {
	p := c.partition(r.Topic, r.Partition)
	if p == nil { // deleted since the loop looked
		c.refusePub(r, codec.CodeUnknownTopic)
		return
	}
	if p.readOnly != nil {
		r.Chunk.Release(1)
		c.reply(flow.Completion{Conn: r.Conn, Slot: r.Slot, Op: codec.OpPub, Code: codec.CodeInternal, Message: p.readOnlyText()})
		return
	}
	if r.ProducerID != 0 {
		if w := p.window(r.ProducerID); w != nil {
			switch v, seq := w.judge(r.ProducerSeq); v {
			case verdictRepeat:
				r.Chunk.Release(1)
				if seq > p.committed {
					p.waiting = append(p.waiting, repeat{r.Conn, r.Slot, seq})
					return
				}
				c.pubOK(r.Conn, r.Slot, p, seq, codec.PubDeduped)
				return
			case verdictGap:
				c.refusePub(r, codec.CodeSeqGap)
				return
			case verdictExpired:
				c.refusePub(r, codec.CodeSeqExpired)
				return
			}
		}
	}
	if len(c.batch.pubs) == 0 {
		c.batch.age = c.age()
	}
	p.last++
	p.remember(r.ProducerID, r.ProducerSeq, p.last, c.batch.age)
	c.stage(p, r)
}

func (c *Core) stage(p *partition, r *flow.Request) {
	b := c.batch
	i := int32(len(b.pubs))
	b.pubs = append(b.pubs, pub{r.Conn, r.Slot, p, p.last, r.Tail, r.Chunk, noPub})
	if p.tail == noPub {
		p.head = i
		b.parts = append(b.parts, stretch{part: p, first: p.last})
	} else {
		b.pubs[p.tail].next = i
	}
	p.tail = i
	p.count++
	p.bytes += len(r.Tail)
	b.bytes += len(r.Tail)
}

func (c *Core) refusePub(r *flow.Request, code codec.Code) {
	r.Chunk.Release(1)
	c.reply(flow.Completion{Conn: r.Conn, Slot: r.Slot, Op: codec.OpPub, Code: code})
}

func (c *Core) pubOK(conn *flow.Conn, slot uint64, p *partition, seq codec.Sequence, flags uint8) {
	c.reply(flow.Completion{Conn: conn, Slot: slot, Op: codec.OpPub, Pub: codec.PubResult{
		Sequence: seq, Durability: c.cfg.Durability, LeaderEpoch: c.term,
		CommitSeq: p.committed, ResultFlags: flags,
	}})
}

// refuseStaged answers the staged messages of a partition whose topic is being
// deleted, and takes them out of the batch.
func (c *Core) refuseStaged(p *partition) {
	b := c.batch
	for i := p.head; i != noPub; i = b.pubs[i].next {
		m := &b.pubs[i]
		c.reply(flow.Completion{Conn: m.conn, Slot: m.slot, Op: codec.OpPub, Code: codec.CodeUnknownTopic})
		m.chunk.Release(1)
		m.conn, m.chunk, m.tail, m.part = nil, nil, nil, nil
	}
	for _, w := range p.waiting {
		c.reply(flow.Completion{Conn: w.conn, Slot: w.slot, Op: codec.OpPub, Code: codec.CodeUnknownTopic})
	}
	b.bytes -= p.bytes
	p.head, p.tail, p.count, p.bytes, p.waiting = noPub, noPub, 0, 0, nil
	b.parts = slices.DeleteFunc(b.parts, func(s stretch) bool { return s.part == p })
}

// full reports whether requests should stay in the mailbox for now.
func (c *Core) full() bool { return c.batch.bytes >= sealBytes }

// seal turns what is staged into a log entry, when there is room on the way to the disk and
// something that cannot wait.
func (c *Core) seal() error {
	if !c.leading || c.group.InFlight() >= sealInFlight {
		return nil
	}
	b := c.batch
	if !b.hasWork() && (len(c.dirtyLedgers) == 0 || c.now < c.dirtySince+ledgerDelay) {
		return nil
	}
	c.sealed++
	b.number = c.sealed
	data := c.encode(b)
	c.view = view{}
	b.index = c.log.LastIndex() + 1
	c.inflight = append(c.inflight, b)
	c.batch = c.takeFree()
	if err := c.group.Propose(data); err != nil {
		return err
	}
	if err := c.pump(); err != nil {
		return err
	}
	// A leader's log has entries of its own only: this one went where it was expected.
	if got := c.log.LastIndex(); got != b.index {
		panic(fmt.Sprintf("shard: the entry proposed for index %d went to %d", b.index, got))
	}
	return nil
}

func (c *Core) takeFree() *batch {
	n := len(c.free)
	if n == 0 {
		return &batch{}
	}
	b := c.free[n-1]
	c.free = c.free[:n-1]
	return b
}

// recycle keeps a finished batch's slices for the next one.
func (c *Core) recycle(b *batch) {
	if len(c.free) > sealInFlight || cap(b.pubs) > 1<<16 {
		return
	}
	clear(b.pubs)
	clear(b.parts)
	*b = batch{pubs: b.pubs[:0], parts: b.parts[:0]}
	c.free = append(c.free, b)
}

// encode writes the entry: each partition's messages side by side, copied once
// from the receive chunks.
func (c *Core) encode(b *batch) []byte {
	size := entryHeaderLen + len(b.parts)*(blockHeaderLen+messagesHeadLen) + b.bytes +
		len(c.dirtyLedgers)*64 + len(b.groups)*(blockHeaderLen+groupBodyLen)
	if len(b.pubs) == 0 {
		b.age = c.age()
	}
	dst := appendEntryHeader(make([]byte, 0, size), c.wall, b.age)
	dst = encodeForget(dst, b.forget)
	for i := range b.parts {
		dst = c.encodeStretch(dst, b, &b.parts[i])
	}
	releaseChunks(b.pubs)
	var start int
	for _, g := range b.groups {
		dst, start = beginBlock(dst, blockGroup)
		dst = endBlock(appendGroupStart(dst, g), start)
	}
	dst = c.encodeDeads(dst, b)
	for _, l := range c.dirtyLedgers {
		d := l.take()
		dst, start = beginBlock(dst, blockLedger)
		dst = endBlock(appendLedgerDelta(dst, &d), start)
	}
	clear(c.dirtyLedgers)
	c.dirtyLedgers = c.dirtyLedgers[:0]
	return dst
}

func (c *Core) encodeStretch(dst []byte, b *batch, s *stretch) []byte {
	p := s.part
	dst, start := beginBlock(dst, blockMessages)
	dst = appendMessagesHead(dst, messagesHead{p.topic, p.id, s.first, p.count})
	s.off, s.count = len(dst), p.count
	for i := p.head; i != noPub; i = b.pubs[i].next {
		dst = appendRecord(dst, b.pubs[i].tail)
		b.pubs[i].tail = nil
	}
	p.head, p.tail, p.count, p.bytes = noPub, noPub, 0, 0
	return endBlock(dst, start)
}

// releaseChunks gives the receive buffers back, neighbours of one buffer at once.
func releaseChunks(pubs []pub) {
	for i := 0; i < len(pubs); {
		chunk, n := pubs[i].chunk, 0
		for i < len(pubs) && pubs[i].chunk == chunk {
			pubs[i].chunk = nil
			i++
			n++
		}
		if chunk != nil {
			chunk.Release(n)
		}
	}
}
