package repl

import (
	"errors"

	mlog "github.com/mortarmq/mortarmq/log"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// storage shows a log to raft. raft panics on any error that is not
// ErrCompacted or ErrUnavailable; the first such error is kept so that Pump can
// return it instead (see Group.Pump).
type storage struct {
	log    *mlog.Log
	voters []uint64
	err    error
}

// InitialState implements raft.Storage.
func (s *storage) InitialState() (raftpb.HardState, raftpb.ConfState, error) {
	hs := s.log.HardState()
	return raftpb.HardState{Term: uint64(hs.Term), Vote: hs.Vote, Commit: uint64(hs.Commit)},
		raftpb.ConfState{Voters: s.voters}, nil
}

// Entries implements raft.Storage: [lo, hi), at least one, at most maxSize bytes.
func (s *storage) Entries(lo, hi, maxSize uint64) ([]raftpb.Entry, error) {
	entries, err := s.log.Entries(mlog.Index(lo), mlog.Index(hi), int(min(maxSize, 1<<40)))
	if err != nil {
		return nil, s.translate(err)
	}
	out := make([]raftpb.Entry, len(entries))
	for i, e := range entries {
		out[i] = raftpb.Entry{Term: uint64(e.Term), Index: uint64(e.Index), Type: raftpb.EntryType(e.Type), Data: e.Data}
	}
	return out, nil
}

// Term implements raft.Storage.
func (s *storage) Term(i uint64) (uint64, error) {
	if i == 0 {
		return 0, nil
	}
	term, err := s.log.Term(mlog.Index(i))
	if err != nil {
		return 0, s.translate(err)
	}
	return uint64(term), nil
}

// LastIndex implements raft.Storage.
func (s *storage) LastIndex() (uint64, error) { return uint64(s.log.LastIndex()), nil }

// FirstIndex implements raft.Storage.
func (s *storage) FirstIndex() (uint64, error) { return uint64(s.log.FirstIndex()), nil }

// Snapshot implements raft.Storage. Only a leader with a follower that fell
// behind the log asks for one, and groups of several nodes are not built yet.
func (s *storage) Snapshot() (raftpb.Snapshot, error) {
	return raftpb.Snapshot{}, raft.ErrSnapshotTemporarilyUnavailable
}

func (s *storage) translate(err error) error {
	switch {
	case errors.Is(err, mlog.ErrCompacted):
		return raft.ErrCompacted
	case errors.Is(err, mlog.ErrUnavailable):
		return raft.ErrUnavailable
	}
	if s.err == nil {
		s.err = err
	}
	return err
}
