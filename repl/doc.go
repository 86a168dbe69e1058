// Package repl runs one replication group over etcd-io/raft with package log
// as its storage.
//
// It promises that an entry is handed to apply only after the group's majority
// has it on disk, in the same order on every node, each index once. With one
// voter the majority is this node and the code path is the same.
//
// A Group is passive: its owner goroutine calls Propose, Written, Tick and
// Pump; nothing here starts a goroutine or takes a lock. It never looks into an
// entry's data.
//
// Reading order: group.go, storage.go.
package repl
