package config

import (
	"errors"
	"log/slog"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestDefaultIsValid(t *testing.T) {
	c := Default()
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
}

func TestValidateFindsWhatProgramsSetWrong(t *testing.T) {
	c := Default()
	c.SegmentMaxBytes = 1000
	c.PartitionMaxCount = 65535
	c.DeliveryLease = time.Microsecond
	c.FlushPolicy = "sometimes"
	c.LogLevel = slog.Level(3)
	c.ListenClient = "0.0.0.0:0"
	c.Retention = time.Hour
	c.Peers = []string{"2=h:1"}
	var keys []string
	for _, e := range c.Validate().(interface{ Unwrap() []error }).Unwrap() {
		var f *Fault
		if !errors.As(e, &f) || f.Where != "" || f.Problem == "" {
			t.Errorf("not a fault without a place: %v", e)
			continue
		}
		keys = append(keys, f.Key)
	}
	want := []string{"peers", "partition_max_count", "delivery_lease_ms", "segment_max_bytes", "flush_policy", "retention_ms", "log_level", "listen_client"}
	if !reflect.DeepEqual(keys, want) {
		t.Errorf("faults of %v, want %v", keys, want)
	}
}

func TestEveryFieldHasExactlyOneKey(t *testing.T) {
	fields := reflect.TypeFor[Config]().NumField()
	keys := Keys()
	if len(keys) != fields {
		t.Errorf("%d keys for %d fields", len(keys), fields)
	}
	name := regexp.MustCompile(`^[a-z]+(_[a-z0-9]+)*$`)
	seen := map[string]bool{}
	for _, k := range keys {
		if !name.MatchString(k.Name) || seen[k.Name] {
			t.Errorf("key name %q", k.Name)
		}
		seen[k.Name] = true
		if k.Doc == "" || k.Allowed == "" || k.Value == "" || strings.Contains(k.Doc+k.Allowed, "\n") {
			t.Errorf("%s: doc %q, allowed %q", k.Name, k.Doc, k.Allowed)
		}
	}
}

// Each key writes a field of its own: two keys on one field, or one that writes nothing, would be lost settings.
func TestKeysDoNotShareFields(t *testing.T) {
	other := map[string]string{"peers": "a", "listen_client": ":1", "listen_peer": ":2", "listen_admin": ":3", "data_dir": "x", "peer_secret_file": "y",
		"flush_policy": "interval", "log_level": "warn", "log_format": "json", "allow_anonymous": "true", "metrics_enabled": "false",
		"producer_idle_expiry": "2h", "auth_token_sha256": strings.Repeat("ab", 32), "credit_initial_bytes": "77", "segment_max_bytes": "65536"}
	owner := map[int]string{}
	for _, k := range Keys() {
		value, ok := other[k.Name]
		if !ok {
			value = "77"
		}
		c, def := Default(), Default()
		if err := k.parse(&c, []string{value}); err != nil {
			t.Errorf("%s: %v", k.Name, err)
			continue
		}
		changed := 0
		got, was := reflect.ValueOf(c), reflect.ValueOf(def)
		for i := range got.NumField() {
			if reflect.DeepEqual(got.Field(i).Interface(), was.Field(i).Interface()) {
				continue
			}
			changed++
			if owner[i] != "" {
				t.Errorf("%s and %s write the same field", k.Name, owner[i])
			}
			owner[i] = k.Name
		}
		if changed != 1 {
			t.Errorf("%s = %q changes %d fields", k.Name, value, changed)
		}
	}
}

func TestShowLoadsAsTheSameSettings(t *testing.T) {
	for _, s := range []Source{
		{},
		{Flags: map[string][]string{"data_dir": {"a \"b\" # c: \\ é <&>\t%"}, "shards": {"3"}, "segment_max_bytes": {"65537"},
			"auth_token_sha256": {strings.Repeat("1e", 32)}, "producer_idle_expiry": {"1h30m15s"}, "credit_initial_bytes": {"3KiB"}}},
	} {
		first, err := Load(s)
		if err != nil {
			t.Fatal(err)
		}
		for form, text := range map[string][]byte{"YAML": first.YAML(), "JSON": first.JSON()} {
			again, err := Load(Source{File: "shown", Data: text})
			if err != nil {
				t.Errorf("%s is refused: %v\n%s", form, err, text)
				continue
			}
			if !reflect.DeepEqual(first.Config, again.Config) {
				t.Errorf("%s loads as other settings:\n%s", form, text)
			}
		}
	}
}

func TestShowTellsWhereASettingComesFrom(t *testing.T) {
	l, err := Load(Source{File: "m.yaml", Data: []byte("\nshards: 2\n"), Env: []string{"MORTARMQ_REACTORS=1"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"shards: 2 +# m.yaml:2", "reactors: 1 +# MORTARMQ_REACTORS", `log_level: "info" +# default`, `segment_max_bytes: "64MiB" +# default`} {
		if !regexp.MustCompile("(?m)^" + want + "$").Match(l.YAML()) {
			t.Errorf("no line %q in\n%s", want, l.YAML())
		}
	}
}

// FuzzFile: no file panics, and what is accepted survives being shown and read again.
func FuzzFile(f *testing.F) {
	for _, s := range []string{"", "shards: 2\n", `{"data_dir": "a\u00e9b"}`, "data_dir: |\n  a\n", "data_dir: 'it''s'\nlog_level: warn # x\n",
		"auth_token_sha256: [" + strings.Repeat("5e", 32) + "]\n", "a: &x [*x]\n", "<<: {shards: 1}\n", "? a\n: b\n", "data_dir: 1_0\n", "data_dir: !!str 5\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		l, err := Load(Source{File: "f", Data: data})
		if err != nil {
			if len(faultTexts(err)) == 0 {
				t.Errorf("an error without a fault: %v", err)
			}
			return
		}
		again, err := Load(Source{File: "shown", Data: l.YAML()})
		if err != nil {
			t.Fatalf("accepted but not when shown: %v\n%s", err, l.YAML())
		}
		if !reflect.DeepEqual(l.Config, again.Config) {
			t.Fatalf("%+v\nshown as\n%s\nreads as\n%+v", l.Config, l.YAML(), again.Config)
		}
	})
}
