package coord

import (
	"bytes"
	"flag"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/mortarmq/mortarmq/codec"
)

var (
	simSeeds = flag.Int("sim.seeds", 30, "how many seeds TestSimulation runs")
	simSteps = flag.Int("sim.steps", 3000, "steps per seed")
	simSeed  = flag.Uint64("sim.seed", 0, "the first seed")
)

// sim is a crowd of clients that join, leave, vanish, confirm late, wrongly or never,
// and an operator who makes and deletes topics, on a log that fails now and then. The rig checks every
// effect; sim adds what a client may expect of its own requests.
type sim struct {
	*rig
	rng      *rand.Rand
	cfg      Config
	follower *Core    // applies the same records and never leads
	zombies  [][]byte // records that were reported as failed and may be committed yet
	nextConn uint64
	conns    []uint64
	seen     map[codec.MemberID]time.Duration
	hash     uint64 // of all effects
}

func newSim(t testing.TB, seed uint64) *sim {
	cfg := Config{MaxMembers: 4, MaxSubscriptions: 5, MaxPartitions: 6, MaxTotalPartitions: 20}
	s := &sim{
		rig: started(t, cfg), rng: rand.New(rand.NewPCG(seed, 0xC0)), cfg: cfg, follower: New(cfg),
		seen: map[codec.MemberID]time.Duration{},
	}
	s.what = fmt.Sprintf("seed %d (-sim.seed %d -sim.seeds 1): ", seed, seed)
	s.auto, s.record = false, true
	return s
}

func pick[T any](rng *rand.Rand, of []T) T { return of[rng.IntN(len(of))] }

// one takes one random step.
func (s *sim) one() {
	s.t.Helper()
	choice := s.rng.IntN(1000)
	switch {
	case len(s.conns) == 0 || choice < 15:
		s.nextConn++
		s.conns = append(s.conns, s.nextConn)
	case choice < 35:
		s.randomDeclare()
	case choice < 145:
		s.randomSub()
	case choice < 500:
		s.randomAck()
	case choice < 530:
		s.randomBeat(codec.HeartbeatActive)
	case choice < 560:
		s.randomBeat(codec.HeartbeatLeave)
	case choice < 580:
		i := s.rng.IntN(len(s.conns))
		conn := s.conns[i]
		s.conns = slices.Delete(s.conns, i, i+1)
		s.step(Disconnect{conn})
	case choice < 850:
		s.randomLog()
	case choice < 990:
		s.randomPass()
	case choice < 993:
		s.failover()
	}
	h := fnv.New64a()
	fmt.Fprint(h, s.hash, s.lines)
	s.hash, s.lines = h.Sum64(), nil
}

func (s *sim) randomDeclare() {
	name := pick(s.rng, []string{"a", "b", "c", "d", "not allowed"})
	flags := uint16(0)
	if s.rng.IntN(4) == 0 {
		flags = codec.DeclareDelete
	}
	s.declare(pick(s.rng, s.conns), name, pick(s.rng, []uint16{0, 0, 1, 3, 5, 7}), flags)
}

func (s *sim) randomSub() {
	req := codec.Sub{TopicID: codec.TopicID(s.rng.IntN(4)), Group: []byte(pick(s.rng, []string{"g", "h"}))}
	if ids := slices.Sorted(maps.Keys(s.topics)); len(ids) > 0 && s.rng.IntN(10) > 0 {
		req.TopicID = pick(s.rng, ids)
		if s.rng.IntN(4) == 0 {
			req.TopicID = req.TopicID.Twin()
		}
	}
	if s.rng.IntN(20) == 0 {
		req.StartPolicy = codec.StartLatest
	}
	if s.rng.IntN(20) == 0 {
		req.Flags = codec.SubNoCreate
	}
	s.sub(pick(s.rng, s.conns), req)
}

// randomAck answers a notice: mostly one that is open, in one of all the ways.
func (s *sim) randomAck() {
	s.t.Helper()
	n, ok := s.randomNotice()
	if !ok {
		return
	}
	conn := s.connOf(n)
	if conn == 0 || s.rng.IntN(50) == 0 {
		conn = pick(s.rng, s.conns)
	}
	ack := ackOf(n, codec.ControlOK)
	switch s.rng.IntN(20) {
	case 0:
		ack.Result = codec.ControlStale
	case 1:
		ack.Result = codec.ControlError
	case 2:
		s.wrongAck(conn, ack)
		return
	}
	before := s.open(n)
	tok := s.token(conn, codec.OpControlAck)
	effects := s.step(ControlAck{tok, ack})
	got := s.replies[tok]
	switch {
	case conn == s.connOf(n) && before && got.Code != 0:
		s.fail("the answer to an open notice was refused: %s", show(got))
	case got.Code != 0 && got.Code != codec.CodeStaleGeneration && got.Code != codec.CodeUnknownGroup:
		s.fail("G9: %s", show(got))
	case got.Code != 0 && len(effects) != 1:
		s.fail("a refused CONTROL_ACK had effects: %v", effects)
	}
}

// wrongAck changes one field: it must have no effect.
func (s *sim) wrongAck(conn uint64, ack codec.ControlAck) {
	s.t.Helper()
	switch s.rng.IntN(6) {
	case 0:
		ack.NoticeKind ^= 1
	case 1:
		ack.MembershipEpoch++
	case 2:
		ack.AssignmentEpoch--
	case 3:
		ack.OwnershipEpoch++
	case 4:
		ack.NoticeID += 1 << 20
	case 5:
		ack.GroupID++
	}
	tok := s.token(conn, codec.OpControlAck)
	effects := s.step(ControlAck{tok, ack})
	if got := s.replies[tok]; len(effects) != 1 || got.Code != codec.CodeStaleGeneration && got.Code != codec.CodeUnknownGroup {
		s.fail("a wrong CONTROL_ACK gave %v", effects)
	}
}

// open reports whether a notice waits for its answer. It looks inside.
func (s *sim) open(n codec.Notice) bool {
	m := s.core.members[n.MemberID]
	return m != nil && m.told[n.Partition].NoticeID == n.NoticeID && m.told[n.Partition].state == open
}

func (s *sim) randomNotice() (codec.Notice, bool) {
	if len(s.notices) == 0 {
		return codec.Notice{}, false
	}
	if s.rng.IntN(5) > 0 {
		var waiting []codec.Notice
		for _, n := range s.notices[max(0, len(s.notices)-100):] {
			if s.open(n) {
				waiting = append(waiting, n)
			}
		}
		if len(waiting) > 0 {
			return pick(s.rng, waiting), true
		}
	}
	return pick(s.rng, s.notices), true
}

func (s *sim) randomMember() (MemberJoined, bool) {
	ids := slices.Sorted(maps.Keys(s.members))
	if len(ids) == 0 {
		return MemberJoined{}, false
	}
	return s.members[pick(s.rng, ids)], true
}

func (s *sim) randomBeat(state uint8) {
	s.t.Helper()
	m, ok := s.randomMember()
	if !ok {
		return
	}
	e := s.ranges[m.Member]
	req := codec.Heartbeat{
		SubscriptionID: m.Subscription, MemberID: m.Member, State: state,
		MembershipEpoch: e.Membership.Told, AssignmentEpoch: e.Assignment.Confirmed,
	}
	want := codec.Code(0)
	switch s.rng.IntN(8) {
	case 0:
		req.MembershipEpoch, want = e.Membership.Told+1, codec.CodeStaleGeneration
	case 1:
		req.AssignmentEpoch, want = e.Assignment.Confirmed-1, codec.CodeStaleGeneration
	case 2:
		req.MemberID, want = m.Member+1000, codec.CodeUnknownMember
	case 3:
		req.SubscriptionID, want = 777, codec.CodeUnknownMember
	}
	conn := m.Conn
	if s.rng.IntN(8) == 0 && want == 0 {
		conn, want = s.nextConn+1000, codec.CodeUnknownMember
	}
	s.want("G8", s.beat(conn, req), want)
	if _, alive := s.members[m.Member]; alive == (want == 0 && state == codec.HeartbeatLeave) {
		s.fail("G8: alive is %v after %+v", alive, req)
	}
}

// randomLog lets the meta log and the shards make progress, or fail.
func (s *sim) randomLog() {
	s.t.Helper()
	switch {
	case len(s.zombies) > 0 && s.rng.IntN(4) == 0:
		data := s.zombies[0]
		s.zombies = s.zombies[1:]
		s.apply(data)
	case s.proposal != nil && s.rng.IntN(10) == 0:
		if s.rng.IntN(2) == 0 {
			s.zombies = append(s.zombies, s.proposal)
		}
		s.proposal = nil
		s.step(ProposalFailed{Code: codec.CodeMetadataReadOnly})
	case s.proposal != nil:
		s.commit()
	case len(s.opening) > 0:
		i := s.rng.IntN(len(s.opening))
		if s.rng.IntN(10) == 0 {
			s.opening[i].Code = codec.CodeInternal
		}
		s.opened(i)
	}
}

// apply gives every record to the follower too.
func (s *sim) apply(data []byte) {
	s.t.Helper()
	if bytes.Equal(data, s.proposal) { // asked for again after it had been given up: it is committed twice
		s.zombies = append(s.zombies, s.proposal)
		s.proposal = nil
	}
	s.rig.apply(data)
	if _, err := s.follower.Apply(s.index, data); err != nil {
		s.fail("the follower: %v", err)
	}
}

func (s *sim) commit() {
	data := s.proposal
	s.proposal = nil
	s.apply(data)
}

func (s *sim) randomPass() {
	s.now += pick(s.rng, []time.Duration{time.Millisecond, 100 * time.Millisecond, time.Second, time.Second, 3 * time.Second, 11 * time.Second})
	for id := range s.members {
		if _, ok := s.seen[id]; !ok {
			s.seen[id] = s.now
		}
	}
	for _, id := range slices.Sorted(maps.Keys(s.members)) { // some members are never heard of again
		if uint64(id)%7 != 0 && s.rng.IntN(3) > 0 {
			s.seen[id] = s.now
		}
	}
	s.step(Tick{Seen: func(id codec.MemberID) time.Duration { return s.seen[id] }})
	for id := range s.members {
		if m := s.core.members[id]; s.now-max(m.seen, s.seen[id]) >= s.core.cfg.MemberTimeout {
			s.fail("G3: member %s is silent since %v and lives at %v", num(id), s.seen[id], s.now)
		}
	}
}

// failover ends this leadership; the next leader is this node, or one that starts from a snapshot.
func (s *sim) failover() {
	s.t.Helper()
	s.took(s.core.Follow())
	s.allAnswered()
	if len(s.members) != 0 || len(s.owners) != 0 {
		s.fail("after Follow there are %d members and %d owners", len(s.members), len(s.owners))
	}
	if s.proposal != nil && s.rng.IntN(2) == 0 {
		s.commit()
	}
	for s.rng.IntN(2) == 0 && len(s.zombies) > 0 {
		s.apply(s.zombies[0])
		s.zombies = s.zombies[1:]
	}
	if s.rng.IntN(2) == 0 {
		next := New(s.cfg)
		if err := next.Restore(s.core.Snapshot()); err != nil {
			s.fail("%v", err)
		}
		s.core = next
	}
	s.conns, s.zombies = nil, nil
	s.clear()
	s.lead(s.term + 1 + uint64(s.rng.IntN(3)))
}

// allAnswered asserts one reply per request of a living connection.
func (s *sim) allAnswered() {
	s.t.Helper()
	for tok, op := range s.asked {
		if _, ok := s.replies[tok]; !ok && !s.gone[tok.Conn] {
			s.fail("%v of connection %d was never answered", op, tok.Conn)
		}
	}
}

// quiet lets everything come to rest, everybody willing, and looks at the result.
func (s *sim) quiet() {
	s.t.Helper()
	for s.proposal != nil || len(s.opening) > 0 {
		if s.proposal != nil {
			s.commit()
		} else {
			s.opened(0)
		}
	}
	for range 4 {
		s.settle()
		s.pass(12 * time.Second)
	}
	s.recover()
	s.settle()
	s.change()
	s.settle()
	s.allAnswered()
	for id, g := range s.core.live {
		if g.opening {
			s.fail("group %d is still being opened", id)
		}
		if len(g.members) == 0 {
			continue
		}
		target := make([]codec.MemberID, len(g.slots))
		for p := range g.slots {
			target[p] = s.owners[place{id, codec.Partition(p)}].Member
			if target[p] == 0 {
				s.fail("group %d partition %d has no owner at rest", id, p)
			}
		}
		if least, most := shareOf(g.memberIDs(), target); most-least > 1 {
			s.fail("G5: group %d at rest: %v", id, target)
		}
	}
	a, b := s.core.Snapshot(), s.follower.Snapshot()
	if !bytes.Equal(a, b) {
		s.fail("leader and follower differ:\n%x\n%x", a, b)
	}
	roundTrip(s.t, s.core)
}

// recover has members that were passed over say STALE.
func (s *sim) recover() {
	s.t.Helper()
	for _, id := range slices.Sorted(maps.Keys(s.members)) {
		m := s.core.members[id]
		if len(m.refused) == 0 {
			continue
		}
		for _, p := range slices.Sorted(maps.Keys(m.told)) {
			s.want("STALE", s.answer(m.told[p].Notice, codec.ControlStale), 0)
			break
		}
	}
}

// change has a member leave every group where a partition was once refused: the
// shares are even again after a change, and always where nothing was refused.
func (s *sim) change() {
	s.t.Helper()
	for _, g := range s.core.liveGroups() {
		for p := range g.slots {
			if g.slots[p].last != 0 && len(g.members) > 1 {
				s.leave(g.members[0].id)
				break
			}
		}
	}
}

func runSim(t testing.TB, seed uint64, steps int) uint64 {
	s := newSim(t, seed)
	for range steps {
		s.one()
	}
	s.quiet()
	return s.hash
}

func TestSimulation(t *testing.T) {
	for i := range *simSeeds {
		runSim(t, *simSeed+uint64(i), *simSteps)
	}
}

func TestTheSameSeedGivesTheSameEffects(t *testing.T) {
	for seed := range uint64(5) {
		if a, b := runSim(t, seed, 2000), runSim(t, seed, 2000); a != b {
			t.Errorf("seed %d: %x, then %x", seed, a, b)
		}
	}
}
