package lint

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

// mayImport is the table of ARCHITECTURE.md: the packages of ours that each
// package may import outside its tests. No package imports upwards.
func mayImport() map[string][]string {
	return map[string][]string{
		"codec":         {},
		"env":           {},
		"admin":         {},
		"config":        {"codec"},
		"coord":         {"codec"},
		"client":        {"codec"},
		"flow":          {"codec"},
		"log":           {"env"},
		"repl":          {"env", "log"},
		"shard":         {"codec", "flow", "env", "log", "repl"},
		"loop":          {"codec", "flow"},
		"broker":        {"codec", "flow", "env", "log", "repl", "shard", "coord", "loop", "admin", "config"},
		"bench":         {"codec", "client"},
		"cli":           {"codec", "flow", "env", "log", "repl", "shard", "coord", "loop", "admin", "config", "broker", "client", "bench"},
		"main":          {"cli"},
		"conformance":   {}, // tests only
		"internal/lint": {},
	}
}

// ours returns the package of ours that an import path names; ok is false for everybody else's.
func ours(path string) (pkg string, ok bool) {
	if path == modulePath {
		return "main", true
	}
	return strings.CutPrefix(path, modulePath+"/")
}

func TestPackagesImportOnlyWhatTheTableAllows(t *testing.T) {
	table := mayImport()
	for _, f := range source(t) {
		allowed, known := table[f.pkg]
		if !known {
			t.Errorf("%s: package %s is not in the import table: say there, and in ARCHITECTURE.md, what it may import", f.path, f.pkg)
			continue
		}
		if f.test {
			continue
		}
		for _, spec := range f.ast.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if pkg, ok := ours(path); ok && !slices.Contains(allowed, pkg) {
				t.Errorf("%s:%d: %s must not import %s; it may import %v", f.path, f.line(spec.Pos()), f.pkg, pkg, allowed)
			}
		}
	}
}

// The table itself must not allow a circle, or what it says means nothing.
func TestTheImportTableHasNoCircle(t *testing.T) {
	table := mayImport()
	done := map[string]bool{}
	var visit func(pkg string, path []string)
	visit = func(pkg string, path []string) {
		if slices.Contains(path, pkg) {
			t.Fatalf("circle: %v -> %s", path, pkg)
		}
		if done[pkg] {
			return
		}
		for _, below := range table[pkg] {
			if _, known := table[below]; !known {
				t.Errorf("%s may import %s, which the table does not have", pkg, below)
			}
			visit(below, append(slices.Clone(path), pkg))
		}
		done[pkg] = true
	}
	for pkg := range table {
		visit(pkg, nil)
	}
}
