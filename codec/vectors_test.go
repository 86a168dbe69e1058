package codec

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// vector is one row of testdata/vectors.json (C2).
type vector struct {
	Name   string                     `json:"name"`
	Op     *int                       `json:"op"`
	Hex    string                     `json:"hex"`
	Expect string                     `json:"expect"`
	Error  Code                       `json:"error"`
	Need   int                        `json:"need"`
	Fields map[string]json.RawMessage `json:"fields"`
}

func TestVectors(t *testing.T) {
	raw, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []vector
	if err := json.Unmarshal(raw, &vectors); err != nil {
		t.Fatal(err)
	}
	if len(vectors) != 271 {
		t.Fatalf("%d vectors, want 271", len(vectors))
	}
	for _, v := range vectors {
		t.Run(v.Name, func(t *testing.T) { v.check(t) })
	}
}

func (v *vector) check(t *testing.T) {
	buf := unhex(t, v.Hex)
	op, payload, n, need, err := Cut(buf)
	if v.Op != nil && len(buf) >= HeaderLen && int(op) != *v.Op {
		t.Fatalf("op %d, want %d", op, *v.Op)
	}
	switch v.Expect {
	case "need":
		if err != nil || n != 0 || need != v.Need {
			t.Fatalf("n %d, need %d, error %v; want to need %d", n, need, err, v.Need)
		}
	case "error":
		if err == nil && n != len(buf) {
			t.Fatalf("the frame has %d bytes, want %d", n, len(buf))
		}
		if err == nil {
			_, err = mustAgree(t, op, payload)
		}
		if code(t, err) != v.Error {
			t.Fatalf("verdict %v, want %v", err, v.Error)
		}
	case "ok":
		if err != nil || n != len(buf) || need != 0 {
			t.Fatalf("n %d of %d, need %d, error %v", n, len(buf), need, err)
		}
		m, err := mustAgree(t, op, payload)
		if err != nil {
			t.Fatal(err)
		}
		v.compare(t, m)
		if again := appendAny(nil, m); !bytes.Equal(again, buf) {
			t.Fatalf("encodes to %x, want %x", clip(again), clip(buf))
		}
	default:
		t.Fatalf("unknown expectation %q", v.Expect)
	}
}

// compare holds every field of m against the vector's, and the reverse.
func (v *vector) compare(t *testing.T, m any) {
	got := map[string]string{}
	rv := reflect.ValueOf(m)
	for i := range rv.NumField() {
		name := snake(rv.Type().Field(i).Name)
		switch f := rv.Field(i).Interface().(type) {
		case Epochs:
			list := []string{}
			for i := range f.Len() {
				list = append(list, strconv.FormatUint(uint64(f.At(i)), 10))
			}
			got[name] = "[" + strings.Join(list, ",") + "]"
		case []byte:
			if name != "tail" { // a view of fields compared anyway
				got[name] = `"` + hex.EncodeToString(f) + `"`
			}
		default:
			got[name] = strconv.FormatUint(rv.Field(i).Uint(), 10)
		}
	}
	for name, raw := range v.Fields {
		want := strings.ReplaceAll(string(raw), " ", "")
		if got[name] != want {
			t.Errorf("%s is %.80s, want %.80s", name, got[name], want)
		}
		delete(got, name)
	}
	for name, value := range got {
		t.Errorf("%s = %s is not in the vector", name, value)
	}
}

// snake turns a Go field name into the protocol's: TopicID is topic_id.
func snake(name string) string {
	name = strings.ReplaceAll(name, "ID", "Id")
	var b strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
