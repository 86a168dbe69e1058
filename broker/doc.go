// Package broker assembles a node: it is the one place where the loop, the
// shards, the control plane and the admin pages meet.
//
// It promises that a Broker that has started serves everything that was promised before: the
// control plane and every shard have replayed their logs before the first
// connection is accepted. Close drains: what was answered is on disk, members
// are handed back without a failed attempt.
//
// It makes no rules of its own. The control plane's rules are package coord's;
// control.go gives it a goroutine, a log and the means to act.
//
// Reading order: broker.go (start and stop), node.go (the data directory),
// backend.go (what the loop sees), control.go and effects.go (the control
// plane at work), watch.go (disk reserve), stats.go and metrics.go.
package broker
