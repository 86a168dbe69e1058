package coord

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mortarmq/mortarmq/codec"
)

func TestDeclareChecksInOrder(t *testing.T) {
	long := strings.Repeat("n", codec.MaxTopicLen)
	cfg := Config{DefaultPartitions: 3, MaxPartitions: 8, MaxTotalPartitions: 15}
	for _, c := range []struct {
		what       string
		name       string
		partitions uint16
		flags      uint16
		code       codec.Code
		want       codec.DeclareResult
	}{
		{"T1: 0 is the default for a new topic", "new", 0, 0, 0, codec.DeclareResult{TopicID: 5, PartitionCount: 3}},
		{"T1: the most there may be", "new", 8, 0, 0, codec.DeclareResult{TopicID: 5, PartitionCount: 8}},
		{"T1: more than that", "new", 9, 0, codec.CodeQuotaExceeded, codec.DeclareResult{}},
		{"no partition count", "new", 0xFFFF, 0, codec.CodeQuotaExceeded, codec.DeclareResult{}},
		{"T1: 0 is whatever it has", "two", 0, 0, 0, codec.DeclareResult{TopicID: 3, PartitionCount: 2, Created: 1}},
		{"the same count", "two", 2, 0, 0, codec.DeclareResult{TopicID: 3, PartitionCount: 2, Created: 1}},
		{"another count", "two", 3, 0, codec.CodeTopicExistsMismatch, codec.DeclareResult{}},
		{"existence before quota", "two", 9, 0, codec.CodeTopicExistsMismatch, codec.DeclareResult{}},
		{"the name before everything", "bad name", 9, codec.DeclareDelete, codec.CodeInvalidTopic, codec.DeclareResult{}},
		{"a twin's name is reserved", "two.dlq", 0, 0, codec.CodeInvalidTopic, codec.DeclareResult{}},
		{"T2: a twin cannot be deleted alone", "two.dlq", 0, codec.DeclareDelete, codec.CodeInvalidTopic, codec.DeclareResult{}},
		{"T4: names are bytes", "TWO", 1, 0, 0, codec.DeclareResult{TopicID: 5, PartitionCount: 1}},
		{"the longest name", long, 1, 0, 0, codec.DeclareResult{TopicID: 5, PartitionCount: 1}},
		{"T2: delete", "two", 0, codec.DeclareDelete, 0, codec.DeclareResult{TopicID: 3, PartitionCount: 2}},
		{"T2: delete with its count", "two", 2, codec.DeclareDelete, 0, codec.DeclareResult{TopicID: 3, PartitionCount: 2}},
		{"T2: delete with another count", "two", 3, codec.DeclareDelete, codec.CodeTopicExistsMismatch, codec.DeclareResult{}},
		{"T2: delete what is not there", "new", 9, codec.DeclareDelete, codec.CodeUnknownTopic, codec.DeclareResult{}},
		{"T2: and has the longest name", long, 0, codec.DeclareDelete, codec.CodeUnknownTopic, codec.DeclareResult{}},
		{"flags unknown to this version", "two", 0, 0xFFFE, 0, codec.DeclareResult{TopicID: 3, PartitionCount: 2, Created: 1}},
	} {
		r := started(t, cfg)
		r.what = c.what + ": "
		r.declare(1, "one", 5, 0)
		r.declare(1, "two", 2, 0)
		got := r.declare(2, c.name, c.partitions, c.flags)
		if r.want("", got, c.code); got.Declare != c.want {
			r.fail("got %+v, want %+v", got.Declare, c.want)
		}
		if got.Message == "" && c.code != 0 {
			r.fail("no text")
		}
	}
}

func TestQuotaOfPartitionsInAll(t *testing.T) {
	r := started(t, Config{MaxTotalPartitions: 10})
	r.want("", r.declare(1, "a", 6, 0), 0)
	r.want("", r.declare(1, "b", 5, 0), codec.CodeQuotaExceeded)
	r.want("", r.declare(1, "b", 4, 0), 0)
	r.want("", r.declare(1, "c", 1, 0), codec.CodeQuotaExceeded)
	r.want("existing topics are not asked about quotas", r.declare(1, "a", 6, 0), 0)
	r.want("", r.declare(1, "a", 0, codec.DeclareDelete), 0)
	r.want("a deleted topic makes room", r.declare(1, "c", 6, 0), 0)
}

func TestTopicIDsAreUsedUp(t *testing.T) {
	r := started(t, Config{})
	r.core.reg.nextSource = lastSource
	got := r.declare(1, "last", 1, 0)
	if r.want("", got, 0); got.Declare.TopicID != 65533 {
		t.Fatalf("got %+v", got.Declare)
	}
	r.want("T2: ids are never used again", r.declare(1, "last", 0, codec.DeclareDelete), 0)
	r.want("32767 pairs were given", r.declare(1, "more", 1, 0), codec.CodeQuotaExceeded)
	roundTrip(t, r.core)
}

func TestTopicIDsSurvive(t *testing.T) {
	r := started(t, Config{})
	for _, name := range []string{"a", "b", "c"} {
		r.declare(1, name, 1, 0)
	}
	r.declare(1, "c", 0, codec.DeclareDelete)
	d := New(Config{})
	if err := d.Restore(r.core.Snapshot()); err != nil {
		t.Fatal(err)
	}
	r.took(r.core.Follow())
	r.core = d
	r.clear()
	r.lead(2)
	for name, want := range map[string]codec.TopicID{"a": 1, "b": 3} {
		if got := r.declare(1, name, 0, 0); got.Declare.TopicID != want || got.Declare.Created != codec.CreatedExisted {
			t.Errorf("%s: %+v", name, got.Declare)
		}
	}
	if got := r.declare(1, "c", 0, 0); got.Declare.TopicID != 7 || got.Declare.Created != codec.CreatedNew {
		t.Errorf("T2: %+v", got.Declare)
	}
}

func TestSubscribeChecksInOrder(t *testing.T) {
	group := func(name string) codec.Sub { return codec.Sub{TopicID: 1, Group: []byte(name)} }
	with := func(s codec.Sub, change func(*codec.Sub)) codec.Sub { change(&s); return s }
	unknown := func(s *codec.Sub) { s.TopicID = 9 }
	noCreate := func(s *codec.Sub) { s.Flags = codec.SubNoCreate }
	latest := func(s *codec.Sub) { s.StartPolicy = codec.StartLatest }
	for _, c := range []struct {
		what string
		conn uint64
		req  codec.Sub
		code codec.Code
	}{
		{"a new group", 9, group("new"), 0},
		{"an existing group", 9, group("small"), 0},
		{"G2: NO_CREATE, and it exists", 9, with(group("small"), noCreate), 0},
		{"G2: NO_CREATE, and it does not", 9, with(group("new"), noCreate), codec.CodeUnknownGroup},
		{"G1: a group is (topic, name)", 9, with(group("small"), func(s *codec.Sub) { s.TopicID = 2; noCreate(s) }), codec.CodeUnknownGroup},
		{"a twin is consumed like any topic (T3)", 9, with(group("small"), func(s *codec.Sub) { s.TopicID = 2 }), 0},
		{"G1: names", 9, group("has space"), codec.CodeMalformedPayload},
		{"G1: empty", 9, group(""), codec.CodeMalformedPayload},
		{"G1: the topic's other rules do not apply", 9, group("a..b*.dlq"), 0},
		{"the name before the topic", 9, with(group(""), unknown), codec.CodeMalformedPayload},
		{"topic 0", 9, with(group("small"), func(s *codec.Sub) { s.TopicID = 0 }), codec.CodeUnknownTopic},
		{"topic 65535", 9, with(group("small"), func(s *codec.Sub) { s.TopicID = 0xFFFF }), codec.CodeUnknownTopic},
		{"the topic before the connection", 1, with(group("new"), unknown), codec.CodeUnknownTopic},
		{"the connection's limit", 1, group("small"), codec.CodeGroupAssignmentLimit},
		{"the connection before the group", 1, with(group("new"), noCreate), codec.CodeGroupAssignmentLimit},
		{"another policy", 9, with(group("small"), latest), codec.CodeGroupExistsMismatch},
		{"the policy before the members", 9, with(group("full"), latest), codec.CodeGroupExistsMismatch},
		{"the members' limit", 9, group("full"), codec.CodeGroupMemberLimit},
	} {
		r := started(t, Config{MaxSubscriptions: 2, MaxMembers: 3})
		r.what = c.what + ": "
		r.declare(1, "orders", 2, 0)
		r.subscribe(1, 1, "small")
		for conn := range uint64(3) {
			r.want("set-up", r.subscribe(1+conn, 1, "full"), 0)
		}
		groups := len(r.core.reg.groups)
		got := r.sub(c.conn, c.req)
		r.want("", got, c.code)
		if got.Code != 0 && (len(r.core.reg.groups) != groups || len(r.core.members) != 4) {
			r.fail("a refused SUB changed something")
		}
	}
}

func TestGroupIDs(t *testing.T) {
	r := started(t, Config{})
	r.declare(1, "a", 1, 0)
	r.declare(1, "b", 1, 0)
	r.core.reg.lastGroup = maxGroupID - 1
	join := func(topic codec.TopicID, name string) codec.GroupID {
		got := r.subscribe(1, topic, name)
		r.want(name, got, 0)
		return r.members[got.Member].Group.ID
	}
	for i, want := range []codec.GroupID{65535, 1, 2} {
		if got := join(1+2*codec.TopicID(i/2), fmt.Sprint("g", i)); got != want {
			t.Errorf("group %d got id %d, want %d", i, got, want)
		}
	}
	r.want("", r.declare(1, "a", 0, codec.DeclareDelete), 0)
	if got := join(3, "next"); got != 3 {
		t.Errorf("an id was used again at once: %d", got)
	}
	for id := codec.GroupID(4); id != 0; id++ {
		r.core.reg.addGroup(Group{ID: id, Topic: 4, Name: fmt.Sprint(id)})
	}
	if got := join(3, "wrapped"); got != 1 {
		t.Errorf("id 1 is free again, got %d", got)
	}
	r.want("G10", r.subscribe(1, 3, "more"), codec.CodeQuotaExceeded)
	r.want("an existing group still serves", r.subscribe(2, 3, "next"), 0)
}

func TestRecordCap(t *testing.T) {
	name := strings.Repeat("n", 100)
	for limit, code := range map[int]codec.Code{10 + 100: 0, 9 + 100: codec.CodeMutationNotPackable} {
		r := started(t, Config{MaxRecord: limit})
		r.want("topic", r.declare(1, name, 1, 0), code)
		r.want("what follows is served", r.declare(1, "a", 1, 0), 0)
		r.want("group", r.subscribe(1, 1, strings.Repeat("g", limit-8)), codec.CodeMutationNotPackable)
		r.want("what follows is served", r.subscribe(1, 1, strings.Repeat("g", limit-9)), 0)
	}
}

func TestWaitingCommandsAreBounded(t *testing.T) {
	r := started(t, Config{MaxWaiting: 3})
	r.auto = false
	for i := range 6 {
		r.declare(1, fmt.Sprint("t", i), 1, 0)
	}
	for i := range uint64(6) {
		if got, answered := r.replies[Token{1, i}]; answered != (i >= 4) || got.Code != 0 && got.Code != codec.CodeBackpressure {
			t.Errorf("request %d: %s", i, show(got))
		}
	}
	for r.proposal != nil {
		r.commit()
	}
	if len(r.replies) != 6 || len(r.topics) != 4 {
		t.Errorf("%d replies, %d topics", len(r.replies), len(r.topics))
	}
}

// A connection's later commands see what its earlier ones did, however long these wait.
func TestCommandsAboutOneTopicKeepTheirOrder(t *testing.T) {
	r := started(t, Config{})
	r.declare(1, "a", 1, 0)
	r.declare(1, "b", 1, 0)
	r.subscribe(1, 1, "g")
	r.auto = false
	r.declare(7, "slow", 1, 0) // occupies the log
	r.declare(1, "a", 0, codec.DeclareDelete)
	r.subscribe(1, 1, "g")
	r.subscribe(1, 2, "g")
	r.declare(1, "a", 0, 0)
	r.want("another topic does not wait", r.declare(1, "b", 0, 0), 0)
	r.subscribe(1, 3, "g")
	for r.proposal != nil {
		r.commit()
	}
	r.auto = true
	r.opened(0)
	for slot, want := range map[uint64]codec.Code{3: 0, 4: codec.CodeUnknownTopic, 5: codec.CodeUnknownTopic, 6: 0, 8: 0} {
		r.want(fmt.Sprint("request ", slot), r.replies[Token{1, slot}], want)
	}
	if got := r.replies[Token{1, 6}].Declare; got.TopicID != 7 || got.Created != codec.CreatedNew {
		t.Errorf("the name was declared again behind its deletion: %+v", got)
	}
}

// What a connection asked for and did not live to hear still takes effect, but it
// becomes no member and gets no answer.
func TestDisconnectWhileWaiting(t *testing.T) {
	r := started(t, Config{})
	r.declare(1, "a", 1, 0)
	r.auto = false
	r.subscribe(2, 1, "g")  // on its way to the log
	r.declare(2, "b", 1, 0) // waits
	r.declare(3, "b", 2, 0) // waits behind it
	r.step(Disconnect{Conn: 2})
	for r.proposal != nil {
		r.commit()
	}
	if got := r.replies[Token{3, 0}]; got.Code != 0 || got.Declare.PartitionCount != 2 {
		t.Errorf("%s", show(got))
	}
	if len(r.opening) != 0 || len(r.members) != 0 || len(r.core.reg.groups) != 1 {
		t.Errorf("%d groups to open, %d members, %d groups", len(r.opening), len(r.members), len(r.core.reg.groups))
	}
	for tok := range r.replies {
		if tok.Conn == 2 {
			t.Errorf("a connection that is gone was answered")
		}
	}
	r.subscribe(4, 1, "g") // waits for the shards
	r.subscribe(5, 1, "g")
	r.step(Disconnect{Conn: 4})
	r.opened(0)
	if len(r.members) != 1 || r.replies[Token{5, 0}].Code != 0 {
		t.Errorf("%d members", len(r.members))
	}
}

// A record that was given up and is committed all the same may take what the next one wanted.
func TestARecordThatIsOvertakenIsFenced(t *testing.T) {
	r := started(t, Config{})
	r.auto = false
	r.declare(1, "first", 1, 0)
	first := r.proposal
	r.proposal = nil
	r.step(ProposalFailed{Code: codec.CodeQuorumLost, Message: "why"})
	if got := r.replies[Token{1, 0}]; got.Code != codec.CodeQuorumLost || got.Message != "why" {
		t.Errorf("%s", show(got))
	}
	r.declare(1, "second", 1, 0)
	r.apply(first)
	if got, answered := r.replies[Token{1, 1}]; answered {
		t.Fatalf("answered by another's record: %s", show(got))
	}
	r.commit()
	r.want("0x2006", r.replies[Token{1, 1}], codec.CodeMutationFenced)
	if _, ok := r.core.TopicByName("second"); ok || r.dropped != 1 {
		t.Errorf("the record took effect; %d dropped", r.dropped)
	}
	r.auto = true
	if got := r.declare(1, "second", 1, 0); got.Declare.TopicID != 3 {
		t.Errorf("sent again: %s", show(got))
	}
}

// Shards may answer for a group whose topic was deleted, after its id was given to another.
func TestALateGroupOpenedOpensNoOther(t *testing.T) {
	r := started(t, Config{})
	r.declare(1, "a", 1, 0)
	r.declare(1, "b", 1, 0)
	r.auto = false
	r.subscribe(1, 1, "g")
	r.commit()
	late := r.opening[0]
	r.declare(1, "a", 0, codec.DeclareDelete)
	r.commit()
	r.core.reg.lastGroup = 0
	r.subscribe(1, 3, "g")
	r.commit()
	if late.Group != r.opening[1].Group {
		t.Fatal("set-up: the id was not used again")
	}
	if effects := r.step(late); len(effects) != 0 {
		t.Errorf("%v", effects)
	}
	r.opened(1)
	if len(r.members) != 1 {
		t.Errorf("%d members", len(r.members))
	}
}

func TestSubscriptionIDsWrap(t *testing.T) {
	r := started(t, Config{})
	r.declare(1, "a", 1, 0)
	stays := r.subscribe(1, 1, "g1")
	r.core.conns[1].last = 65534
	for i, want := range []codec.SubscriptionID{65535, 2, 3} {
		got := r.subscribe(1, 1, fmt.Sprint("h", i))
		if got.Sub.SubscriptionID != want {
			t.Errorf("got %d, want %d (1 is in use)", got.Sub.SubscriptionID, want)
		}
		r.want("", r.leave(got.Member), 0)
	}
	r.want("", r.leave(stays.Member), 0)
	if got := r.subscribe(2, 1, "g1"); got.Sub.SubscriptionID != 1 {
		t.Errorf("every connection counts for itself: %d", got.Sub.SubscriptionID)
	}
}

func TestLeaveIsOnlyForOwnMembers(t *testing.T) {
	r := started(t, Config{})
	r.declare(1, "a", 1, 0)
	m := r.subscribe(1, 1, "g").Member
	tok := r.token(2, codec.OpHeartbeat)
	r.step(Leave{tok, m})
	r.want("", r.replies[tok], codec.CodeUnknownMember)
	r.want("", r.leave(m), 0)
	tok = r.token(1, codec.OpHeartbeat)
	r.step(Leave{tok, m})
	r.want("again", r.replies[tok], codec.CodeUnknownMember)
}

// CONTROL_ACKs that are not right get their code and have no effect at all.
func TestInventedConfirmationsHaveNoEffect(t *testing.T) {
	for what, change := range map[string]func(*codec.ControlAck){
		"kind":             func(a *codec.ControlAck) { a.NoticeKind ^= 1 },
		"notice id":        func(a *codec.ControlAck) { a.NoticeID++ },
		"membership epoch": func(a *codec.ControlAck) { a.MembershipEpoch++ },
		"assignment epoch": func(a *codec.ControlAck) { a.AssignmentEpoch-- },
		"ownership epoch":  func(a *codec.ControlAck) { a.OwnershipEpoch++ },
		"another group":    func(a *codec.ControlAck) { a.GroupID++ },
	} {
		for _, result := range []uint8{codec.ControlOK, codec.ControlStale, codec.ControlError} {
			r := started(t, Config{})
			r.what = what + ": "
			r.declare(1, "a", 1, 0)
			r.subscribe(2, 1, "h")
			r.subscribe(1, 1, "g")
			r.subscribe(2, 1, "i") // group 3 exists
			n := r.notices[1]
			ack := ackOf(n, result)
			change(&ack)
			tok := r.token(1, codec.OpControlAck)
			effects := r.step(ControlAck{tok, ack})
			if r.want("G9", r.replies[tok], codec.CodeStaleGeneration); len(effects) != 1 {
				r.fail("effects: %v", effects)
			}
			r.want("the true one still counts", r.answer(n, codec.ControlOK), 0)
			if len(r.owned(n.MemberID)) != 1 {
				r.fail("not owned")
			}
		}
	}
}

func TestSilenceIsTheLastFrameAnywhere(t *testing.T) {
	r := started(t, Config{})
	r.declare(1, "a", 1, 0)
	m := r.subscribe(1, 1, "g")
	at := func(now, seen time.Duration) {
		r.now = now
		r.step(Tick{Seen: func(codec.MemberID) time.Duration { return seen }})
	}
	at(45*time.Second, time.Second)
	at(46*time.Second-1, time.Second)
	if len(r.members) != 1 {
		t.Fatal("dropped too early")
	}
	r.beat(1, codec.Heartbeat{SubscriptionID: 1, MemberID: m.Member, MembershipEpoch: 1, AssignmentEpoch: 1})
	at(90*time.Second, 0)
	if len(r.members) != 1 {
		t.Fatal("the HEARTBEAT was forgotten")
	}
	at(91*time.Second, 0)
	if len(r.members) != 0 {
		t.Fatal("not dropped")
	}
}

func TestLeadMustGrow(t *testing.T) {
	for _, term := range []uint64{0, 4, 5, 1 << 32} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("Lead(%d) after Lead(5) was taken", term)
				}
			}()
			c := New(Config{})
			c.Lead(5)
			c.Lead(term)
		}()
	}
}

// The caller may use its buffers again once Step has returned, and what it does to effects does not matter.
func TestNothingIsShared(t *testing.T) {
	r := started(t, Config{})
	r.auto = false
	name, group := []byte("first"), []byte("group")
	r.step(Declare{r.token(1, codec.OpDeclare), codec.Declare{Topic: name}})
	r.step(Declare{r.token(1, codec.OpDeclare), codec.Declare{Topic: name, Flags: codec.DeclareDelete}})
	copy(name, "XXXXX")
	r.proposal = append([]byte(nil), r.proposal...)
	r.commit()
	r.commit()
	if len(r.topics) != 0 {
		t.Fatalf("%v", r.topics)
	}
	r.auto = true
	r.declare(1, "a", 2, 0)
	r.auto = false
	r.step(Subscribe{r.token(1, codec.OpSub), codec.Sub{TopicID: 3, Group: group}})
	copy(group, "XXXXX")
	r.auto = true // the group is created and opened
	r.commit()
	if g, ok := r.core.Group(1); !ok || g.Name != "group" {
		t.Fatalf("%+v", g)
	}
	first := r.step(ControlAck{r.token(1, codec.OpControlAck), ackOf(r.notices[0], codec.ControlOK)})[1].(OwnedSet)
	was := fmt.Sprint(first)
	r.settle()
	r.subscribe(2, 3, "group")
	r.settle()
	if fmt.Sprint(first) != was || len(first.Owned) != 1 {
		t.Errorf("an effect changed from %s to %v", was, first)
	}
}

func TestLookups(t *testing.T) {
	c := goldenCore(t)
	var names []string
	for topic := range c.Topics() {
		names = append(names, topic.Name)
	}
	var ids []codec.GroupID
	for g := range c.Groups() {
		ids = append(ids, g.ID)
	}
	if fmt.Sprint(names, ids) != "[a orders.eu] [7 258]" {
		t.Errorf("%v %v", names, ids)
	}
	want := Topic{ID: 5, Name: "orders.eu", Partitions: 12}
	for _, id := range []codec.TopicID{5, 6} {
		if got, ok := c.Topic(id); !ok || got != want {
			t.Errorf("%d: %+v", id, got)
		}
	}
	for _, id := range []codec.TopicID{0, 3, 4, 7, 0xFFFF} {
		if got, ok := c.Topic(id); ok {
			t.Errorf("%d: %+v", id, got)
		}
	}
	if got, ok := c.TopicByName("orders.eu"); !ok || got != want {
		t.Errorf("%+v", got)
	}
	if _, ok := c.TopicByName("gone"); ok {
		t.Error("a deleted topic was found")
	}
	if _, ok := c.Group(1); ok {
		t.Error("a deleted topic's group was found")
	}
}

// Answering STALE again and again does not keep a partition in limbo.
func TestStaleDoesNotExtendTheTimeToConfirm(t *testing.T) {
	r := started(t, Config{})
	r.declare(1, "a", 2, 0)
	r.subscribe(1, 1, "g")
	r.settle()
	r.subscribe(2, 1, "g")
	for i := range 10 {
		n := r.notices[len(r.notices)-1]
		if n.Kind != codec.NoticeRevoke || len(r.owners) != 2 {
			t.Fatalf("after %d s: %+v, %d owners", i, n, len(r.owners))
		}
		r.want("STALE", r.answer(n, codec.ControlStale), 0)
		r.pass(time.Second)
	}
	if len(r.owners) != 1 {
		t.Error("not fenced after 10 s")
	}
}

func TestDeletionLeavesNothingBehind(t *testing.T) {
	for what, end := range map[string]func(r *rig){
		"the connection ends": func(r *rig) { r.step(Disconnect{1}); r.step(Disconnect{2}) },
		"time passes":         func(r *rig) { r.pass(10 * time.Second); r.step(Disconnect{1}); r.step(Disconnect{2}) },
	} {
		r := started(t, Config{})
		r.declare(1, "a", 2, 0)
		r.subscribe(1, 1, "g")
		r.subscribe(2, 2, "g")
		r.settle()
		r.declare(1, "a", 0, codec.DeclareDelete)
		if len(r.core.notices.byID) != 4 {
			t.Fatalf("%d notices", len(r.core.notices.byID))
		}
		end(r)
		c := r.core
		if n := len(c.notices.byID) + len(c.notices.farewells) + len(c.live) + len(c.members) + len(c.conns) + len(c.opening); n != 0 {
			t.Errorf("%s: %d things are left", what, n)
		}
	}
}

func TestAClockThatStepsBackIsIgnored(t *testing.T) {
	r := started(t, Config{})
	r.declare(1, "a", 1, 0)
	r.now = time.Minute
	r.step(Tick{})
	r.now = 0
	r.subscribe(1, 1, "g")
	r.now = time.Minute + 10*time.Second - 1
	if effects := r.step(Tick{}); len(effects) != 0 {
		t.Errorf("too early: %v", effects)
	}
	r.now++
	r.step(Tick{})
	if len(r.core.members[r.notices[0].MemberID].refused) != 1 {
		t.Error("not passed over after 10 s")
	}
}
