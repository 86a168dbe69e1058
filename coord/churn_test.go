package coord

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mortarmq/mortarmq/codec"
)

// 200 clients that join and vanish beside a steady member, most of them without confirming
// anything: members equal live connections, and the steady one never loses its share.
func TestChurnBesideASteadyMember(t *testing.T) {
	const partitions, steady = 12, 1
	r := started(t, Config{})
	r.declare(steady, "a", partitions, 0)
	m := r.subscribe(steady, 1, "g").Member
	r.settle()
	rng := rand.New(rand.NewPCG(1, 2))
	var live []uint64
	answered := len(r.notices)
	for conn := uint64(2); conn < 202; {
		if len(live) < 9 && rng.IntN(2) == 0 {
			r.want("SUB", r.subscribe(conn, 1, "g"), 0)
			live = append(live, conn)
			conn++
		} else if len(live) > 0 {
			i := rng.IntN(len(live))
			r.step(Disconnect{live[i]})
			live = slices.Delete(live, i, i+1)
		}
		r.pass(time.Duration(rng.IntN(4000)) * time.Millisecond)
		for ; answered < len(r.notices); answered++ {
			n := r.notices[answered]
			if s := r.core.members[n.MemberID]; s != nil && (n.MemberID == m || rng.IntN(4) == 0) && s.told[n.Partition].NoticeID == n.NoticeID && s.told[n.Partition].state == open {
				r.want("CONTROL_ACK", r.answer(n, codec.ControlOK), 0)
			}
		}
		if got := r.core.Members(1); got != 1+len(live) {
			t.Fatalf("%d members, %d connections", got, 1+len(live))
		}
		if got := len(r.owned(m)); got < partitions/10 { // its share in a full group
			t.Fatalf("the steady member owns %d of %d partitions", got, partitions)
		}
	}
	for _, conn := range live {
		r.step(Disconnect{conn})
	}
	for range 3 {
		r.settle()
		r.pass(12 * time.Second)
	}
	if got := len(r.owned(m)); got != partitions {
		t.Errorf("alone again, it owns %d of %d partitions", got, partitions)
	}
}

// A member that stays mute costs a partition its timeout once, not with every change of the group.
func TestAMuteMemberIsNotOfferedAPartitionAgain(t *testing.T) {
	r := started(t, Config{})
	r.declare(1, "a", 4, 0)
	r.subscribe(1, 1, "g")
	r.settle()
	mute := r.subscribe(2, 1, "g").Member
	r.confirmAll(r.notices[0].MemberID) // the REVOKEs
	r.pass(10 * time.Second)            // the mute member is passed over
	r.confirmAll(r.notices[0].MemberID)
	offered := map[codec.Partition]bool{}
	for _, n := range r.notices {
		offered[n.Partition] = offered[n.Partition] || n.MemberID == mute
	}
	before := len(r.notices)
	for conn := uint64(3); conn < 30; conn++ {
		third := r.subscribe(conn, 1, "g").Member
		for range 3 {
			r.confirmAll(r.notices[0].MemberID)
			r.confirmAll(third)
		}
		r.want("", r.leave(third), 0)
		r.confirmAll(r.notices[0].MemberID)
	}
	for _, n := range r.notices[before:] {
		if n.MemberID == mute && offered[n.Partition] {
			t.Fatalf("offered again: %+v", n)
		}
		offered[n.Partition] = offered[n.Partition] || n.MemberID == mute
	}
}

// Confirming an ASSIGN shows that a member lives: what it left unconfirmed before is offered again,
// and its share with it. What it declined is not.
func TestAConfirmationRevives(t *testing.T) {
	r := started(t, Config{})
	r.declare(1, "a", 6, 0)
	a := r.subscribe(1, 1, "g").Member
	r.settle()
	b := r.subscribe(2, 1, "g").Member // 3, 4 and 5 move to it
	r.confirmAll(a)
	declines := r.notices[len(r.notices)-3]
	r.want("", r.answer(declines, codec.ControlError), 0)
	r.pass(10 * time.Second) // it does not confirm the other two
	r.confirmAll(a)
	if got := len(r.owned(a)); got != 6 || len(r.core.members[b].refused) != 3 {
		t.Fatalf("set-up: %d owned, refused %v", got, r.core.members[b].refused)
	}
	r.subscribe(3, 1, "g")
	r.subscribe(4, 1, "g")
	for range 3 {
		r.settle()
	}
	r.step(Disconnect{3})
	r.step(Disconnect{4})
	for range 3 {
		r.settle()
	}
	if got := r.owned(b); len(got) != 3 || slices.Contains(got, declines.Partition) {
		t.Errorf("it declined %d and owns %v", declines.Partition, got)
	}
	if got := r.core.members[b].refused; len(got) != 1 || got[declines.Partition] != declined {
		t.Errorf("refused %v", got)
	}
}

// After the pause a refused partition goes to anybody but the last one that refused it.
func TestThePauseEndsWithAnotherMember(t *testing.T) {
	r := started(t, Config{})
	r.declare(1, "a", 2, 0)
	a := r.subscribe(1, 1, "g").Member
	r.want("", r.answer(r.notices[0], codec.ControlOK), 0)
	r.want("", r.answer(r.notices[1], codec.ControlError), 0)
	b := r.subscribe(2, 1, "g").Member
	n := r.notices[len(r.notices)-1]
	if n.MemberID != b || n.Partition != 1 {
		t.Fatalf("set-up: %+v", n)
	}
	r.want("", r.answer(n, codec.ControlError), 0)
	r.pass(time.Second)
	if n := r.notices[len(r.notices)-1]; n.MemberID != a || n.Partition != 1 {
		t.Errorf("offered again to the same: %+v", n)
	}
}

func TestCheckFindsFaults(t *testing.T) {
	for what, spoil := range map[string]func(c *Core, g *group){
		"an owner that is not a member":   func(c *Core, g *group) { g.slots[0].owner = &member{id: 99} },
		"two sets with one partition":     func(c *Core, g *group) { g.members[1].owned = g.members[0].owned },
		"an owner without its set":        func(c *Core, g *group) { g.members[0].owned = nil },
		"a target that nothing moves to":  func(c *Core, g *group) { g.slots[0].target = g.members[1] },
		"nobody is to own it":             func(c *Core, g *group) { g.slots[0] = slot{retry: never} },
		"a lost notice":                   func(c *Core, g *group) { c.notices.remove(g.slots[3].pending) },
		"an ASSIGN beside an owner":       func(c *Core, g *group) { g.slots[3].owner = g.members[0] },
		"nobody wakes":                    func(c *Core, g *group) { g.wake = never },
		"epochs that are yet to come":     func(c *Core, g *group) { g.members[0].membership.Told += 9 },
		"a range upside down":             func(c *Core, g *group) { g.members[0].assignment.Confirmed += 9 },
		"a member too many":               func(c *Core, g *group) { c.members[99] = &member{id: 99, group: g} },
		"a subscription of somebody else": func(c *Core, g *group) { c.conns[2].subs[5] = g.members[0] },
		"a group that is not registered":  func(c *Core, g *group) { delete(c.reg.groups, 1) },
		"members of a group not open":     func(c *Core, g *group) { g.open = false },
		"a name that leads elsewhere":     func(c *Core, g *group) { c.reg.names["a"] = 3 },
		"partitions that do not add up":   func(c *Core, g *group) { c.reg.partitions++ },
		"commands behind nothing":         func(c *Core, g *group) { c.queue.waiting = []Command{Declare{}} },
		"a count of the queue":            func(c *Core, g *group) { c.queue.topics["a"] = 1 },
	} {
		r := started(t, Config{})
		r.declare(1, "a", 4, 0)
		first := r.subscribe(1, 1, "g").Member
		r.settle()
		r.subscribe(2, 1, "g")
		r.confirmAll(first) // gives partitions 2 and 3 back; the ASSIGNs are pending
		if err := r.core.Check(); err != nil {
			t.Fatal(err)
		}
		spoil(r.core, r.core.live[1])
		if err := r.core.Check(); err == nil || !strings.HasPrefix(err.Error(), "coord: ") {
			t.Errorf("%s: Check says %v", what, err)
		}
	}
}

// One join and one leave in a group of ten with 1024 partitions, everything confirmed.
func BenchmarkJoinAndLeave(b *testing.B) {
	r := benchGroup(b, 9, 1024)
	b.ReportAllocs()
	effects := 0
	for b.Loop() {
		tok := Token{100, 0}
		out := r.Step(0, Subscribe{tok, codec.Sub{TopicID: 1, Group: []byte("g")}})
		effects += len(out)
		effects += confirmOut(r, out)
		out = r.Step(0, Disconnect{100})
		effects += len(out) + confirmOut(r, out)
	}
	b.ReportMetric(float64(effects)/float64(b.N), "effects/op")
}

func BenchmarkTickOverManyGroups(b *testing.B) {
	c := New(Config{MaxTotalPartitions: 1 << 20})
	c.Lead(1)
	apply(b, c, topicCreated{ID: 1, Name: "a", Partitions: 16})
	for i := range 10000 {
		join(b, c, uint64(1+i), fmt.Sprint("g", i))
	}
	b.ReportAllocs()
	for b.Loop() {
		c.Step(0, Tick{})
	}
}

func apply(b testing.TB, c *Core, rec any) []Effect {
	b.Helper()
	effects, err := c.Apply(c.Applied()+1, appendRecord(nil, rec))
	if err != nil {
		b.Fatal(err)
	}
	return effects
}

// join subscribes, commits and opens, and confirms every notice.
func join(b testing.TB, c *Core, conn uint64, group string) {
	b.Helper()
	out := c.Step(0, Subscribe{Token{conn, 0}, codec.Sub{TopicID: 1, Group: []byte(group)}})
	for {
		switch e := out[0].(type) {
		case Propose:
			effects, err := c.Apply(c.Applied()+1, e.Record)
			if err != nil {
				b.Fatal(err)
			}
			out = effects
			continue
		case OpenGroup:
			out = c.Step(0, GroupOpened{Topic: e.Group.Topic, Group: e.Group.ID})
			continue
		}
		break
	}
	confirmOut(c, out)
}

// confirmOut confirms the notices among effects and those that follow from it, and counts effects.
func confirmOut(c *Core, out []Effect) int {
	n := 0
	for i := 0; i < len(out); i++ {
		if e, ok := out[i].(Notify); ok {
			more := c.Step(0, ControlAck{Token{e.Conn, 1}, ackOf(e.Notice, codec.ControlOK)})
			n += len(more)
			out = append(out, more...)
		}
	}
	return n
}

func benchGroup(b testing.TB, members int, partitions uint16) *Core {
	b.Helper()
	c := New(Config{})
	c.Lead(1)
	apply(b, c, topicCreated{ID: 1, Name: "a", Partitions: partitions})
	for i := range members {
		join(b, c, uint64(1+i), "g")
	}
	return c
}
