package lint

import (
	"bytes"
	"go/ast"
	"go/format"
	"strings"
	"testing"
)

// Bounds for code outside tests. A habit, not a law of nature: what exceeds them wants to be two things.
const (
	maxFileLines     = 800
	maxFunctionLines = 90
)

func TestFilesAndFunctionsCanBeReadInOneSitting(t *testing.T) {
	for _, f := range source(t) {
		if f.test {
			continue
		}
		if n := bytes.Count(f.text, []byte("\n")); n > maxFileLines {
			t.Errorf("%s: %d lines; at most %d", f.path, n, maxFileLines)
		}
		for _, decl := range f.ast.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if n := f.line(fn.End()) - f.line(fn.Pos()) + 1; n > maxFunctionLines {
				t.Errorf("%s:%d: %s has %d lines; at most %d", f.path, f.line(fn.Pos()), fn.Name.Name, n, maxFunctionLines)
			}
		}
	}
}

func TestEveryPackageIntroducesItself(t *testing.T) {
	intro := map[string]string{} // package: its comment
	name := map[string]string{}
	for _, f := range source(t) {
		if f.test {
			continue
		}
		name[f.pkg] = f.ast.Name.Name
		where := f.pkg + "/doc.go"
		if f.pkg == "main" {
			where = "main.go"
		}
		if f.path == where && f.ast.Doc != nil {
			intro[f.pkg] = f.ast.Doc.Text()
		}
	}
	for pkg, n := range name {
		switch want := "Package " + n + " "; {
		case intro[pkg] == "":
			t.Errorf("%s: no package comment in doc.go (in main.go for main)", pkg)
		case n != "main" && !strings.HasPrefix(intro[pkg], want):
			t.Errorf("%s: the package comment begins with %q, not with %q", pkg, strings.SplitN(intro[pkg], "\n", 2)[0], want)
		}
	}
}

func TestNothingRunsBeforeMain(t *testing.T) {
	for _, f := range source(t) {
		for _, decl := range f.ast.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				t.Errorf("%s:%d: init(): construct it where it is used", f.path, f.line(fn.Pos()))
			}
		}
	}
}

func TestTheSourceIsFormatted(t *testing.T) {
	for _, f := range source(t) {
		want, err := format.Source(f.text)
		if err != nil {
			t.Errorf("%s: %v", f.path, err)
			continue
		}
		if !bytes.Equal(want, f.text) {
			t.Errorf("%s: run gofmt -w on it", f.path)
		}
	}
}
