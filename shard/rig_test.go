package shard

import (
	"log/slog"
	"math"
	"testing"
	"time"

	"github.com/mortarmq/mortarmq/codec"
	"github.com/mortarmq/mortarmq/env"
	"github.com/mortarmq/mortarmq/flow"
	mlog "github.com/mortarmq/mortarmq/log"
	"github.com/mortarmq/mortarmq/repl"
)

// rig drives a Core by hand: time is a field, a turn is a call, and the disk is
// in memory.
type rig struct {
	t       *testing.T
	fs      env.FS
	cfg     Config
	core    *Core
	group   *repl.Group
	log     *mlog.Log
	written chan mlog.Ticket
	now     time.Duration
	conn    *flow.Conn
	slot    uint64
	got     map[uint64]flow.Completion // by slot
	term    uint32
}

func newRig(t *testing.T, change func(*Config)) *rig {
	cfg := Config{
		Shards: 1, DeliveryLease: 30 * time.Second, DeliveryMaxAttempts: 5,
		RetryBackoffBase: time.Second, RetryBackoffMax: 30 * time.Second,
		ProducerIdle: time.Hour, Durability: codec.DurableDisk, Seed: 1, Logger: slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&cfg)
	}
	r := &rig{t: t, fs: env.NewMemFS(), cfg: cfg, conn: &flow.Conn{ID: 1}, got: map[uint64]flow.Completion{}}
	r.open()
	t.Cleanup(func() { r.log.Close() })
	r.core.AddTopic(1, 2)
	return r
}

func (r *rig) open() {
	r.t.Helper()
	r.written = make(chan mlog.Ticket, 1024)
	written := r.written
	var err error
	r.log, err = mlog.Open(mlog.Options{
		Dir: "shard", FS: r.fs, SegmentMaxBytes: 1 << 20,
		OnWritten: func(upTo mlog.Ticket, err error) {
			if err != nil {
				panic(err)
			}
			written <- upTo
		},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.group, err = repl.New(repl.Config{ID: 1, Voters: []uint64{1}, Log: r.log, Logger: r.cfg.Logger}, 0)
	if err != nil {
		r.t.Fatal(err)
	}
	r.core = NewCore(r.cfg, r.log, r.group, 1)
	if err := r.group.Campaign(); err != nil {
		r.t.Fatal(err)
	}
	r.turn()
	for !r.core.leading {
		r.wait()
	}
}

// restart stops without a word, as kill -9 does after the last write, and opens the log again.
func (r *rig) restart() {
	r.t.Helper()
	if err := r.log.Close(); err != nil {
		r.t.Fatal(err)
	}
	r.open()
	r.core.AddTopic(1, 2)
}

// turn is one turn of a shard's goroutine.
func (r *rig) turn() {
	r.t.Helper()
	c := r.core
	c.begin(r.now, 0)
	if err := c.pump(); err != nil {
		r.t.Fatal(err)
	}
	c.timers()
	if err := c.seal(); err != nil {
		r.t.Fatal(err)
	}
	if err := c.pump(); err != nil {
		r.t.Fatal(err)
	}
	for _, done := range c.out[0] {
		if _, twice := r.got[done.Slot]; twice {
			r.t.Fatalf("slot %d was answered twice: %+v", done.Slot, done)
		}
		r.got[done.Slot] = done
	}
	c.out[0] = c.out[0][:0]
	for _, f := range c.done {
		f()
	}
	c.done = nil
}

// wait takes one report of the writer.
func (r *rig) wait() {
	r.t.Helper()
	if err := r.group.Written(<-r.written); err != nil {
		r.t.Fatal(err)
	}
	r.turn()
}

// quiet goes on until everything that is staged, ledgers too, is on disk.
func (r *rig) quiet() {
	r.t.Helper()
	r.turn()
	for !r.core.idle() {
		if len(r.core.inflight) > 0 {
			r.wait()
			continue
		}
		r.now += ledgerDelay
		r.turn()
	}
}

func (r *rig) sleep(d time.Duration) { r.now += d; r.quiet() }

func (r *rig) nextSlot() uint64 { r.slot++; return r.slot }

// pub hands a PUB over and returns its slot.
func (r *rig) pub(part codec.Partition, id codec.ProducerID, seq codec.ProducerSeq, value string) uint64 {
	r.t.Helper()
	frame := codec.AppendPub(nil, &codec.Pub{TopicID: 1, Partition: part, ProducerID: id, ProducerSeq: seq, Key: []byte("k"), Value: []byte(value)})
	m, err := codec.DecodePub(frame[codec.HeaderLen:])
	if err != nil {
		r.t.Fatal(err)
	}
	chunk := flow.NewChunk()
	slot := r.nextSlot()
	r.core.Handle(&flow.Request{
		Conn: r.conn, Slot: slot, Op: codec.OpPub, Topic: 1, Partition: part,
		ProducerID: id, ProducerSeq: seq, Tail: m.Tail, Chunk: chunk,
	})
	return slot
}

// answer returns the completion of a slot that must be there.
func (r *rig) answer(slot uint64) flow.Completion {
	r.t.Helper()
	done, ok := r.got[slot]
	if !ok {
		r.t.Fatalf("slot %d has no answer", slot)
	}
	return done
}

// wantPub checks the answer to a PUB.
func (r *rig) wantPub(slot uint64, seq codec.Sequence, flags uint8) {
	r.t.Helper()
	a := r.answer(slot)
	if a.Code != 0 || a.Pub.Sequence != seq || a.Pub.ResultFlags != flags || a.Pub.CommitSeq < seq {
		r.t.Fatalf("slot %d: %v %+v, want sequence %d flags %d", slot, a.Code, a.Pub, seq, flags)
	}
}

func (r *rig) wantCode(slot uint64, code codec.Code) {
	r.t.Helper()
	if a := r.answer(slot); a.Code != code {
		r.t.Fatalf("slot %d: code %v, want %v", slot, a.Code, code)
	}
}

// join opens a group and gives a new member partitions of a topic.
func (r *rig) join(topic codec.TopicID, group codec.GroupID, policy uint8, parts ...codec.Partition) *flow.Subscription {
	r.t.Helper()
	opened := false
	r.core.OpenGroup(topic, group, "grp", policy, func() { opened = true })
	r.quiet()
	if !opened {
		r.t.Fatal("the group was not opened")
	}
	r.term++
	sub := &flow.Subscription{Conn: r.conn, ID: 1, Topic: topic, Group: group, Member: codec.MemberID(r.term)}
	sub.Alive.Store(true)
	sub.Credit.SetWindow(256, 2<<20)
	for _, p := range parts {
		if err := r.core.Own(sub, p, codec.OwnershipEpoch(r.term)); err != nil {
			r.t.Fatal(err)
		}
	}
	return sub
}

// startPull hands a PULL over and returns it.
func (r *rig) startPull(sub *flow.Subscription, change func(*flow.Pull)) *flow.Pull {
	p := &flow.Pull{Conn: r.conn, Slot: r.nextSlot(), Sub: sub, MaxMsgs: math.MaxInt, MaxBytes: math.MaxInt}
	if change != nil {
		change(p)
	}
	r.core.begin(r.now, 0)
	r.core.Pull(p)
	r.turn()
	return p
}

// pull is a PULL without waiting; it returns what was delivered.
func (r *rig) pull(sub *flow.Subscription) []codec.Msg {
	r.t.Helper()
	p := r.startPull(sub, nil)
	return r.msgs(p)
}

// msgs decodes what an answered PULL delivered.
func (r *rig) msgs(p *flow.Pull) []codec.Msg {
	r.t.Helper()
	r.answer(p.Slot)
	var out []codec.Msg
	if p.Body == nil {
		return nil
	}
	for rest := p.Body.B; len(rest) > 0; {
		op, payload, n, _, err := codec.Cut(rest)
		if err != nil || op != codec.OpMsg || n == 0 {
			r.t.Fatalf("the body holds %v, %v", op, err)
		}
		m, err := codec.DecodeMsg(payload)
		if err != nil {
			r.t.Fatal(err)
		}
		out = append(out, m)
		rest = rest[n:]
	}
	return out
}

func (r *rig) settleRequest(op codec.Op, sub *flow.Subscription, m codec.Msg, flags uint16, reason uint8) uint64 {
	slot := r.nextSlot()
	r.core.begin(r.now, 0)
	r.core.Handle(&flow.Request{
		Conn: r.conn, Slot: slot, Op: op, Sub: sub, Topic: m.TopicID, Partition: m.Partition,
		Seq: m.Sequence, Delivery: m.DeliveryID, Epoch: m.OwnershipEpoch, Flags: flags, Reason: reason,
	})
	r.turn()
	return slot
}

// ack settles a message and checks the answer.
func (r *rig) ack(sub *flow.Subscription, m codec.Msg, want codec.Code) {
	r.t.Helper()
	r.wantCode(r.settleRequest(codec.OpAck, sub, m, 0, 0), want)
}

func (r *rig) nack(sub *flow.Subscription, m codec.Msg, reason uint8, want codec.Code) {
	r.t.Helper()
	r.wantCode(r.settleRequest(codec.OpNack, sub, m, 0, reason), want)
}

func (r *rig) progress(sub *flow.Subscription, m codec.Msg, want codec.Code) {
	r.t.Helper()
	r.wantCode(r.settleRequest(codec.OpAck, sub, m, codec.AckProgress, 0), want)
}

// wantMsgs checks sequences and attempts of a delivery.
func wantMsgs(t *testing.T, got []codec.Msg, want ...[2]int) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d messages delivered, want %d: %+v", len(got), len(want), got)
	}
	for i, m := range got {
		if int(m.Sequence) != want[i][0] || int(m.Attempt) != want[i][1] {
			t.Fatalf("message %d: sequence %d attempt %d, want %d and %d", i, m.Sequence, m.Attempt, want[i][0], want[i][1])
		}
	}
}
