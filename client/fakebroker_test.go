package client

import (
	"net"
	"sync"
	"testing"
	"time"

	"github.com/mortarmq/mortarmq/codec"
)

// fakeBroker is a broker in memory, small and slow, that keeps the rules the
// client relies on: order of answers (S6), dedup windows (P4), groups with
// notices, credit and redelivery (fakegroup_test.go). A test can have it fail at
// any request.
type fakeBroker struct {
	tb   testing.TB
	ln   net.Listener
	addr string
	wg   sync.WaitGroup

	// Fixed before the first connection.
	token   string        // "" accepts any
	lease   time.Duration // of a delivery
	retry   time.Duration // backoff before a redelivery
	release time.Duration // the same after NACK RELEASE

	mu       sync.Mutex
	down     bool // refuses connections by closing them
	closed   bool
	conns    map[*fakeConn]struct{}
	byName   map[string]*fakeTopic
	byID     map[codec.TopicID]*fakeTopic
	groups   map[groupKey]*fakeGroup
	nextID   codec.TopicID
	nextNum  uint64 // members, deliveries, notices, epochs
	hook     func(r *fakeRequest) fault
	requests int
	accepted int // connections
	waiting  bool
}

// fakeRequest is what a hook sees. The broker's lock is held.
type fakeRequest struct {
	n       int // counts all requests of the broker, from 1
	conn    *fakeConn
	op      codec.Op
	payload []byte
}

// fault is what goes wrong with one request. The zero value: nothing.
type fault struct {
	code      codec.Code // answer this instead of serving
	message   string
	cutBefore bool   // close the connection instead of serving
	cutAfter  bool   // serve, then close instead of answering
	mute      bool   // neither serve nor answer, and keep the connection
	silent    bool   // serve, but do not answer
	raw       []byte // answer these bytes instead of serving
	// late ends the connection as the client sees it, but serves what it had
	// sent so far after this long: a broker that was busy when the client left.
	late time.Duration
}

type fakeTopic struct {
	name  string
	id    codec.TopicID
	parts []*fakePartition
}

// fakeMessage is a stored message; its sequence is its index plus 1.
type fakeMessage struct {
	id         codec.ProducerID
	seq        codec.ProducerSeq
	key, value string
}

type fakePartition struct {
	log       []fakeMessage
	producers map[codec.ProducerID]*fakeProducer
}

// fakeProducer is a dedup window.
type fakeProducer struct {
	first, last codec.ProducerSeq
	sequences   map[codec.ProducerSeq]codec.Sequence
}

type fakeConn struct {
	b         *fakeBroker
	nc        net.Conn
	out       []byte
	wake      *sync.Cond
	gone      bool
	connected bool
	deaf      bool // nobody hears the answers any more
	subs      map[codec.SubscriptionID]*fakeMember
	nextSub   codec.SubscriptionID
	pull      *fakePull // the one that waits
}

func newFakeBroker(tb testing.TB) *fakeBroker {
	tb.Helper()
	b := &fakeBroker{
		tb: tb, lease: 30 * time.Second, retry: 20 * time.Millisecond, release: 5 * time.Millisecond,
		conns:  make(map[*fakeConn]struct{}),
		byName: make(map[string]*fakeTopic), byID: make(map[codec.TopicID]*fakeTopic),
		groups: make(map[groupKey]*fakeGroup), nextID: 1,
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	b.ln, b.addr = ln, ln.Addr().String()
	b.wg.Add(1)
	go b.acceptLoop()
	tb.Cleanup(b.close)
	return b
}

func (b *fakeBroker) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.ln.Close()
	b.cutAll()
	b.wg.Wait()
}

// cutAll closes every connection, as a restart does.
func (b *fakeBroker) cutAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.conns {
		c.cut()
	}
}

// setDown makes the broker unreachable, or reachable again.
func (b *fakeBroker) setDown(down bool) {
	b.mu.Lock()
	b.down = down
	b.mu.Unlock()
	if down {
		b.cutAll()
	}
}

// setHook installs the fault injection.
func (b *fakeBroker) setHook(hook func(r *fakeRequest) fault) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hook = hook
}

// addTopic makes a topic as DECLARE does.
func (b *fakeBroker) addTopic(name string, partitions int) *fakeTopic {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.makeTopic(name, partitions)
}

func (b *fakeBroker) makeTopic(name string, partitions int) *fakeTopic {
	var source *fakeTopic
	for i, n := range []string{name, name + codec.TwinSuffix} {
		t := &fakeTopic{name: n, id: b.nextID}
		b.nextID++
		for range partitions {
			t.parts = append(t.parts, &fakePartition{producers: make(map[codec.ProducerID]*fakeProducer)})
		}
		b.byID[t.id] = t
		b.byName[n] = t
		if i == 0 {
			source = t
		}
	}
	return source
}

// stored returns what a partition holds.
func (b *fakeBroker) stored(topic string, part int) []fakeMessage {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]fakeMessage(nil), b.byName[topic].parts[part].log...)
}

func (b *fakeBroker) acceptLoop() {
	defer b.wg.Done()
	for {
		nc, err := b.ln.Accept()
		if err != nil {
			return
		}
		b.mu.Lock()
		if b.down || b.closed {
			b.mu.Unlock()
			nc.Close()
			continue
		}
		c := &fakeConn{b: b, nc: nc, wake: sync.NewCond(&b.mu), subs: make(map[codec.SubscriptionID]*fakeMember)}
		b.conns[c] = struct{}{}
		b.accepted++
		b.mu.Unlock()
		b.wg.Add(2)
		go c.readLoop()
		go c.writeLoop()
	}
}

// cut ends a connection at once. Called with the lock held.
func (c *fakeConn) cut() {
	if c.gone {
		return
	}
	c.gone = true
	delete(c.b.conns, c)
	c.nc.Close()
	c.wake.Broadcast()
	c.pull = nil
	for _, m := range c.subs {
		m.drop(true)
	}
}

func (c *fakeConn) readLoop() {
	defer c.b.wg.Done()
	buf := make([]byte, 0, 64<<10)
	for {
		for {
			op, payload, n, need, err := codec.Cut(buf)
			if err != nil {
				c.b.tb.Errorf("the client sent no frame: %v", err)
				n = 0
			}
			if n == 0 {
				if len(buf)+need > cap(buf) {
					buf = append(make([]byte, 0, 2*(len(buf)+need)), buf...)
				}
				break
			}
			if !c.serve(op, payload) {
				return
			}
			buf = append(buf[:0], buf[n:]...)
		}
		n, err := c.nc.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if err != nil {
			c.b.mu.Lock()
			c.cut()
			c.b.mu.Unlock()
			return
		}
	}
}

func (c *fakeConn) writeLoop() {
	defer c.b.wg.Done()
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	for {
		for len(c.out) == 0 && !c.gone {
			c.wake.Wait()
		}
		if c.gone {
			return
		}
		buf := c.out
		c.out = nil
		if c.deaf {
			continue
		}
		c.b.mu.Unlock()
		c.nc.Write(buf) // a failure shows at the reader
		c.b.mu.Lock()
	}
}

func (c *fakeConn) ok(op codec.Op, result []byte) {
	c.out = codec.AppendOK(c.out, &codec.OK{RequestOp: op, Result: result})
	c.wake.Broadcast()
}

func (c *fakeConn) err(op codec.Op, code codec.Code, message string) {
	c.out = codec.AppendErrCode(c.out, code, uint8(op), message)
	c.wake.Broadcast()
}

// serve deals with one request and reports whether the connection lives.
func (c *fakeConn) serve(op codec.Op, payload []byte) bool {
	b := c.b
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.gone {
		return false
	}
	c.endPull() // V2
	var f fault
	if op != codec.OpConnect {
		b.requests++
		if b.hook != nil {
			f = b.hook(&fakeRequest{n: b.requests, conn: c, op: op, payload: payload})
		}
	}
	if f.late > 0 && !c.deaf {
		c.deaf = true
		c.nc.(*net.TCPConn).CloseWrite()
		b.mu.Unlock()
		time.Sleep(f.late)
		b.mu.Lock()
		f = fault{}
	}
	switch {
	case c.gone, f.cutBefore:
		c.cut()
	case f.mute:
	case f.raw != nil:
		c.out = append(c.out, f.raw...)
		c.wake.Broadcast()
	case f.code != 0:
		c.err(op, f.code, f.message)
	default:
		before := len(c.out)
		c.dispatch(op, payload)
		if f.cutAfter || f.silent {
			c.out = c.out[:min(before, len(c.out))]
		}
		if f.cutAfter {
			c.cut()
		}
	}
	return !c.gone
}

func (c *fakeConn) dispatch(op codec.Op, payload []byte) {
	switch op {
	case codec.OpConnect:
		m, err := codec.DecodeConnect(payload)
		switch {
		case err != nil:
			c.b.tb.Errorf("CONNECT: %v", err)
		case c.b.token != "" && string(m.Token) != c.b.token:
			c.err(op, codec.CodeAuthFailed, "the token is not known")
		default:
			c.connected = true
			c.ok(op, nil)
		}
	case codec.OpPing:
		c.ok(op, nil)
	case codec.OpDeclare:
		c.declare(payload)
	case codec.OpPub:
		c.pub(payload)
	case codec.OpSub:
		c.sub(payload)
	case codec.OpPull:
		c.servePull(payload)
	case codec.OpAck:
		c.ack(payload)
	case codec.OpNack:
		c.nack(payload)
	case codec.OpHeartbeat:
		c.heartbeat(payload)
	case codec.OpControlAck:
		c.controlAck(payload)
	case codec.OpCredit:
		c.credit(payload)
	default:
		c.b.tb.Errorf("the client sent %v", op)
	}
}

func (c *fakeConn) declare(payload []byte) {
	b := c.b
	m, err := codec.DecodeDeclare(payload)
	if err != nil {
		b.tb.Errorf("DECLARE: %v", err)
		return
	}
	t := b.byName[string(m.Topic)]
	result := codec.DeclareResult{PartitionCount: m.PartitionCount, Created: codec.CreatedNew}
	switch {
	case t == nil && m.Flags&codec.DeclareDelete != 0:
		c.err(codec.OpDeclare, codec.CodeUnknownTopic, "no such topic: mortarmq topics create")
		return
	case t != nil && m.PartitionCount != 0 && int(m.PartitionCount) != len(t.parts):
		c.err(codec.OpDeclare, codec.CodeTopicExistsMismatch, "")
		return
	case t != nil && m.Flags&codec.DeclareDelete != 0:
		b.removeTopic(t)
		result.Created = codec.CreatedNew
	case t != nil:
		result.Created = codec.CreatedExisted
	case m.PartitionCount > 1024:
		c.err(codec.OpDeclare, codec.CodeQuotaExceeded, "")
		return
	default:
		n := int(m.PartitionCount)
		if n == 0 {
			n = 4
		}
		t = b.makeTopic(string(m.Topic), n)
	}
	result.TopicID, result.PartitionCount = t.id, uint16(len(t.parts))
	c.ok(codec.OpDeclare, codec.AppendDeclareResult(nil, &result))
}

func (b *fakeBroker) removeTopic(t *fakeTopic) {
	for _, id := range []codec.TopicID{t.id, t.id.Twin()} {
		delete(b.byName, b.byID[id].name)
		delete(b.byID, id)
		for key, g := range b.groups {
			if key.topic == id {
				g.topicDeleted()
				delete(b.groups, key)
			}
		}
	}
}

func (c *fakeConn) pub(payload []byte) {
	b := c.b
	m, err := codec.DecodePub(payload)
	if err != nil {
		b.tb.Errorf("PUB: %v", err)
		return
	}
	t := b.byID[m.TopicID]
	switch {
	case t == nil:
		c.err(codec.OpPub, codec.CodeUnknownTopic, "")
		return
	case int(m.Partition) >= len(t.parts):
		c.err(codec.OpPub, codec.CodeUnknownPartition, "")
		return
	}
	sequence, dup, code := t.parts[m.Partition].store(&m)
	if code != 0 {
		c.err(codec.OpPub, code, "")
		return
	}
	r := codec.PubResult{Sequence: sequence, Durability: codec.DurableDisk, CommitSeq: sequence}
	if dup {
		r.ResultFlags = codec.PubDeduped
	}
	c.out = codec.AppendPubOK(c.out, &r)
	c.wake.Broadcast()
	if !dup && b.waiting {
		b.servePulls()
	}
}

// store is rule P4.
func (p *fakePartition) store(m *codec.Pub) (sequence codec.Sequence, dup bool, code codec.Code) {
	w := p.producers[m.ProducerID]
	if m.ProducerID != 0 {
		switch {
		case w == nil:
			w = &fakeProducer{first: m.ProducerSeq, last: m.ProducerSeq - 1, sequences: make(map[codec.ProducerSeq]codec.Sequence)}
			p.producers[m.ProducerID] = w
		case m.ProducerSeq > w.last+1:
			return 0, false, codec.CodeSeqGap
		case m.ProducerSeq < w.first || m.ProducerSeq+dedupWindow <= w.last:
			return 0, false, codec.CodeSeqExpired
		case m.ProducerSeq <= w.last:
			return w.sequences[m.ProducerSeq], true, 0
		}
		w.last = m.ProducerSeq
		delete(w.sequences, m.ProducerSeq-dedupWindow)
	}
	p.log = append(p.log, fakeMessage{id: m.ProducerID, seq: m.ProducerSeq, key: string(m.Key), value: string(m.Value)})
	sequence = codec.Sequence(len(p.log))
	if w != nil {
		w.sequences[m.ProducerSeq] = sequence
	}
	return sequence, false, 0
}
