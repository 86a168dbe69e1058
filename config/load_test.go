package config

import (
	"errors"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"
)

func load(t *testing.T, file string, env []string, flags map[string][]string) Config {
	t.Helper()
	l, err := Load(Source{File: "m.yaml", Data: []byte(file), Env: env, Flags: flags})
	if err != nil {
		t.Fatalf("refused:\n%v", err)
	}
	return l.Config
}

func TestWithoutAnythingTheDefaultsHold(t *testing.T) {
	for _, file := range []string{"", "\n", "# only a comment\n", "---\n", "{}", "null\n"} {
		if got := load(t, file, nil, nil); !reflect.DeepEqual(got, Default()) {
			t.Errorf("file %q gives %+v", file, got)
		}
	}
}

func TestEveryKeyReachesItsField(t *testing.T) {
	digest := strings.Repeat("0f", 32)
	got := load(t, `
node_id: 3
listen_client: "[::1]:1"
listen_admin: 127.0.0.1:2
partition_default_count: 5
partition_max_count: 65534
delivery_max_attempts: 7
delivery_lease_ms: 1500
retry_backoff_base_ms: 20
retry_backoff_max_ms: 400
poll_max_wait_ms: 30000
credit_initial_count: 9
credit_initial_bytes: 4294967295
data_dir: /var/lib/mortarmq
segment_max_bytes: 64KiB
flush_policy: interval
flush_interval_ms: 200
disk_reserve_bytes: 0
producer_idle_expiry: 90m
auth_token_sha256:
  - `+digest+`
  - `+strings.ToUpper(digest)+`
publish_rate_limit: 1000
reactors: 2
shards: 3
metrics_enabled: false
log_level: debug
log_format: json
`, nil, nil)
	d := [32]byte{}
	for i := range d {
		d[i] = 0x0f
	}
	want := Config{
		NodeID: 3, ListenClient: "[::1]:1", ListenPeer: ":7189", ListenAdmin: "127.0.0.1:2",
		PartitionDefaultCount: 5, PartitionMaxCount: 65534, DeliveryMaxAttempts: 7, DeliveryLease: 1500 * time.Millisecond,
		RetryBackoffBase: 20 * time.Millisecond, RetryBackoffMax: 400 * time.Millisecond, PollMaxWait: 30 * time.Second,
		CreditInitialCount: 9, CreditInitialBytes: 4294967295, DataDir: "/var/lib/mortarmq", SegmentMaxBytes: 65536,
		FlushPolicy: FlushInterval, FlushInterval: 200 * time.Millisecond, DiskReserveBytes: 0, ProducerIdleExpiry: 90 * time.Minute,
		AuthTokenSHA256: [][32]byte{d, d}, PublishRateLimit: 1000, Reactors: 2, Shards: 3,
		MetricsEnabled: false, LogLevel: slog.LevelDebug, LogFormat: LogJSON,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestFlagsWinOverEnvironmentOverFile(t *testing.T) {
	file := "shards: 1\nreactors: 1\nlog_level: warn\n"
	env := []string{"PATH=/bin", "MORTARMQ_REACTORS=2", "MORTARMQ_LOG_LEVEL=error", "MORTARMQ_DATA_DIR="}
	flags := map[string][]string{"log_level": {"info", "debug"}}
	got := load(t, file, env, flags)
	if got.Shards != 1 || got.Reactors != 2 || got.LogLevel != slog.LevelDebug || got.DataDir != "./data" {
		t.Errorf("got shards %d, reactors %d, level %v, data %q", got.Shards, got.Reactors, got.LogLevel, got.DataDir)
	}
	l, err := Load(Source{File: "m.yaml", Data: []byte(file), Env: env, Flags: flags})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"shards": "m.yaml:1", "reactors": "MORTARMQ_REACTORS", "log_level": "--log-level"}
	if !reflect.DeepEqual(l.Origin, want) {
		t.Errorf("origins %v", l.Origin)
	}
}

func TestListsTakeSequencesCommasAndRepeatedFlags(t *testing.T) {
	a, b := strings.Repeat("a", 64), strings.Repeat("7", 64)
	for name, s := range map[string]Source{
		"sequence": {File: "f", Data: []byte("auth_token_sha256: [" + a + ", " + b + "]")},
		"commas":   {File: "f", Data: []byte("auth_token_sha256: " + a + "," + b)},
		"env":      {Env: []string{"MORTARMQ_AUTH_TOKEN_SHA256=" + a + ", " + b}},
		"flags":    {Flags: map[string][]string{"auth_token_sha256": {a, b}}},
		"one flag": {Flags: map[string][]string{"auth_token_sha256": {a + "," + b}}},
	} {
		l, err := Load(s)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := l.Config.AuthTokenSHA256; len(got) != 2 || got[0][0] != 0xaa || got[1][31] != 0x77 {
			t.Errorf("%s: %x", name, got)
		}
	}
}

func TestKubernetesServiceVariablesAndTheClientsAreNotSettings(t *testing.T) {
	load(t, "", []string{"MORTARMQ_PORT=tcp://10.0.0.1:7188", "MORTARMQ_PORT_7188_TCP=x", "MORTARMQ_SERVICE_HOST=10.0.0.1",
		"MORTARMQ_TOKEN=t", "MORTARMQ_SERVER=h:1", "MORTARMQ_ADMIN=h:2", "MORTARMQ_CONFIG=f"}, nil)
}

// One case for each way to be wrong: the whole of what is reported is compared.
func TestFaults(t *testing.T) {
	long := strings.Repeat("z", 200)
	for _, c := range []struct {
		name string
		s    Source
		want []string
	}{
		{"many at once, each with its place", Source{File: "m.yaml", Data: []byte("shards: many\nsegment_max_bytes: 1\nshardz: 2\n\nreactors: 1\nreactors: 2\n"),
			Env:   []string{"MORTARMQ_POLL_MAX_WAIT_MS=60000", "MORTARMQ_DATADIR=x"},
			Flags: map[string][]string{"log_level": {"loud"}}}, []string{
			"m.yaml:1: shards: the value is text, not an integer: allowed is an integer from 0 to 256",
			"m.yaml:2: segment_max_bytes: 1 is too small: allowed is bytes from 64KiB to 1TiB (KiB, MiB, GiB, TiB understood)",
			"m.yaml:3: shardz: no such setting: did you mean shards?",
			"m.yaml:6: reactors: set a second time: m.yaml:5 sets it too",
			"MORTARMQ_DATADIR: no such setting: did you mean MORTARMQ_DATA_DIR?",
			"MORTARMQ_POLL_MAX_WAIT_MS: poll_max_wait_ms: 60000 is out of range: allowed is milliseconds from 1 to 30000",
			`--log-level: log_level: "loud" is not known: allowed is one of debug, info, warn, error`,
		}},
		{"types in the file", Source{File: "f", Data: []byte("node_id: \"1\"\nshards: 1.5\nmetrics_enabled: yes\nallow_anonymous: 1\ndata_dir:\nlog_level: [info]\nlisten_admin: {a: b}\nauth_token_sha256: [[a]]\nreactors: 0x2\n")}, []string{
			"f:1: node_id: the value is text, not an integer: allowed is an integer from 1 to 65535",
			"f:2: shards: the value is a fraction, not an integer: allowed is an integer from 0 to 256",
			"f:3: metrics_enabled: the value is text, not true or false: allowed is true or false",
			"f:4: allow_anonymous: the value is an integer, not true or false: allowed is true or false",
			"f:5: data_dir: the value is empty, not text: allowed is text",
			"f:6: log_level: the value is a list, not text: allowed is one of debug, info, warn, error",
			"f:7: listen_admin: the value is a mapping, not text: allowed is HOST:PORT, [IPV6]:PORT or :PORT",
			"f:8: auth_token_sha256: a list stands in a list of texts: allowed is a list of 64 hex digits each",
			"f:9: reactors: \"0x2\" is not an integer: allowed is an integer from 0 to 256",
		}},
		{"ranges", Source{Flags: map[string][]string{
			"partition_max_count": {"65535"}, "node_id": {"0"}, "credit_initial_bytes": {"4294967296"}, "delivery_lease_ms": {"9223372036854775807"},
			"segment_max_bytes": {"9223372036854775807TiB"}, "producer_idle_expiry": {"1ms"}, "shards": {"99999999999999999999"}, "reactors": {"-1"}}}, []string{
			"--node-id: node_id: 0 is too small: allowed is an integer from 1 to 65535",
			"--partition-max-count: partition_max_count: 65535 is too large: allowed is an integer from 1 to 65534",
			"--delivery-lease-ms: delivery_lease_ms: 9223372036854775807 is out of range: allowed is milliseconds from 10 to 86400000",
			"--credit-initial-bytes: credit_initial_bytes: 4GiB is too large: allowed is bytes from 1 to 4294967295 (KiB, MiB, GiB, TiB understood)",
			`--segment-max-bytes: segment_max_bytes: "9223372036854775807TiB" is out of range: allowed is bytes from 64KiB to 1TiB (KiB, MiB, GiB, TiB understood)`,
			"--producer-idle-expiry: producer_idle_expiry: 1ms is too small: allowed is a duration from 1s to 87600h, like 90m or 168h",
			"--reactors: reactors: -1 is too small: allowed is an integer from 0 to 256",
			`--shards: shards: "99999999999999999999" is out of range: allowed is an integer from 0 to 256`,
		}},
		{"features that are not built", Source{File: "f", Data: []byte("peers: [2=h:1]\nleader_priority: 1\nlisten_peer: :9\nsnapshot_bytes: 1MiB\nretention_ms: 1\nretention_bytes: 1GiB\npeer_secret_file: /s\n")}, []string{
			"f:1: peers: replication is not built yet: leave the key out",
			"f:2: leader_priority: replication is not built yet: leave the key out, or set it to its default 0",
			"f:3: listen_peer: replication is not built yet: leave the key out, or set it to its default :7189",
			"f:4: snapshot_bytes: taking snapshots is not built yet: leave the key out, or set it to its default 0",
			"f:5: retention_ms: retention is not built yet: leave the key out, or set it to its default 0",
			"f:6: retention_bytes: retention is not built yet: leave the key out, or set it to its default 0",
			"f:7: peer_secret_file: replication is not built yet: leave the key out",
		}},
		{"combinations", Source{File: "f", Data: []byte("partition_default_count: 9\npartition_max_count: 8\nretry_backoff_base_ms: 5\nretry_backoff_max_ms: 4\nlisten_admin: 127.0.0.1:7188\n"),
			Env: []string{"MORTARMQ_LISTEN_CLIENT=:7188"}, Flags: map[string][]string{"data_dir": {""}}}, []string{
			"--data-dir: data_dir: the text is empty: allowed is the path of a folder",
			"f:1: partition_default_count: 9 is above partition_max_count, which is 8: lower the one or raise the other",
			"f:3: retry_backoff_base_ms: 5 is above retry_backoff_max_ms, which is 4: lower the one or raise the other",
			"MORTARMQ_LISTEN_CLIENT: listen_client: :7188 can be reached from other machines and anybody could use the broker: set auth_token_sha256 (see `mortarmq hash-token`), or allow_anonymous: true if that is meant, or listen on 127.0.0.1",
			"f:5: listen_admin: 127.0.0.1:7188 is listen_client's address too: take another port",
		}},
		{"a combination of a faulty key is not a second fault", Source{File: "f", Data: []byte("listen_client: 0.0.0.0:7188\nauth_token_sha256: [abc]\n")}, []string{
			`f:2: auth_token_sha256: "abc" is not a SHA-256 digest: allowed are 64 hex digits, as ` + "`mortarmq hash-token` prints them",
		}},
		{"tokens and anonymous", Source{File: "f", Data: []byte("allow_anonymous: true\nauth_token_sha256: " + strings.Repeat("ab", 32))}, []string{
			"f:1: allow_anonymous: true contradicts auth_token_sha256: with tokens nobody is anonymous; leave one of them out",
		}},
		{"addresses", Source{Flags: map[string][]string{"listen_client": {"7188"}, "listen_admin": {"127.0.0.1:http"}}}, []string{
			`--listen-client: listen_client: "7188" is not an address to listen on: allowed is HOST:PORT, [IPV6]:PORT or :PORT for every interface, port 0 to 65535`,
			`--listen-admin: listen_admin: "127.0.0.1:http" has no port number: allowed is HOST:PORT, [IPV6]:PORT or :PORT for every interface, port 0 to 65535`,
		}},
		{"long values are clipped", Source{Flags: map[string][]string{"shards": {long}}}, []string{
			`--shards: shards: "` + long[:80] + `..." (200 bytes) is not an integer: allowed is an integer from 0 to 256`,
		}},
		{"no mapping", Source{File: "f", Data: []byte("- a\n- b\n")}, []string{"f:1: the file is a list: allowed are lines of `key: value`"}},
		{"two documents", Source{File: "f", Data: []byte("shards: 1\n---\nshards: 2\n")}, []string{"f:3: a second document: allowed is one"}},
		{"aliases", Source{File: "f", Data: []byte("shards: &a 1\nreactors: *a\n")}, []string{
			"f:1: shards: the value is an anchor or alias, not an integer: allowed is an integer from 0 to 256",
			"f:2: reactors: the value is an anchor or alias, not an integer: allowed is an integer from 0 to 256",
		}},
		{"a file too large", Source{File: "f", Data: make([]byte, MaxFileLen+1)}, []string{"f: 1048577 bytes are too many for a settings file: allowed are 1048576"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Load(c.s)
			if got := faultTexts(err); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(c.want, "\n  "))
			}
		})
	}
}

func TestSyntaxFaultsNameFileAndLine(t *testing.T) {
	for _, file := range []string{"a: [1\n", "shards: 1\n\tb: 2\n", "shards: 1\n  x: 2\n", "\"a: 1\n", "a: b: c\n"} {
		_, err := Load(Source{File: "dir/m.yaml", Data: []byte(file)})
		if texts := faultTexts(err); len(texts) == 0 || !strings.HasPrefix(texts[0], "dir/m.yaml:") || !strings.Contains(texts[0], "not YAML") {
			t.Errorf("%q: %q", file, texts)
		}
	}
}

func TestAJSONFileIsAFile(t *testing.T) {
	got := load(t, `{"shards": 2, "data_dir": "/d", "auth_token_sha256": ["`+strings.Repeat("00", 32)+`"], "allow_anonymous": false}`, nil, nil)
	if got.Shards != 2 || got.DataDir != "/d" || len(got.AuthTokenSHA256) != 1 {
		t.Errorf("got %+v", got)
	}
}

func faultTexts(err error) []string {
	if err == nil {
		return nil
	}
	var many interface{ Unwrap() []error }
	if !errors.As(err, &many) {
		return []string{"not joined: " + err.Error()}
	}
	var out []string
	for _, e := range many.Unwrap() {
		var f *Fault
		if !errors.As(e, &f) {
			out = append(out, "no Fault: "+e.Error())
			continue
		}
		out = append(out, f.Error())
	}
	return out
}
