package config

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// shape is what a value may look like in the file. Elsewhere everything is text.
type shape uint8

const (
	shapeText    shape = iota // text, or a number read as text
	shapeInteger              // digits without quotes
	shapeBytes                // digits, or text with a unit
	shapeBool                 // true or false
	shapeList                 // a sequence of texts, or one text with commas
)

func (s shape) String() string {
	return [...]string{"text", "an integer", "a number of bytes", "true or false", "a list of texts"}[s]
}

type anyInt interface {
	~int | ~int64 | ~uint16 | ~uint32 | ~uint64
}

// number builds a key whose field is an integer, read by read and written by write, from lo to hi.
func number[T anyInt](name, doc, allowed string, lo, hi int64, read func(string) (int64, error), write func(int64) string, field func(*Config) *T) Key {
	verdict := func(v int64) string {
		if v < lo {
			return fmt.Sprintf("%s is too small: allowed is %s", write(v), allowed)
		}
		if v > hi {
			return fmt.Sprintf("%s is too large: allowed is %s", write(v), allowed)
		}
		return ""
	}
	return Key{
		Name: name, Doc: doc, Allowed: allowed, Value: "N", shape: shapeInteger,
		parse: func(c *Config, values []string) error {
			v, err := read(values[0])
			if err != nil {
				return fmt.Errorf("%w: allowed is %s", err, allowed)
			}
			if bad := verdict(v); bad != "" {
				return errors.New(bad)
			}
			*field(c) = T(v)
			return nil
		},
		values: func(c *Config) []string { return []string{write(int64(*field(c)))} },
		check:  func(c *Config) string { return verdict(int64(*field(c))) },
	}
}

func integer[T anyInt](name, doc string, lo, hi int64, field func(*Config) *T) Key {
	allowed := fmt.Sprintf("an integer from %d to %d", lo, hi)
	return number(name, doc, allowed, lo, hi, readInteger, formatInteger, field)
}

func bytes[T anyInt](name, doc string, lo, hi int64, field func(*Config) *T) Key {
	allowed := fmt.Sprintf("bytes from %s to %s (KiB, MiB, GiB, TiB understood)", writeBytes(lo), writeBytes(hi))
	k := number(name, doc, allowed, lo, hi, readBytes, writeBytes, field)
	k.Value, k.shape = "BYTES", shapeBytes
	return k
}

// milliseconds builds a key counted in whole milliseconds whose field is a duration.
func milliseconds(name, doc string, lo, hi time.Duration, field func(*Config) *time.Duration) Key {
	toMs := func(d time.Duration) string { return formatInteger(d.Milliseconds()) }
	allowed := fmt.Sprintf("milliseconds from %s to %s", toMs(lo), toMs(hi))
	read := func(s string) (int64, error) {
		ms, err := readInteger(s)
		if err == nil && (ms > hi.Milliseconds() || ms < lo.Milliseconds()) { // before the product can overflow
			err = fmt.Errorf("%d is out of range", ms)
		}
		return ms * int64(time.Millisecond), err
	}
	write := func(ns int64) string { return toMs(time.Duration(ns)) }
	k := number(name, doc, allowed, int64(lo), int64(hi), read, write, field)
	k.Value = "MS"
	return k
}

// duration builds a key that holds a Go duration.
func duration(name, doc string, lo, hi time.Duration, field func(*Config) *time.Duration) Key {
	allowed := fmt.Sprintf("a duration from %s to %s, like 90m or 168h", shortDuration(lo), shortDuration(hi))
	read := func(s string) (int64, error) {
		d, err := time.ParseDuration(s)
		if err != nil {
			err = fmt.Errorf("%q is not a duration", s)
		}
		return int64(d), err
	}
	write := func(ns int64) string { return shortDuration(time.Duration(ns)) }
	k := number(name, doc, allowed, int64(lo), int64(hi), read, write, field)
	k.Value, k.shape = "DURATION", shapeText
	return k
}

func boolean(name, doc string, field func(*Config) *bool) Key {
	return Key{
		Name: name, Doc: doc, Allowed: "true or false", Value: "BOOL", Bool: true, shape: shapeBool,
		parse: func(c *Config, values []string) error {
			switch values[0] {
			case "true":
				*field(c) = true
			case "false":
				*field(c) = false
			default:
				return fmt.Errorf("%q is neither true nor false", values[0])
			}
			return nil
		},
		values: func(c *Config) []string { return []string{strconv.FormatBool(*field(c))} },
		check:  func(*Config) string { return "" },
	}
}

func choice[T ~string](name, doc string, allowed []T, field func(*Config) *T) Key {
	return choiceOf(name, doc, allowed, func(v T) string { return string(v) }, field)
}

// choiceOf builds a key whose field is one of a few values, each with a name.
func choiceOf[T comparable](name, doc string, allowed []T, nameOf func(T) string, field func(*Config) *T) Key {
	names := make([]string, len(allowed))
	for i, v := range allowed {
		names[i] = nameOf(v)
	}
	list := strings.Join(names, ", ")
	verdict := func(s string) (T, error) {
		for i, n := range names {
			if n == s {
				return allowed[i], nil
			}
		}
		var none T
		return none, fmt.Errorf("%q is not known: allowed is one of %s", s, list)
	}
	return Key{
		Name: name, Doc: doc, Allowed: "one of " + list, Value: strings.Join(names, "|"),
		parse: func(c *Config, values []string) error {
			v, err := verdict(values[0])
			if err == nil {
				*field(c) = v
			}
			return err
		},
		values: func(c *Config) []string { return []string{nameOf(*field(c))} },
		check:  func(c *Config) string { return textOf(second(verdict(nameOf(*field(c))))) },
	}
}

// text builds a key of free text. NUL is refused because no path holds it, and what is not UTF-8 because no YAML file does.
func text(name, doc string, field func(*Config) *string) Key {
	return stringKey(name, doc, "text", "TEXT", field, func(s string) string {
		if strings.ContainsRune(s, 0) {
			return "the text holds a NUL byte"
		}
		if !utf8.ValidString(s) {
			return "the text is not UTF-8"
		}
		return ""
	})
}

func address(name, doc string, field func(*Config) *string) Key {
	return stringKey(name, doc, "HOST:PORT, [IPV6]:PORT or :PORT", "HOST:PORT", field, checkAddress)
}

func stringKey(name, doc, allowed, value string, field func(*Config) *string, verdict func(string) string) Key {
	return Key{
		Name: name, Doc: doc, Allowed: allowed, Value: value,
		parse: func(c *Config, values []string) error {
			if bad := verdict(values[0]); bad != "" {
				return errors.New(bad)
			}
			*field(c) = values[0]
			return nil
		},
		values: func(c *Config) []string { return []string{*field(c)} },
		check:  func(c *Config) string { return verdict(*field(c)) },
	}
}

func list(name, doc string, field func(*Config) *[]string) Key {
	return Key{
		Name: name, Doc: doc, Allowed: "a list of texts", Value: "TEXT,...", List: true, shape: shapeList,
		parse:  func(c *Config, values []string) error { *field(c) = values; return nil },
		values: func(c *Config) []string { return *field(c) },
		check:  func(*Config) string { return "" },
	}
}

// digests builds a key that holds SHA-256 digests in hex.
func digests(name, doc string, field func(*Config) *[][32]byte) Key {
	return Key{
		Name: name, Doc: doc, Allowed: "a list of 64 hex digits each", Value: "HEX,...", List: true, shape: shapeList,
		parse: func(c *Config, values []string) error {
			var out [][32]byte
			for _, v := range values {
				raw, err := hex.DecodeString(v)
				if err != nil || len(raw) != 32 {
					return fmt.Errorf("%s is not a SHA-256 digest: allowed are 64 hex digits, as `mortarmq hash-token` prints them", clip(v))
				}
				out = append(out, [32]byte(raw))
			}
			*field(c) = out
			return nil
		},
		values: func(c *Config) []string {
			var out []string
			for _, d := range *field(c) {
				out = append(out, hex.EncodeToString(d[:]))
			}
			return out
		},
		check: func(*Config) string { return "" },
	}
}

func readInteger(s string) (int64, error) {
	v, err := strconv.ParseInt(s, 10, 64)
	if errors.Is(err, strconv.ErrRange) {
		return 0, fmt.Errorf("%s is out of range", clip(s))
	}
	if err != nil {
		return 0, fmt.Errorf("%s is not an integer", clip(s))
	}
	return v, nil
}

func formatInteger(v int64) string { return strconv.FormatInt(v, 10) }

type byteUnit struct {
	name string
	size int64
}

func byteUnits() [4]byteUnit {
	return [...]byteUnit{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}
}

// readBytes reads a number of bytes, plain or with a binary unit.
func readBytes(s string) (int64, error) {
	size := int64(1)
	digits := s
	for _, u := range byteUnits() {
		if rest, ok := strings.CutSuffix(s, u.name); ok {
			digits, size = strings.TrimSpace(rest), u.size
			break
		}
	}
	v, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s is not a number of bytes", clip(s))
	}
	if v*size/size != v {
		return 0, fmt.Errorf("%s is out of range", clip(s))
	}
	return v * size, nil
}

// writeBytes writes the largest unit that leaves nothing over.
func writeBytes(v int64) string {
	for _, u := range byteUnits() {
		if v != 0 && v%u.size == 0 {
			return formatInteger(v/u.size) + u.name
		}
	}
	return formatInteger(v)
}

// shortDuration writes a duration without the units that are zero: 168h, not 168h0m0s.
func shortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}

// checkAddress says what is wrong with an address to listen on.
func checkAddress(s string) string {
	const allowed = ": allowed is HOST:PORT, [IPV6]:PORT or :PORT for every interface, port 0 to 65535"
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return fmt.Sprintf("%s is not an address to listen on%s", clip(s), allowed)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Sprintf("%s has no port number%s", clip(s), allowed)
	}
	if strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || r == 0x7F || r == '/' || r == ',' }) {
		return fmt.Sprintf("%s has no host name or IP address in it%s", clip(s), allowed)
	}
	return ""
}

// loopback reports whether an address to listen on can be reached from this machine only.
func loopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// clip quotes a value for a message, shortened.
func clip(s string) string {
	const most = 80
	if len(s) > most {
		return fmt.Sprintf("%q (%d bytes)", s[:most]+"...", len(s))
	}
	return strconv.Quote(s)
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func second[A any](_ A, err error) error { return err }
