package cli

import (
	"strings"
	"testing"
)

func TestFormats(t *testing.T) {
	r := &record{topic: "demo", partition: 3, sequence: 1 << 63, attempt: 2, key: []byte("k\x00"), value: []byte("%v\\n")}
	for format, want := range map[string]string{
		`%v\n`:                       "%v\\n\n",
		`%t\t%p\t%s\t%k\t%v\t%a\n`:   "demo\t3\t9223372036854775808\tk\x00\t%v\\n\t2\n",
		`100%% of %p\\\r\0`:          "100% of 3\\\r\x00",
		``:                           "",
		`x`:                          "x",
		`%k%k`:                       "k\x00k\x00",
		"a literal\ttab and \u00e9 ": "a literal\ttab and \u00e9 ",
	} {
		f, err := parseFormat(format)
		if err != nil {
			t.Errorf("%q: %v", format, err)
			continue
		}
		if got := string(f.append(nil, r)); got != want {
			t.Errorf("%q gives %q, want %q", format, got, want)
		}
	}
	for format, complaint := range map[string]string{`%x`: "%x is not known", `\q`: `\q is not known`, `%`: "lone %", `a\`: `lone \`} {
		_, err := parseFormat(format)
		if err == nil || !strings.Contains(err.Error(), complaint) || exitCode(err) != exitUsage {
			t.Errorf("%q: %v", format, err)
		}
	}
}
