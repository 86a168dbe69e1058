package admin

import "time"

// Stats is the body of /stats. Counters fall only when the process restarts
// (N2); fields are only ever added.
type Stats struct {
	Version       string      `json:"version"`
	NodeID        uint64      `json:"node_id"`
	Ready         bool        `json:"ready"`
	Reason        string      `json:"reason,omitempty"` // why not ready, in words
	StartedAt     time.Time   `json:"started_at"`
	UptimeSeconds float64     `json:"uptime_seconds"`
	Connections   Connections `json:"connections"`
	// Errors are the answers with a code, ascending by code; a code never sent is left out.
	Errors []ErrorCount `json:"errors"`
	// Topics are the source topics, ascending by id. A dead-letter twin stands in its source's row.
	Topics []Topic `json:"topics"`
	Shards []Shard `json:"shards"`
}

// Connections counts client connections.
type Connections struct {
	Open     int64  `json:"open"`
	Accepted uint64 `json:"accepted"`
	Refused  uint64 `json:"refused"` // at the connection limit, or without a file descriptor left
}

// ErrorCount tells how often a code was answered.
type ErrorCount struct {
	Code  string `json:"code"` // "0x0008"
	Name  string `json:"name"` // "UNKNOWN_TOPIC"
	Count uint64 `json:"count"`
}

// Topic is a source topic with its twin and its groups. The message counters
// are sums over its partitions and groups (N1).
type Topic struct {
	ID           uint16  `json:"id"`
	Name         string  `json:"name"`
	TwinID       uint16  `json:"twin_id"`
	Partitions   uint16  `json:"partitions"`
	Produced     uint64  `json:"produced"`      // messages stored
	Delivered    uint64  `json:"delivered"`     // messages acknowledged, all groups
	DeadLettered uint64  `json:"dead_lettered"` // messages moved to the twin, all groups
	Quarantined  uint64  `json:"quarantined"`   // messages of the twin that failed there too
	Groups       []Group `json:"groups"`
}

// Group is a consumer group of a topic or, with Twin, of its dead-letter twin.
type Group struct {
	ID           uint16 `json:"id"`
	Name         string `json:"name"`
	Twin         bool   `json:"twin,omitempty"`
	Members      int    `json:"members"`
	Lag          int64  `json:"lag"`       // messages above the acknowledged floor; never negative
	InFlight     int64  `json:"in_flight"` // delivered and not settled yet
	Delivered    uint64 `json:"delivered"` // acknowledged
	DeadLettered uint64 `json:"dead_lettered"`
	Quarantined  uint64 `json:"quarantined"`
}

// Shard is one replication group and its log.
type Shard struct {
	ID           int    `json:"id"`
	Leader       bool   `json:"leader"`
	Term         uint64 `json:"term"`
	FirstIndex   uint64 `json:"first_index"` // of the oldest entry kept
	LastIndex    uint64 `json:"last_index"`
	CommitIndex  uint64 `json:"commit_index"`
	Partitions   int    `json:"partitions"`
	Segments     int    `json:"segments"`
	LogBytes     int64  `json:"log_bytes"`     // the files' size
	WrittenBytes uint64 `json:"written_bytes"` // since the start
	Fsyncs       uint64 `json:"fsyncs"`        // since the start
	TornBytes    uint64 `json:"torn_bytes"`    // cut off at the start: an unfinished last write
	Error        string `json:"error,omitempty"`
}

// lists replaces every missing list by an empty one: a reader of JSON should not have to expect null.
func (s *Stats) lists() {
	if s.Errors == nil {
		s.Errors = []ErrorCount{}
	}
	if s.Topics == nil {
		s.Topics = []Topic{}
	}
	if s.Shards == nil {
		s.Shards = []Shard{}
	}
	for i := range s.Topics {
		if s.Topics[i].Groups == nil {
			s.Topics[i].Groups = []Group{}
		}
	}
}
