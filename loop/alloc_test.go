package loop

import (
	"testing"
	"time"

	"github.com/mortarmq/mortarmq/codec"
	"github.com/mortarmq/mortarmq/flow"
	"github.com/panjf2000/gnet/v2"
)

// deaf is a connection whose peer takes everything.
type deaf struct {
	gnet.Conn
	in  []byte
	ctx any
}

func (d *deaf) Write(p []byte) (int, error) { return len(p), nil }
func (d *deaf) OutboundBuffered() int       { return 0 }
func (d *deaf) Next(int) ([]byte, error)    { return d.in, nil }
func (d *deaf) Context() any                { return d.ctx }

// keeper is a backend that keeps what it gets for the test to answer.
type keeper struct {
	topics flow.Topics
	reqs   []flow.Request
}

func (k *keeper) Topics() *flow.Topics                  { return &k.topics }
func (k *keeper) Pull(*flow.Pull)                       {}
func (k *keeper) Control(flow.Control) bool             { return true }
func (k *keeper) Closed(*flow.Conn)                     {}
func (k *keeper) Refusal(codec.Op) (codec.Code, string) { return 0, "" }
func (k *keeper) Submit(_ int, reqs []flow.Request) int {
	k.reqs = append(k.reqs, reqs...)
	return len(reqs)
}

// PUB, ACK, NACK and PING cost no allocation, in either direction, in order or not.
func TestNoAllocationPerMessage(t *testing.T) {
	k := &keeper{topics: flow.Topics{Shards: 2, ByID: []flow.Topic{{}, {Exists: true, Partitions: 4}}}}
	cfg, err := Config{Listen: "unused", Clock: func() time.Duration { return time.Second }}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	srv := &Server{cfg: cfg, backend: k}
	r := &reactor{srv: srv, backend: k, limits: &srv.cfg.Limits, log: cfg.Logger}
	s := newSession(r, 1, "test")
	conn := &deaf{ctx: s}
	s.gc = conn
	s.connected, s.phase = true, phaseOpen
	sub := &flow.Subscription{Conn: &s.conn, ID: 3, Topic: 1}
	sub.Alive.Store(true)
	s.subscribed(sub)
	const n = 60
	for i := range n {
		p := codec.Partition(i % 4)
		switch i % 4 {
		case 0, 1:
			conn.in = codec.AppendPub(conn.in, &codec.Pub{TopicID: 1, Partition: p, ProducerID: 1, ProducerSeq: 1, Key: []byte("key"), Value: make([]byte, 500)})
		case 2:
			conn.in = codec.AppendAck(conn.in, &codec.Ack{SubscriptionID: 3, TopicID: 1, Partition: p})
		case 3:
			conn.in = codec.AppendNack(conn.in, &codec.Nack{SubscriptionID: 3, TopicID: 1, Partition: p})
			conn.in = codec.AppendPing(conn.in)
		}
	}
	var done []flow.Completion
	for name, reverse := range map[string]bool{"in order": false, "in reverse order": true} {
		turn := func() {
			k.reqs = k.reqs[:0]
			r.OnTraffic(conn)
			done = done[:0]
			for i := range k.reqs {
				q := &k.reqs[i]
				if reverse {
					q = &k.reqs[len(k.reqs)-1-i]
				}
				if q.Chunk != nil {
					q.Chunk.Release(1)
				}
				done = append(done, flow.Completion{Conn: q.Conn, Slot: q.Slot, Op: q.Op, Pub: codec.PubResult{Sequence: 1}})
			}
			r.mail.leave(r, func(in *mail) { in.completions = append(in.completions, done...) })
			r.Run(t.Context())
			if s.head != s.next || s.phase != phaseOpen {
				t.Fatalf("%d of %d answered, phase %d", s.head, s.next, s.phase)
			}
		}
		turn()
		// A new chunk for every few turns is what remains: 2 allocations for some 500 PUBs.
		if per := testing.AllocsPerRun(500, turn); per != 0 {
			t.Errorf("%s: %v allocations for a turn of %d messages", name, per, n)
		}
	}
}
