package config

import (
	"log/slog"
	"math"
	"slices"
	"strings"
	"time"
)

// EnvPrefix stands before every key's name, in capitals, in the environment.
const EnvPrefix = "MORTARMQ_"

// Key is one row of the table: a setting, whatever it is set by.
type Key struct {
	Name    string // as in the file: segment_max_bytes
	Allowed string // what may stand there, for people: "1 to 65535"
	Value   string // one word for it in a usage line: "N", "HOST:PORT"
	Doc     string // one line
	List    bool   // more than one value: a sequence in the file, repeated flags, commas elsewhere
	Bool    bool   // the flag may stand without a value
	// Pending names the feature the key belongs to while that is not built: only the default is accepted then.
	Pending string

	shape shape // what the file may hold
	// parse stores the values in the field. It stores nothing when it returns an error,
	// which says what is wrong with the value and not where it stands.
	parse  func(c *Config, values []string) error
	values func(c *Config) []string // the field as parse would take it
	check  func(c *Config) string   // what is wrong with the field; "" when nothing is
}

// Flag returns the key's flag: --segment-max-bytes.
func (k *Key) Flag() string { return "--" + strings.ReplaceAll(k.Name, "_", "-") }

// Env returns the key's environment variable: MORTARMQ_SEGMENT_MAX_BYTES.
func (k *Key) Env() string { return EnvPrefix + strings.ToUpper(k.Name) }

// Default returns the default as text; a list is joined with commas.
func (k *Key) Default() string {
	c := Default()
	return strings.Join(k.values(&c), ",")
}

// Keys returns the table, in the order people read it.
func Keys() []Key {
	return slices.Concat(nodeKeys(), topicKeys(), storageKeys(), securityKeys(), processKeys())
}

// nodeKeys are where the node listens and whom it belongs to.
func nodeKeys() []Key {
	return []Key{
		integer("node_id", "the node's number in its cluster", 1, math.MaxUint16, func(c *Config) *uint64 { return &c.NodeID }),
		pending("replication", list("peers", "the other nodes, ID=HOST:PORT each", func(c *Config) *[]string { return &c.Peers })),
		pending("replication", integer("leader_priority", "the highest of the healthy nodes leads", 0, 100, func(c *Config) *int { return &c.LeaderPriority })),
		address("listen_client", "where clients connect; port 0 takes a free one", func(c *Config) *string { return &c.ListenClient }),
		pending("replication", address("listen_peer", "where the other nodes connect; only with peers", func(c *Config) *string { return &c.ListenPeer })),
		address("listen_admin", "HTTP for operators, without authentication: metrics, health, statistics", func(c *Config) *string { return &c.ListenAdmin }),
	}
}

// topicKeys are about topics, deliveries and consumers.
func topicKeys() []Key {
	return []Key{
		integer("partition_default_count", "partitions of a topic declared with 0", 1, math.MaxUint16-1, func(c *Config) *uint16 { return &c.PartitionDefaultCount }),
		integer("partition_max_count", "most partitions of one topic", 1, math.MaxUint16-1, func(c *Config) *uint16 { return &c.PartitionMaxCount }),
		integer("delivery_max_attempts", "failed attempts after which a message is dead-lettered", 1, math.MaxUint16, func(c *Config) *uint16 { return &c.DeliveryMaxAttempts }),
		milliseconds("delivery_lease_ms", "how long a member may hold a message unacknowledged", 10*time.Millisecond, 24*time.Hour, func(c *Config) *time.Duration { return &c.DeliveryLease }),
		milliseconds("retry_backoff_base_ms", "wait before the second attempt, doubled for each further one", time.Millisecond, 24*time.Hour, func(c *Config) *time.Duration { return &c.RetryBackoffBase }),
		milliseconds("retry_backoff_max_ms", "longest wait before an attempt", time.Millisecond, 24*time.Hour, func(c *Config) *time.Duration { return &c.RetryBackoffMax }),
		milliseconds("poll_max_wait_ms", "longest wait of a PULL, below the keepalive", time.Millisecond, 30*time.Second, func(c *Config) *time.Duration { return &c.PollMaxWait }),
		integer("credit_initial_count", "messages a consumer may have unacknowledged when it does not say", 1, math.MaxUint16, func(c *Config) *uint16 { return &c.CreditInitialCount }),
		bytes("credit_initial_bytes", "bytes of them", 1, math.MaxUint32, func(c *Config) *uint32 { return &c.CreditInitialBytes }),
	}
}

// storageKeys are about files.
func storageKeys() []Key {
	return []Key{
		text("data_dir", "the folder for everything the broker keeps; made when missing", func(c *Config) *string { return &c.DataDir }),
		bytes("segment_max_bytes", "size of a log file; a larger entry gets one of its own", 64<<10, 1<<40, func(c *Config) *int64 { return &c.SegmentMaxBytes }),
		pending("taking snapshots", bytes("snapshot_bytes", "log between two snapshots; 0: none", 0, 1<<50, func(c *Config) *int64 { return &c.SnapshotBytes })),
		choice("flush_policy", "always: OK after fdatasync; interval: OK from memory", []FlushPolicy{FlushAlways, FlushInterval}, func(c *Config) *FlushPolicy { return &c.FlushPolicy }),
		milliseconds("flush_interval_ms", "between two fdatasyncs with flush_policy interval", time.Millisecond, time.Minute, func(c *Config) *time.Duration { return &c.FlushInterval }),
		pending("retention", milliseconds("retention_ms", "age at which messages go; 0: they stay", 0, 100*365*24*time.Hour, func(c *Config) *time.Duration { return &c.Retention })),
		pending("retention", bytes("retention_bytes", "log of a shard above which its oldest files go; 0: they stay", 0, 1<<60, func(c *Config) *int64 { return &c.RetentionBytes })),
		bytes("disk_reserve_bytes", "kept free on the disk: below it publishing is refused", 0, 1<<60, func(c *Config) *int64 { return &c.DiskReserveBytes }),
		duration("producer_idle_expiry", "after how long without a message a producer is forgotten", time.Second, 10*365*24*time.Hour, func(c *Config) *time.Duration { return &c.ProducerIdleExpiry }),
	}
}

// securityKeys are about who may connect.
func securityKeys() []Key {
	return []Key{
		digests("auth_token_sha256", "SHA-256 of each accepted token, from `mortarmq hash-token`; none: any token is accepted", func(c *Config) *[][32]byte { return &c.AuthTokenSHA256 }),
		boolean("allow_anonymous", "listen beyond loopback without any token", func(c *Config) *bool { return &c.AllowAnonymous }),
		pending("replication", text("peer_secret_file", "the file with the secret the nodes share", func(c *Config) *string { return &c.PeerSecretFile })),
		integer("publish_rate_limit", "messages per second and connection; 0: no limit", 0, math.MaxInt32, func(c *Config) *int { return &c.PublishRateLimit }),
	}
}

// processKeys are about the process itself.
func processKeys() []Key {
	return []Key{
		integer("reactors", "network loops; 0: half the CPUs", 0, 256, func(c *Config) *int { return &c.Reactors }),
		integer("shards", "logs the partitions are spread over, fixed at the first start; 0: one per 4 CPUs", 0, 256, func(c *Config) *int { return &c.Shards }),
		boolean("metrics_enabled", "serve /metrics on listen_admin", func(c *Config) *bool { return &c.MetricsEnabled }),
		choiceOf("log_level", "the least severe level that is logged", []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError}, func(l slog.Level) string { return strings.ToLower(l.String()) }, func(c *Config) *slog.Level { return &c.LogLevel }),
		choice("log_format", "the form of the log on standard error", []string{LogText, LogJSON}, func(c *Config) *string { return &c.LogFormat }),
	}
}

// pending marks a key of a feature that is not built: it accepts its default only, so nobody believes in a setting that does nothing.
func pending(feature string, k Key) Key {
	k.Pending = feature
	inRange := k.check
	k.check = func(c *Config) string {
		def := Default()
		if !slices.Equal(k.values(c), k.values(&def)) {
			want := "leave the key out"
			if d := k.Default(); d != "" {
				want += ", or set it to its default " + d
			}
			return feature + " is not built yet: " + want
		}
		return inRange(c)
	}
	return k
}
