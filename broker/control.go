package broker

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mortarmq/mortarmq/codec"
	"github.com/mortarmq/mortarmq/coord"
	"github.com/mortarmq/mortarmq/flow"
	mlog "github.com/mortarmq/mortarmq/log"
	"github.com/mortarmq/mortarmq/repl"
)

// controlTick is how often deadlines of members and notices are looked at.
const controlTick = 250 * time.Millisecond

// maxControl bounds the requests that may wait for the control plane; more are answered 0x4001.
const maxControl = 1 << 16

// control gives the control plane its goroutine, its log (the meta group) and
// the means to act. Everything but box is touched by that goroutine only.
type control struct {
	b     *Broker
	core  *coord.Core
	group *repl.Group
	log   *mlog.Log
	box   *controlBox
	ready chan struct{} // closed once the meta log is applied and led
	done  chan struct{}
	err   error // after done

	leading  bool
	conns    map[uint64]*flow.Conn
	subs     map[codec.MemberID]*flow.Subscription
	gone     []codec.MemberID // to be taken out of subs after these effects
	answers  [][]flow.Completion
	notices  [][]flow.Notice
	stopping bool
}

// openControl reads the meta log.
func openControl(b *Broker) (*control, error) {
	ct := &control{
		b: b, box: newControlBox(), ready: make(chan struct{}), done: make(chan struct{}),
		conns:   map[uint64]*flow.Conn{},
		subs:    map[codec.MemberID]*flow.Subscription{},
		answers: make([][]flow.Completion, b.reactors()),
		notices: make([][]flow.Notice, b.reactors()),
		core: coord.New(coord.Config{
			DefaultPartitions: b.cfg.PartitionDefaultCount,
			MaxPartitions:     b.cfg.PartitionMaxCount,
		}),
	}
	o := b.logOptions("meta")
	o.Policy = mlog.SyncAlways // metadata is rare and always durable
	o.SegmentMaxBytes = min(o.SegmentMaxBytes, 1<<20)
	o.OnSync = nil
	o.OnWritten = ct.box.written
	var err error
	if ct.log, err = mlog.Open(o); err != nil {
		return nil, err
	}
	ct.group, err = repl.New(repl.Config{ID: 1, Voters: []uint64{1}, Log: ct.log, Logger: b.log}, 0)
	if err != nil {
		return nil, errors.Join(err, ct.log.Close())
	}
	return ct, nil
}

// run starts the goroutine: it replays the meta log, leads, and serves until stop.
func (ct *control) run() {
	go func() {
		defer close(ct.done)
		err := ct.serve()
		ct.box.close()
		if cerr := ct.log.Close(); err == nil {
			err = cerr
		}
		if ct.err = err; err != nil {
			ct.b.fail("meta", err)
		}
	}()
}

// do runs f on the control goroutine, in order. It reports false when too much
// waits or the goroutine has ended: f will not run.
func (ct *control) do(f func(ct *control)) bool { return ct.box.put(f) }

// ask runs f on the control goroutine and waits for it. It reports false when the
// goroutine has ended.
func (ct *control) ask(f func(ct *control)) bool {
	ran := make(chan struct{})
	if !ct.box.force(func(ct *control) { f(ct); close(ran) }) {
		return false
	}
	select {
	case <-ran:
		return true
	case <-ct.done:
		return false
	}
}

// stop hands everything back and ends the goroutine. Safe when it never ran.
func (ct *control) stop() error {
	if !ct.box.force(func(ct *control) { ct.effects(ct.core.Follow()); ct.stopping = true }) {
		<-ct.done
		return ct.err
	}
	select {
	case <-ct.ready: // it runs, or has run
	default:
		return ct.log.Close()
	}
	<-ct.done
	return ct.err
}

func (ct *control) serve() error {
	if err := ct.group.Campaign(); err != nil {
		return err
	}
	if err := ct.pump(); err != nil {
		return err
	}
	tick := time.NewTicker(controlTick)
	defer tick.Stop()
	for !ct.stopping {
		select {
		case <-ct.box.bell:
		case <-tick.C:
			if ct.leading {
				ct.step(coord.Tick{Seen: ct.seen})
			}
		}
		in := ct.box.take()
		if in.failed != nil {
			return in.failed
		}
		if in.upTo > 0 {
			if err := ct.group.Written(in.upTo); err != nil {
				return err
			}
		}
		for _, f := range in.funcs {
			f(ct)
		}
		if err := ct.pump(); err != nil {
			return err
		}
	}
	return nil
}

// pump lets raft work and takes over the lead once everything of earlier terms is applied.
func (ct *control) pump() error {
	err := ct.group.Pump(func(e mlog.Entry) error {
		if len(e.Data) == 0 {
			return nil
		}
		effects, err := ct.core.Apply(uint64(e.Index), e.Data)
		if err != nil {
			return err
		}
		ct.effects(effects)
		return nil
	})
	if err != nil {
		return err
	}
	leads, term := ct.group.Leader()
	if leads && !ct.leading && ct.group.Applied() == ct.log.LastIndex() {
		ct.leading = true
		ct.publish()
		ct.effects(ct.core.Lead(term))
		close(ct.ready)
	}
	return nil
}

func (ct *control) step(cmd coord.Command) { ct.effects(ct.core.Step(ct.b.clock.Now(), cmd)) }

func (ct *control) seen(id codec.MemberID) time.Duration {
	if sub := ct.subs[id]; sub != nil {
		return time.Duration(sub.LastSeen.Load())
	}
	return 0
}

// request brings a client's request to coord.
func (ct *control) request(c *flow.Control) {
	ct.conns[c.Conn.ID] = c.Conn
	token := coord.Token{Conn: c.Conn.ID, Slot: c.Slot}
	switch c.Op {
	case codec.OpDeclare:
		if ct.lowDisk(&c.Declare) {
			ct.effects([]coord.Effect{coord.Reply{Token: token, Op: c.Op, Code: codec.CodeStorageHighWatermark}})
			return
		}
		ct.step(coord.Declare{Token: token, Req: c.Declare})
	case codec.OpSub:
		ct.step(coord.Subscribe{Token: token, Req: c.Sub})
	case codec.OpHeartbeat:
		ct.step(coord.Leave{Token: token, Member: c.Leave.Member})
	case codec.OpControlAck:
		ct.step(coord.ControlAck{Token: token, Req: c.ControlAck})
	default:
		panic(fmt.Sprintf("broker: %s is not the control plane's", c.Op))
	}
}

// lowDisk reports whether a DECLARE would create a topic on a disk below its reserve.
// One that looks a topic up, or deletes one, is served: consuming goes on.
func (ct *control) lowDisk(m *codec.Declare) bool {
	if !ct.b.state.diskLow.Load() || m.Flags&codec.DeclareDelete != 0 || m.PartitionCount > ct.b.cfg.PartitionMaxCount {
		return false
	}
	_, exists := ct.core.TopicByName(string(m.Topic))
	return !exists
}

// closed ends what a connection held.
func (ct *control) closed(c *flow.Conn) {
	if ct.conns[c.ID] != nil {
		ct.step(coord.Disconnect{Conn: c.ID})
		delete(ct.conns, c.ID)
	}
}

// publish makes the table of topics anew.
func (ct *control) publish() {
	t := &flow.Topics{Shards: ct.b.node.Shards}
	for topic := range ct.core.Topics() {
		if need := int(topic.ID.Twin()) + 1; need > len(t.ByID) {
			t.ByID = append(t.ByID, make([]flow.Topic, need-len(t.ByID))...)
		}
		t.ByID[topic.ID] = flow.Topic{Exists: true, Name: topic.Name, Partitions: topic.Partitions}
		t.ByID[topic.ID.Twin()] = flow.Topic{Exists: true, Name: topic.Name + codec.TwinSuffix, Partitions: topic.Partitions}
	}
	ct.b.topics.Store(t)
}

// controlBox is the mailbox of the control goroutine.
type controlBox struct {
	mu     sync.Mutex
	in     controlInbox
	closed bool
	bell   chan struct{}
}

type controlInbox struct {
	funcs  []func(ct *control)
	upTo   mlog.Ticket
	failed error
}

func newControlBox() *controlBox { return &controlBox{bell: make(chan struct{}, 1)} }

// put leaves f unless too much waits already.
func (x *controlBox) put(f func(ct *control)) bool { return x.leave(f, maxControl) }

// force leaves f whatever waits.
func (x *controlBox) force(f func(ct *control)) bool { return x.leave(f, int(^uint(0)>>1)) }

func (x *controlBox) leave(f func(ct *control), limit int) bool {
	x.mu.Lock()
	ok := !x.closed && len(x.in.funcs) < limit
	if ok {
		x.in.funcs = append(x.in.funcs, f)
	}
	x.mu.Unlock()
	x.ring()
	return ok
}

// written takes the reports of the log's writer.
func (x *controlBox) written(upTo mlog.Ticket, err error) {
	x.mu.Lock()
	x.in.upTo = max(x.in.upTo, upTo)
	if err != nil && x.in.failed == nil {
		x.in.failed = err
	}
	x.mu.Unlock()
	x.ring()
}

func (x *controlBox) ring() {
	select {
	case x.bell <- struct{}{}:
	default:
	}
}

func (x *controlBox) take() controlInbox {
	x.mu.Lock()
	defer x.mu.Unlock()
	in := x.in
	x.in = controlInbox{}
	return in
}

func (x *controlBox) close() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.closed = true
}
