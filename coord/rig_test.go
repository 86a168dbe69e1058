package coord

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/mortarmq/mortarmq/codec"
)

// place is a partition of a group.
type place struct {
	group     codec.GroupID
	partition codec.Partition
}

// rig drives a Core as its caller would, and holds every effect against what the
// package promises. It knows nothing of the Core's inside but Check.
type rig struct {
	t     testing.TB
	what  string // named in failures: the seed
	core  *Core
	now   time.Duration
	term  uint64
	index uint64

	auto     bool          // commit and open at once
	proposal []byte        // asked for and not committed yet
	opening  []GroupOpened // asked for and not answered yet

	slots    map[uint64]uint64 // by connection: of the next request
	asked    map[Token]codec.Op
	replies  map[Token]Reply
	gone     map[uint64]bool // connections
	members  map[codec.MemberID]MemberJoined
	subbed   map[codec.MemberID]bool // the Reply to its SUB was seen
	former   map[codec.MemberID]bool
	ranges   map[codec.MemberID]Epochs
	owners   map[place]Own
	lastOwn  map[place]codec.OwnershipEpoch
	told     map[codec.NoticeID]codec.Notice
	assigned map[Own]bool   // what the ASSIGNs were about
	notices  []codec.Notice // in order
	lastID   codec.NoticeID
	topics   map[codec.TopicID]Topic
	sourceID codec.TopicID // the highest so far
	dropped  int
	lines    []string // every effect, when record is set
	record   bool
}

func newRig(t testing.TB, cfg Config) *rig {
	r := &rig{
		t: t, core: New(cfg), topics: map[codec.TopicID]Topic{}, auto: true,
		lastOwn: map[place]codec.OwnershipEpoch{},
	}
	r.clear()
	return r
}

// clear forgets what is volatile.
func (r *rig) clear() {
	r.slots, r.asked, r.replies, r.gone = map[uint64]uint64{}, map[Token]codec.Op{}, map[Token]Reply{}, map[uint64]bool{}
	r.members, r.subbed, r.former = map[codec.MemberID]MemberJoined{}, map[codec.MemberID]bool{}, map[codec.MemberID]bool{}
	r.ranges, r.owners = map[codec.MemberID]Epochs{}, map[place]Own{}
	r.assigned = map[Own]bool{}
	r.told, r.notices, r.proposal, r.opening = map[codec.NoticeID]codec.Notice{}, nil, nil, nil
}

// started returns a rig that leads in term 1.
func started(t testing.TB, cfg Config) *rig {
	r := newRig(t, cfg)
	r.lead(1)
	return r
}

func (r *rig) fail(format string, args ...any) {
	r.t.Helper()
	r.t.Fatalf("%s%s", r.what, fmt.Sprintf(format, args...))
}

func (r *rig) lead(term uint64) []Effect {
	r.term = term
	return r.took(r.core.Lead(term))
}

// token numbers a request of a connection.
func (r *rig) token(conn uint64, op codec.Op) Token {
	tok := Token{conn, r.slots[conn]}
	r.slots[conn]++
	r.asked[tok] = op
	return tok
}

// step runs a command, and what auto says.
func (r *rig) step(cmd Command) []Effect {
	r.t.Helper()
	if d, ok := cmd.(Disconnect); ok {
		r.gone[d.Conn] = true
	}
	return r.took(r.core.Step(r.now, cmd))
}

func (r *rig) took(effects []Effect) []Effect {
	r.t.Helper()
	for _, e := range effects {
		if r.record {
			r.lines = append(r.lines, show(e))
		}
		r.see(e)
	}
	if err := r.core.Check(); err != nil {
		r.fail("%v", err)
	}
	r.compareSets()
	if r.auto && r.proposal != nil {
		effects = append(slices.Clone(effects), r.commit()...)
	}
	for r.auto && len(r.opening) > 0 {
		effects = append(slices.Clone(effects), r.opened(0)...)
	}
	return effects
}

// commit applies the record that was proposed.
func (r *rig) commit() []Effect {
	r.t.Helper()
	data := r.proposal
	r.proposal = nil
	return r.apply(data)
}

func (r *rig) apply(data []byte) []Effect {
	r.t.Helper()
	r.index++
	effects, err := r.core.Apply(r.index, data)
	if err != nil {
		r.fail("Apply: %v", err)
	}
	return r.took(effects)
}

// opened answers the i-th OpenGroup that waits.
func (r *rig) opened(i int) []Effect {
	r.t.Helper()
	cmd := r.opening[i]
	r.opening = slices.Delete(r.opening, i, i+1)
	return r.step(cmd)
}

// see holds one effect against the model.
func (r *rig) see(e Effect) {
	r.t.Helper()
	switch e := e.(type) {
	case Propose:
		if r.proposal != nil {
			r.fail("a second record is proposed while one is on its way")
		}
		r.proposal = e.Record
	case Reply:
		r.seeReply(e)
	case TopicAdded:
		if e.Topic.ID <= r.sourceID {
			r.fail("topic id %d was used before", e.Topic.ID)
		}
		r.sourceID = e.Topic.ID
		r.topics[e.Topic.ID] = e.Topic
	case TopicRemoved:
		delete(r.topics, e.Topic.ID)
		for _, m := range r.members {
			if m.Group.Topic.Source() == e.Topic.ID {
				r.fail("topic %d is gone, but its member %s is not", e.Topic.ID, num(m.Member))
			}
		}
	case OpenGroup:
		r.opening = append(r.opening, GroupOpened{Topic: e.Group.Topic, Group: e.Group.ID})
	case MemberJoined:
		if r.former[e.Member] || r.members[e.Member].Member != 0 || e.Member == 0 {
			r.fail("member id %s was used before", num(e.Member))
		}
		r.members[e.Member] = e
	case MemberGone:
		r.mustBe(e.Member, "MemberGone")
		for at, o := range r.owners {
			if o.Member == e.Member {
				r.fail("member %s is gone but owns %+v", num(e.Member), at)
			}
		}
		delete(r.members, e.Member)
		r.former[e.Member] = true
	case Notify:
		r.seeNotice(e)
	case Own:
		r.seeOwn(e)
	case Disown:
		r.mustBe(e.Member, "Disown")
		at := place{e.Group, e.Partition}
		if o, ok := r.owners[at]; !ok || o != (Own{e.Group, e.Topic, e.Partition, e.Member, e.Epoch}) {
			r.fail("%s does not end %+v", show(e), o)
		}
		if e.Fail != (e.Reason == Lost || e.Reason == Silent || e.Reason == Fenced) {
			r.fail("V8: %s", show(e))
		}
		delete(r.owners, at)
	case Epochs:
		r.mustBe(e.Member, "Epochs")
		was := r.ranges[e.Member]
		if e.Membership.Confirmed < was.Membership.Confirmed || e.Membership.Told < was.Membership.Told ||
			e.Assignment.Confirmed < was.Assignment.Confirmed || e.Assignment.Told < was.Assignment.Told {
			r.fail("G4: epochs fall from %+v to %+v", was, e)
		}
		r.ranges[e.Member] = e
	case OwnedSet:
		r.mustBe(e.Member, "OwnedSet")
	case Dropped:
		r.dropped++
	}
}

func (r *rig) mustBe(id codec.MemberID, what string) {
	r.t.Helper()
	if r.members[id].Member == 0 {
		r.fail("%s names member %s, which is not alive", what, num(id))
	}
}

func (r *rig) seeReply(e Reply) {
	r.t.Helper()
	if op, ok := r.asked[e.Token]; !ok || op != e.Op {
		r.fail("%s, but the request was %v %v", show(e), op, ok)
	}
	if was, twice := r.replies[e.Token]; twice {
		r.fail("answered twice: %s, %s", show(was), show(e))
	}
	if len(e.Message) > codec.MaxErrMessage {
		r.fail("a text of %d bytes: %s", len(e.Message), e.Message)
	}
	r.replies[e.Token] = e
	if e.Op == codec.OpSub && e.Code == 0 {
		m := r.members[e.Member]
		if m.Member != e.Sub.MemberID || m.Subscription != e.Sub.SubscriptionID || m.Token != e.Token {
			r.fail("%s follows %s", show(e), show(m))
		}
		now := Epochs{e.Member, Range{e.Sub.MembershipEpoch, e.Sub.MembershipEpoch}, Range{e.Sub.AssignmentEpoch, e.Sub.AssignmentEpoch}}
		if r.ranges[e.Member] != now {
			r.fail("%s, but current are %+v", show(e), r.ranges[e.Member])
		}
		r.subbed[e.Member] = true
	}
}

func (r *rig) seeNotice(e Notify) {
	r.t.Helper()
	r.mustBe(e.Member, "Notify")
	m, n := r.members[e.Member], e.Notice
	epochs := r.ranges[e.Member]
	switch {
	case !r.subbed[e.Member]:
		r.fail("a notice stands before the answer to the SUB: %s", show(e))
	case n.NoticeID <= r.lastID || uint64(n.NoticeID)>>32 != r.term:
		r.fail("notice ids do not grow: %s", show(e))
	case m.Conn != e.Conn || n.MemberID != e.Member || n.GroupID != m.Group.ID || n.TopicID != m.Group.Topic:
		r.fail("%s to %s", show(e), show(m))
	case uint64(n.OwnershipEpoch)>>32 != r.term:
		r.fail("G4: %s", show(e))
	case epochs.Membership.Told != n.MembershipEpoch || epochs.Assignment.Told != n.AssignmentEpoch:
		r.fail("%s, but published are %+v", show(e), epochs)
	}
	r.lastID = n.NoticeID
	r.told[n.NoticeID] = n
	if n.Kind == codec.NoticeAssign {
		r.assigned[Own{n.GroupID, n.TopicID, n.Partition, n.MemberID, n.OwnershipEpoch}] = true
	}
	r.notices = append(r.notices, n)
}

func (r *rig) seeOwn(e Own) {
	r.t.Helper()
	r.mustBe(e.Member, "Own")
	at := place{e.Group, e.Partition}
	if o, taken := r.owners[at]; taken {
		r.fail("G7: %s beside %s", show(e), show(o))
	}
	if e.Epoch <= r.lastOwn[at] {
		r.fail("G4: %s after epoch %s", show(e), num(r.lastOwn[at]))
	}
	if !r.assigned[e] {
		r.fail("G6: %s without an ASSIGN", show(e))
	}
	r.owners[at] = e
	r.lastOwn[at] = e.Epoch
}

// compareSets holds what members were last said to own against what they own.
func (r *rig) compareSets() {
	r.t.Helper()
	n := 0
	for id := range r.members {
		for _, o := range r.core.members[id].owned {
			own := r.owners[place{r.members[id].Group.ID, o.Partition}]
			if own.Member != id || own.Epoch != o.Epoch {
				r.fail("member %s is said to own %+v; the owner is %s", num(id), o, show(own))
			}
			n++
		}
	}
	if n != len(r.owners) {
		r.fail("%d partitions have owners, members own %d", len(r.owners), n)
	}
}

// Requests of clients.

func (r *rig) declare(conn uint64, name string, partitions, flags uint16) Reply {
	r.t.Helper()
	tok := r.token(conn, codec.OpDeclare)
	r.step(Declare{tok, codec.Declare{Topic: []byte(name), PartitionCount: partitions, Flags: flags}})
	return r.replies[tok]
}

func (r *rig) subscribe(conn uint64, topic codec.TopicID, group string) Reply {
	r.t.Helper()
	return r.sub(conn, codec.Sub{TopicID: topic, Group: []byte(group)})
}

func (r *rig) sub(conn uint64, req codec.Sub) Reply {
	r.t.Helper()
	tok := r.token(conn, codec.OpSub)
	req.Partition = codec.AnyPartition
	r.step(Subscribe{tok, req})
	return r.replies[tok]
}

func (r *rig) beat(conn uint64, req codec.Heartbeat) Reply {
	r.t.Helper()
	tok := r.token(conn, codec.OpHeartbeat)
	r.step(Heartbeat{tok, req})
	return r.replies[tok]
}

func (r *rig) leave(id codec.MemberID) Reply {
	r.t.Helper()
	tok := r.token(r.members[id].Conn, codec.OpHeartbeat)
	r.step(Leave{tok, id})
	return r.replies[tok]
}

func ackOf(n codec.Notice, result uint8) codec.ControlAck {
	return codec.ControlAck{
		NoticeID: n.NoticeID, NoticeKind: n.Kind, GroupID: n.GroupID, MembershipEpoch: n.MembershipEpoch,
		AssignmentEpoch: n.AssignmentEpoch, OwnershipEpoch: n.OwnershipEpoch, Result: result,
	}
}

func (r *rig) ack(conn uint64, ack codec.ControlAck) Reply {
	r.t.Helper()
	tok := r.token(conn, codec.OpControlAck)
	r.step(ControlAck{tok, ack})
	return r.replies[tok]
}

// answer confirms a notice on the connection it came on.
func (r *rig) answer(n codec.Notice, result uint8) Reply {
	r.t.Helper()
	return r.ack(r.connOf(n), ackOf(n, result))
}

// connOf is the connection of a member that is alive, else 0.
func (r *rig) connOf(n codec.Notice) uint64 { return r.members[n.MemberID].Conn }

// pass moves the clock and ticks. Every member was just seen.
func (r *rig) pass(d time.Duration) []Effect {
	r.t.Helper()
	r.now += d
	return r.step(Tick{Seen: func(codec.MemberID) time.Duration { return r.now }})
}

// settle confirms every notice in the order they come until none is new.
func (r *rig) settle() {
	r.t.Helper()
	for i := 0; i < len(r.notices); i++ {
		n := r.notices[i]
		if m := r.core.members[n.MemberID]; m != nil && m.told[n.Partition].NoticeID == n.NoticeID && m.told[n.Partition].state == open {
			r.answer(n, codec.ControlOK)
		}
	}
}

// owned lists what a member owns, ascending.
func (r *rig) owned(id codec.MemberID) []codec.Partition {
	var out []codec.Partition
	for at, o := range r.owners {
		if o.Member == id {
			out = append(out, at.partition)
		}
	}
	slices.Sort(out)
	return out
}

// want compares a reply's code.
func (r *rig) want(rule string, got Reply, code codec.Code) {
	r.t.Helper()
	if got.Token == (Token{}) || got.Code != code {
		r.fail("%s: want %v, got %s", rule, code, show(got))
	}
}
