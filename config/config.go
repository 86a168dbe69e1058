package config

import (
	"log/slog"
	"time"
)

// FlushPolicy says when a PUB is answered OK (P3).
type FlushPolicy string

const (
	// FlushAlways answers after fdatasync: durability 1.
	FlushAlways FlushPolicy = "always"
	// FlushInterval answers from memory and syncs every FlushInterval of the Config: durability 0, what was written since may be lost with the machine.
	FlushInterval FlushPolicy = "interval"
)

// Forms of the log.
const (
	LogText = "text"
	LogJSON = "json"
)

// Config is everything an operator can set. Default gives a valid one; the key that sets a field stands in brackets.
type Config struct {
	// NodeID names the node in its cluster [node_id]. 1 to 65535.
	NodeID uint64
	// Peers are the other nodes as ID=HOST:PORT [peers]. Empty: the node is alone.
	Peers []string
	// LeaderPriority prefers a node as leader; the highest wins when all are healthy [leader_priority].
	LeaderPriority int

	// ListenClient is where clients connect, HOST:PORT [listen_client]. Port 0 takes a free one.
	ListenClient string
	// ListenPeer is where the other nodes connect, HOST:PORT [listen_peer]. Used only with Peers.
	ListenPeer string
	// ListenAdmin serves HTTP for operators, HOST:PORT [listen_admin]. It has no authentication: keep it on loopback or behind a proxy.
	ListenAdmin string

	// DataDir holds everything the broker keeps [data_dir]. It is created when missing.
	DataDir string
	// SegmentMaxBytes is the size of a log file in bytes [segment_max_bytes]. Smaller files are freed sooner by retention, larger ones cost fewer switches.
	SegmentMaxBytes int64

	// PartitionDefaultCount is what a topic gets that is declared with 0 partitions [partition_default_count].
	PartitionDefaultCount uint16
	// PartitionMaxCount caps the partitions of one topic [partition_max_count]. At most 65534: 65535 is no partition count, and clients use it to ask for a topic without creating it.
	PartitionMaxCount uint16

	// DeliveryMaxAttempts is how many failed attempts move a message to the dead-letter twin [delivery_max_attempts].
	DeliveryMaxAttempts uint16
	// DeliveryLease is how long a member may hold a delivery without acknowledging it [delivery_lease_ms].
	DeliveryLease time.Duration
	// RetryBackoffBase is the wait before the second attempt; it doubles with each further one [retry_backoff_base_ms].
	RetryBackoffBase time.Duration
	// RetryBackoffMax caps that wait, jitter not counted [retry_backoff_max_ms].
	RetryBackoffMax time.Duration
	// PollMaxWait caps PULL.wait_ms [poll_max_wait_ms]. At most 30 s, so that a waiting PULL does not run into the keepalive of 45 s.
	PollMaxWait time.Duration
	// CreditInitialCount is the credit window of a SUB that names none, in messages [credit_initial_count].
	CreditInitialCount uint16
	// CreditInitialBytes is the same in bytes of keys and values [credit_initial_bytes].
	CreditInitialBytes uint32

	// SnapshotBytes is how much log is written between two snapshots of a shard, in bytes [snapshot_bytes]. 0: none.
	SnapshotBytes int64
	// FlushPolicy says when a PUB is answered [flush_policy].
	FlushPolicy FlushPolicy
	// FlushInterval is the time between two fdatasyncs with FlushPolicy "interval" [flush_interval_ms].
	FlushInterval time.Duration
	// Retention is the age at which messages may go [retention_ms]. 0: they stay.
	Retention time.Duration
	// RetentionBytes is the size of a shard's log above which its oldest segments go [retention_bytes]. 0: they stay.
	RetentionBytes int64
	// DiskReserveBytes is kept free on the data directory's disk: below it PUB and DECLARE are refused (0x4004), acknowledging goes on [disk_reserve_bytes].
	DiskReserveBytes int64

	// AuthTokenSHA256 are the SHA-256 digests of the accepted tokens, several for rotation [auth_token_sha256]. Empty: any token is accepted (S9).
	AuthTokenSHA256 [][32]byte
	// AllowAnonymous permits a non-loopback ListenClient without any token (S9) [allow_anonymous].
	AllowAnonymous bool
	// PeerSecretFile holds the secret the nodes of a cluster share [peer_secret_file].
	PeerSecretFile string

	// Reactors is the number of network loops [reactors]. 0: half the CPUs, at least 1.
	Reactors int
	// Shards is the number of logs the partitions are spread over, fixed in the data directory at its first start [shards]. 0: one per 4 CPUs, at least 1.
	Shards int
	// PublishRateLimit caps the PUBs of one connection in messages per second [publish_rate_limit]. 0: no limit.
	PublishRateLimit int
	// ProducerIdleExpiry is after how long without a PUB a producer's window is forgotten (P5) [producer_idle_expiry].
	ProducerIdleExpiry time.Duration

	// MetricsEnabled serves /metrics on ListenAdmin [metrics_enabled].
	MetricsEnabled bool
	// LogLevel is the least severe level that is logged [log_level].
	LogLevel slog.Level
	// LogFormat is LogText or LogJSON [log_format].
	LogFormat string
}

// Default returns the settings of a broker that is told nothing: data in
// ./data, listening on loopback only, every OK after fdatasync.
func Default() Config {
	return Config{
		NodeID:                1,
		ListenClient:          "127.0.0.1:7188",
		ListenPeer:            ":7189",
		ListenAdmin:           "127.0.0.1:7190",
		DataDir:               "./data",
		SegmentMaxBytes:       64 << 20,
		PartitionDefaultCount: 4,
		PartitionMaxCount:     1024,
		DeliveryMaxAttempts:   5,
		DeliveryLease:         30 * time.Second,
		RetryBackoffBase:      time.Second,
		RetryBackoffMax:       30 * time.Second,
		PollMaxWait:           5 * time.Second,
		CreditInitialCount:    256,
		CreditInitialBytes:    2 << 20,
		FlushPolicy:           FlushAlways,
		FlushInterval:         50 * time.Millisecond,
		DiskReserveBytes:      256 << 20,
		ProducerIdleExpiry:    7 * 24 * time.Hour,
		MetricsEnabled:        true,
		LogLevel:              slog.LevelInfo,
		LogFormat:             LogText,
	}
}
