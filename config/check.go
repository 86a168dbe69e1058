package config

import (
	"errors"
	"fmt"
	"net"
	"strings"
)

// Fault is one thing that is wrong with a setting.
type Fault struct {
	// Key is the setting's name; for an unknown key it is what stood there. "" when the fault is about the file as a whole.
	Key string
	// Where it was set: "mortarmq.yaml:12", "--shards", "MORTARMQ_SHARDS"; "" when it was not set by any of them.
	Where string
	// Problem says what is wrong and what is allowed.
	Problem string
}

// Error returns where, key and problem in one line.
func (f *Fault) Error() string {
	parts := make([]string, 0, 3)
	for _, p := range []string{f.Where, f.Key, f.Problem} {
		if p != "" {
			parts = append(parts, p)
		}
	}
	return strings.Join(parts, ": ")
}

// Validate returns every fault of the settings, joined: each is a *Fault
// without a place. nil means that the broker may start with them.
func (c *Config) Validate() error {
	return join(c.faults(nil))
}

// faults checks every key and every combination, except where the key, or one
// of the combination's keys, has failed already: what follows from a fault is not another one.
func (c *Config) faults(failed map[string]bool) []*Fault {
	var out []*Fault
	bad := map[string]bool{}
	for name := range failed {
		bad[name] = true
	}
	for _, k := range Keys() {
		if bad[k.Name] {
			continue
		}
		if problem := k.check(c); problem != "" {
			out = append(out, &Fault{Key: k.Name, Problem: problem})
			bad[k.Name] = true
		}
	}
	for _, r := range combinations() {
		sound := true
		for _, name := range r.keys {
			sound = sound && !bad[name]
		}
		if !sound {
			continue
		}
		if problem := r.check(c); problem != "" {
			out = append(out, &Fault{Key: r.keys[0], Problem: problem})
		}
	}
	return out
}

// combination is a rule about several keys; a fault is reported at the first.
type combination struct {
	keys  []string
	check func(c *Config) string
}

func combinations() []combination {
	return []combination{
		{[]string{"data_dir"}, func(c *Config) string {
			return when(c.DataDir == "", "the text is empty: allowed is the path of a folder")
		}},
		{[]string{"partition_default_count", "partition_max_count"}, func(c *Config) string {
			return when(c.PartitionDefaultCount > c.PartitionMaxCount, "%d is above partition_max_count, which is %d: lower the one or raise the other", c.PartitionDefaultCount, c.PartitionMaxCount)
		}},
		{[]string{"retry_backoff_base_ms", "retry_backoff_max_ms"}, func(c *Config) string {
			return when(c.RetryBackoffBase > c.RetryBackoffMax, "%d is above retry_backoff_max_ms, which is %d: lower the one or raise the other", c.RetryBackoffBase.Milliseconds(), c.RetryBackoffMax.Milliseconds())
		}},
		{[]string{"listen_client", "auth_token_sha256", "allow_anonymous"}, func(c *Config) string {
			return when(!loopback(c.ListenClient) && len(c.AuthTokenSHA256) == 0 && !c.AllowAnonymous,
				"%s can be reached from other machines and anybody could use the broker: set auth_token_sha256 (see `mortarmq hash-token`), or allow_anonymous: true if that is meant, or listen on 127.0.0.1", c.ListenClient)
		}},
		{[]string{"allow_anonymous", "auth_token_sha256"}, func(c *Config) string {
			return when(c.AllowAnonymous && len(c.AuthTokenSHA256) > 0, "true contradicts auth_token_sha256: with tokens nobody is anonymous; leave one of them out")
		}},
		{[]string{"listen_admin", "listen_client"}, func(c *Config) string {
			return when(sameAddress(c.ListenAdmin, c.ListenClient), "%s is listen_client's address too: take another port", c.ListenAdmin)
		}},
	}
}

// sameAddress reports whether two addresses cannot be listened on at once.
func sameAddress(a, b string) bool {
	ha, pa, _ := net.SplitHostPort(a)
	hb, pb, _ := net.SplitHostPort(b)
	every := func(host string) bool {
		ip := net.ParseIP(host)
		return host == "" || ip != nil && ip.IsUnspecified()
	}
	return pa == pb && pa != "0" && (ha == hb || every(ha) || every(hb))
}

func when(bad bool, format string, args ...any) string {
	if !bad {
		return ""
	}
	return fmt.Sprintf(format, args...)
}

func join(faults []*Fault) error {
	errs := make([]error, len(faults))
	for i, f := range faults {
		errs[i] = f
	}
	return errors.Join(errs...)
}
