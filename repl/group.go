package repl

import (
	"fmt"
	"log/slog"

	mlog "github.com/mortarmq/mortarmq/log"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// Raft's timing in ticks; the owner decides how long a tick is.
const (
	heartbeatTicks = 1
	electionTicks  = 10
)

// maxApplyBytes bounds the entries handed to apply in one go, so that a replay
// of a long log needs bounded memory.
const maxApplyBytes = 8 << 20

// Config describes a group.
type Config struct {
	ID     uint64   // this node's id in the group; never 0
	Voters []uint64 // the group's members; one, this node, when alone
	Log    *mlog.Log
	Logger *slog.Logger
}

// Group is one replication group on this node. All methods are called by one
// owner goroutine.
type Group struct {
	rn      *raft.RawNode
	log     *mlog.Log
	storage *storage

	// pending holds what raft wants to hear once a write has reached the disk, in
	// ticket order.
	pending []write
	// hard is the hard state that was last handed to the log; only a new term or
	// vote has to be on disk before anything is answered.
	hard    raftpb.HardState
	leader  bool
	term    uint64
	applied mlog.Index
}

type write struct {
	ticket    mlog.Ticket
	responses []raftpb.Message
}

// New opens the group at the end of its log. applied is the last index that the owner's state
// already contains; entries after it are handed to apply again.
func New(cfg Config, applied mlog.Index) (*Group, error) {
	st := &storage{log: cfg.Log, voters: cfg.Voters}
	rn, err := raft.NewRawNode(&raft.Config{
		ID:                        cfg.ID,
		ElectionTick:              electionTicks,
		HeartbeatTick:             heartbeatTicks,
		Storage:                   st,
		Applied:                   uint64(applied),
		AsyncStorageWrites:        true,
		MaxSizePerMsg:             1 << 20,
		MaxCommittedSizePerReady:  maxApplyBytes,
		MaxInflightMsgs:           64,
		CheckQuorum:               true,
		PreVote:                   true,
		DisableProposalForwarding: true,
		Logger:                    raftLogger{cfg.Logger},
	})
	if err != nil {
		return nil, fmt.Errorf("repl: opening the group: %w", err)
	}
	hs := cfg.Log.HardState()
	return &Group{
		rn: rn, log: cfg.Log, storage: st, applied: applied, term: uint64(hs.Term),
		hard: raftpb.HardState{Term: uint64(hs.Term), Vote: hs.Vote, Commit: uint64(hs.Commit)},
	}, nil
}

// Campaign asks to lead now instead of after an election timeout.
func (g *Group) Campaign() error { return g.rn.Campaign() }

// Tick moves raft's clock.
func (g *Group) Tick() { g.rn.Tick() }

// Leader reports whether this node leads the group, and its term. A new leader
// has all earlier entries only once it has applied one of its own term.
func (g *Group) Leader() (leads bool, term uint64) { return g.leader, g.term }

// Applied returns the index of the last entry handed to apply.
func (g *Group) Applied() mlog.Index { return g.applied }

// InFlight returns how many appends are on their way to the disk.
func (g *Group) InFlight() int { return len(g.pending) }

// Propose appends data to the group's log. The group owns data from now on; it
// comes back in apply once it is committed. Fails with raft.ErrProposalDropped when this
// node does not lead.
func (g *Group) Propose(data []byte) error { return g.rn.Propose(data) }

// Written says that every write up to the ticket has reached the disk.
func (g *Group) Written(upTo mlog.Ticket) error {
	n := 0
	for n < len(g.pending) && g.pending[n].ticket <= upTo {
		if err := g.stepAll(g.pending[n].responses); err != nil {
			return err
		}
		n++
	}
	g.pending = append(g.pending[:0], g.pending[n:]...)
	return nil
}

// Pump does everything that is to be done now: hands appends to the log and
// committed entries to apply, until raft is quiet. apply gets every entry, also
// the empty one that opens a term; its Data is valid until the next call on the log.
// An error is final: the group's state can no longer be trusted.
func (g *Group) Pump(apply func(e mlog.Entry) error) (err error) {
	defer func() {
		// raft panics when its storage cannot read. That is a fault of the disk,
		// not of the program: hand it up as what it is.
		if r := recover(); r != nil {
			if g.storage.err == nil {
				panic(r)
			}
			err = fmt.Errorf("repl: reading the log: %w", g.storage.err)
		}
	}()
	for g.rn.HasReady() {
		rd := g.rn.Ready()
		if rd.SoftState != nil {
			g.leader = rd.SoftState.RaftState == raft.StateLeader
		}
		if !raft.IsEmptyHardState(rd.HardState) {
			g.term = rd.HardState.Term
		}
		for i := range rd.Messages {
			m := &rd.Messages[i]
			switch m.To {
			case raft.LocalAppendThread:
				err = g.appendEntries(m)
			case raft.LocalApplyThread:
				err = g.applyEntries(m, apply)
			default:
				err = fmt.Errorf("repl: a message for node %d, but there is one voter", m.To)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (g *Group) appendEntries(m *raftpb.Message) error {
	hs := raftpb.HardState{Term: m.Term, Vote: m.Vote, Commit: m.Commit}
	promised := false // a term or a vote that others may rely on
	var hard *mlog.HardState
	if !raft.IsEmptyHardState(hs) {
		promised = hs.Term != g.hard.Term || hs.Vote != g.hard.Vote
		g.hard = hs
		hard = &mlog.HardState{Term: mlog.Term(hs.Term), Vote: hs.Vote, Commit: mlog.Index(hs.Commit)}
	}
	if len(m.Entries) == 0 && !promised {
		// Only the commit index moved: it rides with the next write. What raft
		// wants to hear depends on the writes before it alone.
		if hard != nil {
			g.log.Append(nil, hard, false)
		}
		if n := len(g.pending); n > 0 {
			g.pending[n-1].responses = append(g.pending[n-1].responses, m.Responses...)
			return nil
		}
		return g.stepAll(m.Responses)
	}
	entries := make([]mlog.Entry, len(m.Entries))
	for i, e := range m.Entries {
		entries[i] = mlog.Entry{Term: mlog.Term(e.Term), Index: mlog.Index(e.Index), Type: uint8(e.Type), Data: e.Data}
	}
	ticket := g.log.Append(entries, hard, true)
	g.pending = append(g.pending, write{ticket, m.Responses})
	return nil
}

func (g *Group) applyEntries(m *raftpb.Message, apply func(e mlog.Entry) error) error {
	for _, e := range m.Entries {
		if e.Type != raftpb.EntryNormal {
			return fmt.Errorf("repl: entry %d has type %s; membership is static", e.Index, e.Type)
		}
		err := apply(mlog.Entry{Term: mlog.Term(e.Term), Index: mlog.Index(e.Index), Data: e.Data})
		if err != nil {
			return fmt.Errorf("repl: applying entry %d: %w", e.Index, err)
		}
		g.applied = mlog.Index(e.Index)
	}
	return g.stepAll(m.Responses)
}

func (g *Group) stepAll(responses []raftpb.Message) error {
	for _, r := range responses {
		if err := g.rn.Step(r); err != nil {
			return fmt.Errorf("repl: stepping %s: %w", r.Type, err)
		}
	}
	return nil
}
