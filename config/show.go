package config

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// YAML returns every setting as a file that Load accepts, with where it comes from behind each.
func (l *Loaded) YAML() []byte {
	var b strings.Builder
	for _, k := range Keys() {
		origin := l.Origin[k.Name]
		if origin == "" {
			origin = "default"
		}
		left := k.Name + ": " + k.literal(&l.Config)
		fmt.Fprintf(&b, "%-40s # %s\n", left, origin)
	}
	return []byte(b.String())
}

// JSON returns every setting as one JSON object, in the table's order. It is a file that Load accepts.
func (l *Loaded) JSON() []byte {
	var b strings.Builder
	b.WriteString("{")
	for i, k := range Keys() {
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, "\n  %q: %s", k.Name, k.literal(&l.Config))
	}
	b.WriteString("\n}\n")
	return []byte(b.String())
}

// literal writes the field in a form that is both JSON and YAML.
func (k *Key) literal(c *Config) string {
	values := k.values(c)
	if k.List {
		quoted := make([]string, len(values))
		for i, v := range values {
			quoted[i] = quote(v)
		}
		return "[" + strings.Join(quoted, ", ") + "]"
	}
	plain := k.shape == shapeBool || k.shape == shapeInteger
	if _, err := strconv.ParseInt(values[0], 10, 64); k.shape == shapeBytes && err == nil {
		plain = true
	}
	if plain {
		return values[0]
	}
	return quote(values[0])
}

// quote writes a text as JSON does, which YAML reads as the same text.
func quote(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic("config: a string did not encode: " + err.Error()) // encoding/json never fails on one
	}
	return strings.TrimSuffix(b.String(), "\n")
}
