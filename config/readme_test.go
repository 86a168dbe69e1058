package config

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the README's table of settings anew")

// The README's table is the table of keys. `go test ./config -rewrite` writes it.
func TestTheReadmeListsEverySetting(t *testing.T) {
	const path, begin, end = "../README.md", "by a test -->\n", "<!-- /settings -->"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(text), begin)
	old, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatal("the README has lost the marks around its table of settings")
	}
	var b strings.Builder
	b.WriteString("| key | default | what it says | allowed |\n|---|---|---|---|\n")
	for _, k := range Keys() {
		doc, def := k.Doc, k.Default()
		if k.Pending != "" {
			doc += " (" + k.Pending + " is not built yet)"
		}
		if def != "" {
			def = "`" + def + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", k.Name, def, doc, strings.TrimSuffix(k.Allowed, " (KiB, MiB, GiB, TiB understood)"))
	}
	if old == b.String() {
		return
	}
	if !*rewrite {
		t.Fatal("the README's table of settings is not the table of keys: run go test ./config -rewrite")
	}
	if err := os.WriteFile(path, []byte(head+begin+b.String()+end+tail), 0o644); err != nil {
		t.Fatal(err)
	}
}
