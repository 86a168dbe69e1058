package shard

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/mortarmq/mortarmq/codec"
	"github.com/mortarmq/mortarmq/flow"
	mlog "github.com/mortarmq/mortarmq/log"
	"github.com/mortarmq/mortarmq/repl"
)

// Config holds the rules of a shard. Durations are on the monotonic clock.
type Config struct {
	ID     int // counts from 0
	Shards int

	DeliveryLease       time.Duration // V7
	DeliveryMaxAttempts uint16        // V11
	RetryBackoffBase    time.Duration // V10
	RetryBackoffMax     time.Duration
	ProducerIdle        time.Duration // P5
	Durability          uint8         // what an OK promises (P3)
	Seed                uint64        // of the retry jitter

	Logger *slog.Logger
}

// Fixed by the rules.
const (
	releaseDelay = 100 * time.Millisecond // V10
	ledgerDelay  = 20 * time.Millisecond  // V14
	retryPoll    = 5 * time.Millisecond   // how long a due retry waits for its record to reach the disk
	forgetEvery  = time.Minute
)

// sealInFlight is how many entries may be on their way to the disk: one being
// written and one ready, so that the disk never idles and arrivals gather.
const sealInFlight = 2

// sealBytes is where a batch is full: requests stay in the mailbox until it is
// sealed. One message may be larger.
const sealBytes = 4 << 20

// Core is the state of one shard and the rules that change it. It is driven by
// one goroutine and takes time as an argument; its outputs gather in out and
// forwards.
type Core struct {
	cfg   Config
	log   *mlog.Log
	group *repl.Group
	rnd   *rand.Rand

	topics  [][]*partition // by topic id, then partition; nil where another shard owns it or nobody
	members map[codec.MemberID]*member
	names   map[codec.GroupID]string // of groups, for the origin of dead letters (V12)
	kept    map[codec.TopicID]bool   // source topics that exist; nil: not told, keep all
	leading bool
	term    uint64

	now    time.Duration // of this turn
	wall   int64         // ms, of this turn
	jitter float64       // of this turn's backoffs, 0 to 1
	// replayedAge is the age clock of the last replayed entry, ms; age goes on from there.
	replayedAge int64

	batch    *batch   // being filled
	inflight []*batch // sealed, not applied yet, oldest first
	sealed   uint64   // number of the last sealed batch
	applied  uint64   // number of the last applied batch
	free     []*batch

	dirtyLedgers []*ledger
	dirtySince   time.Duration
	timed        []*ledger // that have leases or retries running
	parked       parkHeap
	woken        []*member
	nextForget   time.Duration
	lastDelivery codec.DeliveryID

	view view
	// damage is what of the log could not be read at the start.
	damage []*mlog.CorruptionError
	// clamped counts floors that stood above the end of a damaged log (V15).
	clamped uint64

	// Outputs of this turn.
	out      [][]flow.Completion // by reactor
	forwards []forward
	done     []func() // callbacks of commands whose records are on disk
}

// forward hands a PULL token to another shard.
type forward struct {
	shard int
	pull  *flow.Pull
}

// view is the entry that was read last; valid until the log is touched.
type view struct {
	index mlog.Index
	data  []byte
}

// NewCore returns a shard without topics; Replay fills it from the log.
func NewCore(cfg Config, log *mlog.Log, group *repl.Group, reactors int) *Core {
	return &Core{
		cfg: cfg, log: log, group: group,
		rnd:     rand.New(rand.NewPCG(cfg.Seed, uint64(cfg.ID))),
		members: make(map[codec.MemberID]*member),
		names:   make(map[codec.GroupID]string),
		out:     make([][]flow.Completion, reactors),
		batch:   &batch{},
	}
}

// begin starts a turn.
func (c *Core) begin(now time.Duration, wallMs int64) {
	c.now, c.wall = now, wallMs
	c.jitter = c.rnd.Float64()
}

// age is the age clock in ms: it advances with the monotonic clock and goes on where
// the log ended, so that a step of the wall clock ages nothing.
func (c *Core) age() int64 { return c.replayedAge + c.now.Milliseconds() }

// pump lets raft work: appends go to the log, committed entries are applied.
func (c *Core) pump() error {
	c.view = view{}
	if err := c.group.Pump(c.apply); err != nil {
		return err
	}
	leads, term := c.group.Leader()
	if leads && !c.leading && c.group.Applied() == c.log.LastIndex() {
		// Everything of earlier terms is applied: the state is complete.
		c.leading, c.term = true, term
		c.lead()
	}
	return nil
}

// lead begins a term: what was in flight when the last one ended failed an attempt (V8).
func (c *Core) lead() {
	c.dropDeleted()
	c.closeSuspects()
	c.trimmed()
	for _, parts := range c.topics {
		for _, p := range parts {
			if p == nil {
				continue
			}
			for _, l := range p.ledgers {
				for seq := l.floor + 1; seq <= l.cursor; seq++ {
					switch s := l.slot(seq); s.state {
					case slotInFlight:
						c.failSlot(l, seq, s, codec.DeadMemberLost)
					case slotWaiting:
						l.retryAt(seq, c.now+c.backoff(s.attempts))
						c.watch(l)
					}
				}
			}
		}
	}
}

// timers does what has come due and returns when to look again, 0 for never.
func (c *Core) timers() time.Duration {
	var next time.Duration
	keep := c.timed[:0]
	for _, l := range c.timed {
		c.expire(l)
		if seq, due := l.nextRetry(c.now); due && l.owner != nil {
			if s := l.slot(seq); s.batch > c.applied {
				// Its failure is not on disk yet: look again shortly.
				next = earlier(next, c.now+retryPoll)
			} else {
				c.wake(l.owner)
			}
		}
		at := l.timer()
		if at == 0 {
			l.timed = false
			continue
		}
		keep = append(keep, l)
		if at > c.now {
			next = earlier(next, at)
		}
	}
	clear(c.timed[len(keep):])
	c.timed = keep
	c.serveWoken()
	next = earlier(next, c.expirePulls())
	if c.now >= c.nextForget {
		c.forgetProducers()
		c.nextForget = c.now + forgetEvery
	}
	next = earlier(next, c.nextForget)
	if len(c.dirtyLedgers) > 0 {
		next = earlier(next, max(c.dirtySince+ledgerDelay, c.now+time.Millisecond))
	}
	return next
}

func earlier(a, b time.Duration) time.Duration {
	if a == 0 || (b != 0 && b < a) {
		return b
	}
	return a
}

// watch makes sure that timers looks at l.
func (c *Core) watch(l *ledger) {
	if !l.timed {
		l.timed = true
		c.timed = append(c.timed, l)
	}
}

// partition returns a partition, or nil.
func (c *Core) partition(topic codec.TopicID, part codec.Partition) *partition {
	if int(topic) >= len(c.topics) || int(part) >= len(c.topics[topic]) {
		return nil
	}
	return c.topics[topic][part]
}

// ensure returns a partition, making it when it is new.
func (c *Core) ensure(topic codec.TopicID, part codec.Partition) *partition {
	if p := c.partition(topic, part); p != nil {
		return p
	}
	if int(topic) >= len(c.topics) {
		c.topics = append(c.topics, make([][]*partition, int(topic)+1-len(c.topics))...)
	}
	if int(part) >= len(c.topics[topic]) {
		c.topics[topic] = append(c.topics[topic], make([]*partition, int(part)+1-len(c.topics[topic]))...)
	}
	p := newPartition(topic, part)
	c.topics[topic][part] = p
	return p
}

// AddTopic makes the partitions of a topic and its twin that live here.
func (c *Core) AddTopic(source codec.TopicID, partitions uint16) {
	for i := range codec.Partition(partitions) {
		if flow.ShardOf(source, i, c.cfg.Shards) == c.cfg.ID {
			c.ensure(source, i)
			c.ensure(source.Twin(), i)
		}
	}
}

// DropTopic forgets a topic and its twin. Its records stay in the log until the
// log forgets them; ids are never used again.
func (c *Core) DropTopic(source codec.TopicID) {
	for _, id := range []codec.TopicID{source, source.Twin()} {
		if int(id) >= len(c.topics) {
			continue
		}
		for _, p := range c.topics[id] {
			if p == nil {
				continue
			}
			for _, l := range p.ledgers {
				c.disown(l, false)
			}
			c.refuseStaged(p)
		}
		c.topics[id] = nil
	}
}

// Prepare says, before the log is replayed, which source topics exist with how
// many partitions, and the groups' names. Other topics in the log were deleted.
func (c *Core) Prepare(topics map[codec.TopicID]uint16, names map[codec.GroupID]string) {
	c.kept = make(map[codec.TopicID]bool, len(topics))
	for id, partitions := range topics {
		c.kept[id] = true
		c.AddTopic(id, partitions)
	}
	for id, name := range names {
		c.names[id] = name
	}
}

// dropDeleted forgets what the log says of topics that exist no longer.
func (c *Core) dropDeleted() {
	if c.kept == nil {
		return
	}
	for id := range c.topics {
		if id > 0 && !c.kept[codec.TopicID(id).Source()] {
			c.topics[id] = nil
		}
	}
	c.kept = nil
}

// OpenGroup makes sure that every partition of the topic here has a ledger of the
// group, and calls done once that is on disk. A new ledger starts at the
// earliest message or after the newest committed one.
func (c *Core) OpenGroup(topic codec.TopicID, group codec.GroupID, name string, policy uint8, done func()) {
	c.names[group] = name
	fresh := false
	if int(topic) < len(c.topics) {
		for _, p := range c.topics[topic] {
			if p == nil {
				continue
			}
			l := p.ledger(group)
			if l == nil {
				floor := p.earliest - 1
				if policy == codec.StartLatest {
					floor = p.committed
				}
				l = newLedger(p, group, floor)
				p.ledgers = append(p.ledgers, l)
				c.batch.groups = append(c.batch.groups, groupStart{topic, p.id, group, floor})
				fresh = true
			}
		}
	}
	switch {
	case fresh:
		c.batch.done = append(c.batch.done, done)
	case len(c.inflight) > 0:
		// The record may be on its way: later than any of them is late enough.
		last := c.inflight[len(c.inflight)-1]
		last.done = append(last.done, done)
	default:
		c.done = append(c.done, done)
	}
}

// CloseGroup forgets a group's ledgers on a topic. The caller knows that no
// member is left.
func (c *Core) CloseGroup(topic codec.TopicID, group codec.GroupID) {
	if int(topic) >= len(c.topics) {
		return
	}
	for _, p := range c.topics[topic] {
		if p == nil {
			continue
		}
		p.ledgers = slices.DeleteFunc(p.ledgers, func(l *ledger) bool { return l.group == group })
	}
}

// Own starts deliveries of a partition to a member (G6).
func (c *Core) Own(sub *flow.Subscription, part codec.Partition, epoch codec.OwnershipEpoch) error {
	p := c.partition(sub.Topic, part)
	if p == nil {
		return fmt.Errorf("shard: own: topic %d partition %d is not here", sub.Topic, part)
	}
	l := p.ledger(sub.Group)
	if l == nil {
		return fmt.Errorf("shard: own: group %d was not opened on topic %d partition %d", sub.Group, sub.Topic, part)
	}
	if l.owner != nil {
		c.disown(l, true)
	}
	m := c.member(sub)
	l.owner, l.epoch = m, epoch
	m.ledgers = append(m.ledgers, l)
	slices.SortFunc(m.ledgers, func(a, b *ledger) int { return int(a.part.id) - int(b.part.id) })
	c.wake(m)
	return nil
}

// Disown ends deliveries of a partition to a member. fail says whether what is in
// flight failed its attempt (V8) or is handed back.
func (c *Core) Disown(sub *flow.Subscription, part codec.Partition, fail bool) {
	p := c.partition(sub.Topic, part)
	if p == nil {
		return
	}
	if l := p.ledger(sub.Group); l != nil && l.owner != nil && l.owner.sub == sub {
		c.disown(l, fail)
	}
}

// MemberGone forgets a member that owns nothing any more.
func (c *Core) MemberGone(sub *flow.Subscription) {
	m := c.members[sub.Member]
	if m == nil {
		return
	}
	for len(m.ledgers) > 0 {
		c.disown(m.ledgers[0], true)
	}
	delete(c.members, sub.Member)
	// A PULL of it that waits is answered now; one that is elsewhere is
	// answered there.
	if m.pull != nil && m.pull.Cancel() {
		c.complete(m, m.pull, 0)
	}
}

func (c *Core) disown(l *ledger, fail bool) {
	m := l.owner
	if m == nil {
		return
	}
	l.owner = nil
	m.ledgers = slices.DeleteFunc(m.ledgers, func(x *ledger) bool { return x == l })
	for seq := l.floor + 1; seq <= l.cursor; seq++ {
		s := l.slot(seq)
		if s.state != slotInFlight {
			continue
		}
		m.sub.Credit.Return(int(s.size))
		l.inFlight--
		if fail {
			c.failSlot(l, seq, s, codec.DeadMemberLost)
		} else {
			c.handBack(l, seq, s, 0)
		}
	}
}

// read returns the stored record of seq and its key and value lengths. The
// bytes are valid until the log is touched. Reading in order costs one look-up
// for each run, not for each message.
func (c *Core) read(l *ledger, seq codec.Sequence) (rec []byte, key, value int, err error) {
	pos := l.pos
	if pos.seq != seq {
		var ok bool
		if pos, ok = l.part.index.find(seq, l.part.committed); !ok {
			return nil, 0, 0, fmt.Errorf("shard: topic %d partition %d has no record of sequence %d", l.part.topic, l.part.id, seq)
		}
	}
	if c.view.index != pos.index || c.view.data == nil {
		data, err := c.log.Read(pos.index)
		if err != nil {
			c.unreadable(l.part, pos, err)
			return nil, 0, 0, err
		}
		c.view = view{pos.index, data}
	}
	rest := c.view.data[pos.off:]
	for {
		n, k, v, err := recordLen(rest)
		if err != nil {
			return nil, 0, 0, fmt.Errorf("shard: entry %d offset %d: %w", pos.index, pos.off, err)
		}
		here := pos.seq
		pos.seq++
		pos.off += n
		if here == seq {
			if l.pos = pos; here == pos.end {
				l.pos = readPos{}
			}
			return rest[:n], k, v, nil
		}
		rest = rest[n:]
	}
}

// markLedger notes that a ledger has something to record.
func (c *Core) markLedger(l *ledger) {
	if l.dirty {
		return
	}
	l.dirty = true
	if len(c.dirtyLedgers) == 0 {
		c.dirtySince = c.now
	}
	c.dirtyLedgers = append(c.dirtyLedgers, l)
}

func (c *Core) warn(msg string, args ...any) {
	if c.cfg.Logger != nil {
		c.cfg.Logger.Warn(msg, args...)
	}
}

// reply hands a completion to its connection's reactor.
func (c *Core) reply(done flow.Completion) {
	if done.Conn.Gone.Load() && done.Pull == nil {
		return
	}
	c.out[done.Conn.Loop] = append(c.out[done.Conn.Loop], done)
}
