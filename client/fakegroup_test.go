package client

import (
	"sort"
	"time"

	"github.com/mortarmq/mortarmq/codec"
)

// The group half of the fake broker. Everything is called with its lock held.

type groupKey struct {
	topic codec.TopicID
	name  string
}

type fakeGroup struct {
	b       *fakeBroker
	id      codec.GroupID
	topic   *fakeTopic
	start   uint8
	members []*fakeMember
	parts   []*fakeOwned
	joins   uint32 // membership epoch
	plans   uint32 // assignment epoch
}

// fakeOwned is a partition as the group sees it.
type fakeOwned struct {
	next     int // index of the next first delivery
	settled  map[codec.Sequence]bool
	flying   map[codec.Sequence]*fakeDelivery
	attempts map[codec.Sequence]uint16
	again    []fakeAgain // to be delivered again

	owner   *fakeMember // confirmed
	epoch   codec.OwnershipEpoch
	target  *fakeMember
	notice  *codec.Notice // sent, not confirmed
	noticed *fakeMember
}

type fakeAgain struct {
	seq codec.Sequence
	at  time.Time
}

type fakeDelivery struct {
	id     codec.DeliveryID
	member *fakeMember
	size   int
	timer  *time.Timer
	kept   int // PROGRESSes
}

type fakeMember struct {
	g      *fakeGroup
	c      *fakeConn
	sub    codec.SubscriptionID
	id     codec.MemberID
	count  int // credit
	bytes  int
	outN   int
	outB   int
	beats  int // HEARTBEATs
	gone   bool
	joins  uint32 // told
	plans  uint32
	pulled int // PULLs
}

type fakePull struct {
	m     *fakeMember
	req   codec.Pull
	timer *time.Timer
	n     int
}

func (b *fakeBroker) number() uint64 { b.nextNum++; return b.nextNum }

func (c *fakeConn) sub(payload []byte) {
	b := c.b
	m, err := codec.DecodeSub(payload)
	if err != nil {
		b.tb.Errorf("SUB: %v", err)
		return
	}
	t := b.byID[m.TopicID]
	if t == nil {
		c.err(codec.OpSub, codec.CodeUnknownTopic, "")
		return
	}
	key := groupKey{m.TopicID, string(m.Group)}
	g := b.groups[key]
	switch {
	case g == nil && m.Flags&codec.SubNoCreate != 0:
		c.err(codec.OpSub, codec.CodeUnknownGroup, "")
		return
	case g != nil && g.start != m.StartPolicy:
		c.err(codec.OpSub, codec.CodeGroupExistsMismatch, "")
		return
	case g != nil && len(g.members) >= 10:
		c.err(codec.OpSub, codec.CodeGroupMemberLimit, "")
		return
	case g == nil:
		g = b.newGroup(t, m.StartPolicy)
		b.groups[key] = g
	}
	c.nextSub++
	mem := &fakeMember{g: g, c: c, sub: c.nextSub, id: codec.MemberID(b.number()), count: int(m.CreditCount), bytes: int(m.CreditBytes)}
	if mem.count == 0 {
		mem.count = 256
	}
	if mem.bytes == 0 {
		mem.bytes = 2 << 20
	}
	c.subs[mem.sub] = mem
	g.members = append(g.members, mem)
	g.joins++
	mem.joins, mem.plans = g.joins, g.plans
	c.ok(codec.OpSub, codec.AppendSubResult(nil, &codec.SubResult{
		SubscriptionID: mem.sub, MemberID: mem.id, MembershipEpoch: mem.joins, AssignmentEpoch: mem.plans,
	}))
	g.plan()
}

func (b *fakeBroker) newGroup(t *fakeTopic, start uint8) *fakeGroup {
	g := &fakeGroup{b: b, id: codec.GroupID(len(b.groups) + 1), topic: t, start: start}
	for i := range t.parts {
		o := &fakeOwned{
			settled: make(map[codec.Sequence]bool), flying: make(map[codec.Sequence]*fakeDelivery),
			attempts: make(map[codec.Sequence]uint16),
		}
		if start == codec.StartLatest {
			o.next = len(t.parts[i].log)
		}
		g.parts = append(g.parts, o)
	}
	return g
}

// plan assigns the partitions in turn and starts the moves that this needs.
func (g *fakeGroup) plan() {
	g.plans++
	sort.Slice(g.members, func(i, j int) bool { return g.members[i].id < g.members[j].id })
	for i, o := range g.parts {
		o.target = nil
		if len(g.members) > 0 {
			o.target = g.members[i%len(g.members)]
		}
		g.step(i)
	}
}

// step sends the next notice that the partition's move needs.
func (g *fakeGroup) step(i int) {
	o := g.parts[i]
	if o.notice != nil {
		return
	}
	switch {
	case o.owner == o.target:
	case o.owner != nil:
		g.notify(i, o.owner, codec.NoticeRevoke)
	default:
		o.epoch = codec.OwnershipEpoch(1<<32 | g.b.number())
		g.notify(i, o.target, codec.NoticeAssign)
	}
}

func (g *fakeGroup) notify(i int, m *fakeMember, kind uint8) {
	m.joins, m.plans = g.joins, g.plans
	n := &codec.Notice{
		NoticeID: codec.NoticeID(g.b.number()), Kind: kind, GroupID: g.id,
		MembershipEpoch: m.joins, AssignmentEpoch: m.plans, OwnershipEpoch: g.parts[i].epoch,
		TopicID: g.topic.id, Partition: codec.Partition(i), MemberID: m.id,
	}
	g.parts[i].notice, g.parts[i].noticed = n, m
	m.c.out = codec.AppendNotice(m.c.out, n)
	m.c.wake.Broadcast()
}

func (c *fakeConn) controlAck(payload []byte) {
	m, err := codec.DecodeControlAck(payload)
	if err != nil {
		c.b.tb.Errorf("CONTROL_ACK: %v", err)
		return
	}
	for _, g := range c.b.groups {
		for i, o := range g.parts {
			n := o.notice
			if n == nil || n.NoticeID != m.NoticeID {
				continue
			}
			same := m.NoticeKind == n.Kind && m.GroupID == n.GroupID && m.MembershipEpoch == n.MembershipEpoch &&
				m.AssignmentEpoch == n.AssignmentEpoch && m.OwnershipEpoch == n.OwnershipEpoch
			if !same || o.noticed.c != c {
				c.err(codec.OpControlAck, codec.CodeStaleGeneration, "fields differ")
				return
			}
			c.ok(codec.OpControlAck, nil)
			o.notice = nil
			if n.Kind == codec.NoticeAssign {
				o.owner = o.noticed
				g.step(i)
				g.b.servePulls()
			} else {
				g.disown(i, false)
				g.step(i)
			}
			return
		}
	}
	c.err(codec.OpControlAck, codec.CodeStaleGeneration, "unknown notice")
}

// disown takes what is in flight back from the owner of a partition.
func (g *fakeGroup) disown(i int, failed bool) {
	o := g.parts[i]
	for seq := range o.flying {
		o.settle(seq)
		o.retry(g.b, seq, failed, 0)
	}
	o.owner = nil
}

// settle ends a delivery and returns its credit.
func (o *fakeOwned) settle(seq codec.Sequence) {
	d := o.flying[seq]
	d.timer.Stop()
	d.member.outN--
	d.member.outB -= d.size
	delete(o.flying, seq)
}

// expire fails a delivery whose lease has run out.
func (o *fakeOwned) expire(b *fakeBroker, seq codec.Sequence, d *fakeDelivery) {
	if d != nil && o.flying[seq] == d {
		o.settle(seq)
		o.retry(b, seq, true, b.retry)
	}
}

// renewals returns how often the lease of each delivery in flight was renewed, the least first.
func (b *fakeBroker) renewals(topic, group string) (kept []int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, o := range b.group(topic, group).parts {
		for _, d := range o.flying {
			kept = append(kept, d.kept)
		}
	}
	sort.Ints(kept)
	return kept
}

// retry has a message delivered again after a pause.
func (o *fakeOwned) retry(b *fakeBroker, seq codec.Sequence, failed bool, pause time.Duration) {
	if failed {
		o.attempts[seq]++
	}
	o.again = append(o.again, fakeAgain{seq, time.Now().Add(pause)})
	sort.Slice(o.again, func(i, j int) bool { return o.again[i].seq < o.again[j].seq })
	time.AfterFunc(pause+time.Millisecond, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.servePulls()
	})
}

// drop ends a membership; failed says that it was not left in order.
func (m *fakeMember) drop(failed bool) {
	if m.gone {
		return
	}
	m.gone = true
	delete(m.c.subs, m.sub)
	g := m.g
	for i, o := range g.members {
		if o == m {
			g.members = append(g.members[:i], g.members[i+1:]...)
			break
		}
	}
	g.joins++
	for i, o := range g.parts {
		if o.noticed == m {
			o.notice, o.noticed = nil, nil
		}
		if o.owner == m {
			g.disown(i, failed)
		}
	}
	g.plan()
	g.b.servePulls()
}

func (g *fakeGroup) topicDeleted() {
	for i, o := range g.parts {
		if o.owner != nil {
			g.notify(i, o.owner, codec.NoticeRevoke)
		}
	}
	for _, m := range g.members {
		m.gone = true
		delete(m.c.subs, m.sub)
		if p := m.c.pull; p != nil && p.m == m {
			m.c.endPull()
		}
	}
}

func (c *fakeConn) servePull(payload []byte) {
	req, err := codec.DecodePull(payload)
	if err != nil {
		c.b.tb.Errorf("PULL: %v", err)
		return
	}
	m := c.member(codec.OpPull, req.SubscriptionID, req.MemberID, codec.CodeStaleGeneration)
	if m == nil {
		return
	}
	m.pulled++
	p := &fakePull{m: m, req: req}
	code := m.deliver(p)
	switch {
	case p.n > 0:
		c.ok(codec.OpPull, nil)
	case code != 0:
		c.err(codec.OpPull, code, "")
	case req.WaitMs == 0:
		c.ok(codec.OpPull, nil)
	default:
		c.pull = p
		c.b.waiting = true
		p.timer = time.AfterFunc(time.Duration(req.WaitMs)*time.Millisecond, func() {
			c.b.mu.Lock()
			defer c.b.mu.Unlock()
			if c.pull == p {
				c.endPull()
			}
		})
	}
}

// endPull answers the PULL that waits.
func (c *fakeConn) endPull() {
	if p := c.pull; p != nil {
		c.pull = nil
		p.timer.Stop()
		c.ok(codec.OpPull, nil)
	}
}

// servePulls looks at every PULL that waits.
func (b *fakeBroker) servePulls() {
	for c := range b.conns {
		p := c.pull
		if p == nil {
			continue
		}
		code := p.m.deliver(p)
		if p.n > 0 || code != 0 {
			c.pull = nil
			p.timer.Stop()
			if p.n > 0 {
				c.ok(codec.OpPull, nil)
			} else {
				c.err(codec.OpPull, code, "")
			}
		}
	}
}

// member finds the member that a request names, or answers code.
func (c *fakeConn) member(op codec.Op, sub codec.SubscriptionID, id codec.MemberID, code codec.Code) *fakeMember {
	m := c.subs[sub]
	if m == nil || id != 0 && m.id != id {
		c.err(op, code, "")
		return nil
	}
	return m
}

// deliver writes what the PULL may get. The code says why nothing, if nothing.
func (m *fakeMember) deliver(p *fakePull) codec.Code {
	limit := int(p.req.MaxMsgs)
	if limit == 0 {
		limit = 1 << 30
	}
	for i, o := range m.g.parts {
		for o.owner == m && p.n < limit {
			seq := o.candidate()
			if seq == 0 || int(seq) > len(m.g.topic.parts[i].log) {
				break
			}
			msg := &m.g.topic.parts[i].log[seq-1]
			size := len(msg.key) + len(msg.value)
			switch {
			case size > m.bytes:
				return codec.CodeMessageExceedsCredit
			case m.outN+1 > m.count || m.outB+size > m.bytes:
				return codec.CodeNoCredit
			}
			o.take(seq)
			m.send(i, o, seq, msg, size)
			p.n++
		}
	}
	if m.outN >= m.count {
		return codec.CodeNoCredit
	}
	return 0
}

// candidate returns the sequence to deliver next: one that is due again, else a new one.
func (o *fakeOwned) candidate() codec.Sequence {
	now := time.Now()
	for _, a := range o.again {
		if !a.at.After(now) {
			return a.seq
		}
	}
	return codec.Sequence(o.next + 1)
}

func (o *fakeOwned) take(seq codec.Sequence) {
	for i, a := range o.again {
		if a.seq == seq {
			o.again = append(o.again[:i], o.again[i+1:]...)
			return
		}
	}
	o.next = int(seq)
}

func (m *fakeMember) send(part int, o *fakeOwned, seq codec.Sequence, msg *fakeMessage, size int) {
	b := m.g.b
	d := &fakeDelivery{id: codec.DeliveryID(b.number()), member: m, size: size}
	d.timer = time.AfterFunc(b.lease, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		o.expire(b, seq, d)
	})
	o.flying[seq] = d
	m.outN++
	m.outB += size
	frame := codec.Msg{
		SubscriptionID: m.sub, TopicID: m.g.topic.id, Partition: codec.Partition(part),
		Sequence: seq, DeliveryID: d.id, Attempt: 1 + o.attempts[seq], OwnershipEpoch: o.epoch,
		ProducerID: msg.id, ProducerSeq: msg.seq, Key: []byte(msg.key), Value: []byte(msg.value),
	}
	if m.g.topic.id.IsTwin() {
		frame.Flags = codec.MsgDeadLetter
		frame.Origin = codec.Origin{
			TopicID: m.g.topic.id.Source(), Partition: codec.Partition(part), Sequence: seq,
			Attempts: 5, Reason: codec.DeadReject, Group: []byte("workers"),
		}
	}
	m.c.out = codec.AppendMsg(m.c.out, &frame)
	m.c.wake.Broadcast()
}

// delivery finds the delivery that ACK or NACK names, or answers why not.
func (c *fakeConn) delivery(op codec.Op, sub codec.SubscriptionID, part codec.Partition, seq codec.Sequence, id codec.DeliveryID, epoch codec.OwnershipEpoch) (*fakeMember, *fakeOwned) {
	m := c.member(op, sub, 0, codec.CodeStaleGeneration)
	if m == nil {
		return nil, nil
	}
	o := m.g.parts[part]
	switch d := o.flying[seq]; {
	case o.epoch != epoch || o.owner != m:
		c.err(op, codec.CodeStaleOwner, "")
	case d == nil || d.id != id:
		c.err(op, codec.CodeUnknownDelivery, "")
	default:
		return m, o
	}
	return nil, nil
}

func (c *fakeConn) ack(payload []byte) {
	a, err := codec.DecodeAck(payload)
	if err != nil {
		c.b.tb.Errorf("ACK: %v", err)
		return
	}
	m, o := c.delivery(codec.OpAck, a.SubscriptionID, a.Partition, a.Seq, a.DeliveryID, a.OwnershipEpoch)
	if m == nil {
		return
	}
	if a.Flags&codec.AckProgress != 0 {
		o.flying[a.Seq].timer.Reset(c.b.lease)
		o.flying[a.Seq].kept++
	} else {
		o.settle(a.Seq)
		o.settled[a.Seq] = true
	}
	c.ok(codec.OpAck, nil)
}

func (c *fakeConn) nack(payload []byte) {
	n, err := codec.DecodeNack(payload)
	if err != nil {
		c.b.tb.Errorf("NACK: %v", err)
		return
	}
	m, o := c.delivery(codec.OpNack, n.SubscriptionID, n.Partition, n.Seq, n.DeliveryID, n.OwnershipEpoch)
	if m == nil {
		return
	}
	o.settle(n.Seq)
	switch n.Reason {
	case codec.NackReject:
		o.settled[n.Seq] = true
		twin := c.b.byID[m.g.topic.id.Twin()]
		p := twin.parts[n.Partition]
		p.log = append(p.log, m.g.topic.parts[n.Partition].log[n.Seq-1])
	case codec.NackRelease:
		o.retry(c.b, n.Seq, false, c.b.release)
	default:
		o.retry(c.b, n.Seq, true, c.b.retry)
	}
	c.ok(codec.OpNack, nil)
}

func (c *fakeConn) heartbeat(payload []byte) {
	h, err := codec.DecodeHeartbeat(payload)
	if err != nil {
		c.b.tb.Errorf("HEARTBEAT: %v", err)
		return
	}
	m := c.member(codec.OpHeartbeat, h.SubscriptionID, h.MemberID, codec.CodeUnknownMember)
	if m == nil {
		return
	}
	m.beats++
	c.ok(codec.OpHeartbeat, nil)
	if h.State == codec.HeartbeatLeave {
		m.drop(false)
	}
}

func (c *fakeConn) credit(payload []byte) {
	r, err := codec.DecodeCredit(payload)
	if err != nil {
		c.b.tb.Errorf("CREDIT: %v", err)
		return
	}
	m := c.member(codec.OpCredit, r.SubscriptionID, 0, codec.CodeStaleGeneration)
	if m == nil {
		return
	}
	if r.Mode == codec.CreditSet {
		m.count, m.bytes = int(r.CreditCount), int(r.CreditBytes)
	} else {
		m.count, m.bytes = m.count+int(r.CreditCount), m.bytes+int(r.CreditBytes)
	}
	c.ok(codec.OpCredit, codec.AppendCreditResult(nil, &codec.CreditResult{
		GrantedCount: uint16(m.count), GrantedBytes: uint32(m.bytes),
		OutstandingCount: uint16(m.outN), OutstandingBytes: uint32(m.outB), CreditEpoch: c.b.number(),
	}))
}

// group returns the group's state for a test to look at, with the lock to be held.
func (b *fakeBroker) group(topic, name string) *fakeGroup {
	return b.groups[groupKey{b.byName[topic].id, name}]
}

// settledCount returns how many messages the group has acknowledged or rejected.
func (b *fakeBroker) settledCount(topic, name string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	g := b.group(topic, name)
	if g == nil {
		return 0
	}
	n := 0
	for _, o := range g.parts {
		n += len(o.settled)
	}
	return n
}
