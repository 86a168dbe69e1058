package config

import (
	"slices"
	"strings"
)

// Source is everything settings are read from. Load does not change it.
type Source struct {
	// File is the file's name for messages; "" without a file.
	File string
	// Data is the file's content: YAML, or JSON, which is YAML too.
	Data []byte
	// Env is an environment as os.Environ gives it. An empty variable counts as not set.
	Env []string
	// Flags are the values given on the command line, by key name, in their order. Of several values for one that is no list the last counts.
	Flags map[string][]string
}

// Loaded is a valid Config and where its settings come from.
type Loaded struct {
	Config Config
	// Origin tells by key name where it was set: "mortarmq.yaml:12", "MORTARMQ_SHARDS", "--shards". Keys not in it have their default.
	Origin map[string]string
}

// Load reads the settings: flags win over environment over file over defaults.
// The error joins all faults, each a *Fault.
func Load(s Source) (*Loaded, error) {
	l := &loader{cfg: Default(), keys: map[string]*Key{}, origin: map[string]string{}, failed: map[string]bool{}}
	for _, k := range Keys() {
		l.keys[k.Name] = &k
	}
	if s.File != "" {
		l.readFile(s.File, s.Data)
	}
	l.readEnv(s.Env)
	l.readFlags(s.Flags)
	for _, f := range l.cfg.faults(l.failed) {
		f.Where = l.origin[f.Key]
		l.faults = append(l.faults, f)
	}
	if len(l.faults) > 0 {
		return nil, join(l.faults)
	}
	return &Loaded{Config: l.cfg, Origin: l.origin}, nil
}

// loader gathers settings and faults, lowest layer first.
type loader struct {
	cfg    Config
	keys   map[string]*Key
	origin map[string]string
	failed map[string]bool
	faults []*Fault
}

func (l *loader) fault(key, where, problem string) {
	l.failed[key] = true
	l.faults = append(l.faults, &Fault{Key: key, Where: where, Problem: problem})
}

// set stores one setting over whatever a lower layer said.
func (l *loader) set(k *Key, where string, values []string) {
	if err := k.parse(&l.cfg, values); err != nil {
		l.fault(k.Name, where, err.Error())
		return
	}
	l.origin[k.Name] = where
}

// readEnv takes the variables that begin with EnvPrefix.
func (l *loader) readEnv(env []string) {
	for _, kv := range slices.Sorted(slices.Values(env)) {
		name, value, _ := strings.Cut(kv, "=")
		rest, ours := strings.CutPrefix(name, EnvPrefix)
		if !ours || value == "" || notASetting(rest) {
			continue
		}
		k := l.keys[strings.ToLower(rest)]
		if k == nil || k.Env() != name {
			l.fault("", name, "no such setting"+l.suggestEnv(rest))
			continue
		}
		l.set(k, name, splitList(k, value))
	}
}

// notASetting reports whether a variable (its prefix cut) belongs to the client commands, or to Kubernetes, which
// gives every container MORTARMQ_PORT and MORTARMQ_SERVICE_HOST as soon as a service is named mortarmq.
func notASetting(rest string) bool {
	switch rest {
	case "SERVER", "TOKEN", "ADMIN", "CONFIG", "PORT":
		return true
	}
	return strings.HasPrefix(rest, "SERVICE_") || strings.HasPrefix(rest, "PORT_")
}

func (l *loader) readFlags(flags map[string][]string) {
	for _, k := range Keys() {
		values := flags[k.Name]
		if len(values) == 0 {
			continue
		}
		if !k.List {
			l.set(&k, k.Flag(), values[len(values)-1:])
			continue
		}
		var all []string
		for _, v := range values {
			all = append(all, splitList(&k, v)...)
		}
		l.set(&k, k.Flag(), all)
	}
}

// splitList splits the text of a list at its commas; an empty text is an empty list. The text of any other key stays whole.
func splitList(k *Key, value string) []string {
	if !k.List {
		return []string{value}
	}
	var out []string
	for v := range strings.SplitSeq(value, ",") {
		if v = strings.TrimSpace(v); v != "" {
			out = append(out, v)
		}
	}
	return out
}

func (l *loader) suggestEnv(rest string) string {
	if k := l.nearest(strings.ToLower(rest)); k != nil {
		return ": did you mean " + k.Env() + "?"
	}
	return ": `mortarmq config show` lists them"
}

// nearest returns the key that name is likely to mean, or nil.
func (l *loader) nearest(name string) *Key {
	best, cost := (*Key)(nil), 4
	for _, k := range Keys() {
		if d := distance(name, k.Name); d < cost {
			best, cost = l.keys[k.Name], d
		}
	}
	return best
}

// distance is the number of bytes to insert, remove or replace to turn a into b.
func distance(a, b string) int {
	if len(a) > 100 { // no key is that long
		return len(a)
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
