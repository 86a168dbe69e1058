package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const modulePath = "github.com/mortarmq/mortarmq"

// sourceFile is one parsed .go file of the module.
type sourceFile struct {
	path string // from the module's root, with slashes
	pkg  string // its folder from the module's root; "main" for the root
	test bool
	text []byte
	fset *token.FileSet
	ast  *ast.File
}

// line returns the line of a position.
func (f *sourceFile) line(p token.Pos) int { return f.fset.Position(p).Line }

// root returns the folder of go.mod, above the test's own.
func root(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Fatal("no go.mod above the test's folder")
		}
		dir = up
	}
}

// source returns every .go file of the module. Folders the go command does not look into are left out.
func source(t *testing.T) []*sourceFile {
	t.Helper()
	top := root(t)
	var out []*sourceFile
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if path != top && (name == "testdata" || name == "vendor" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		f, err := parse(top, path)
		if err != nil {
			return err
		}
		out = append(out, f)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 10 {
		t.Fatalf("found %d source files only: the walk is wrong", len(out))
	}
	return out
}

func parse(top, path string) (*sourceFile, error) {
	rel, err := filepath.Rel(top, path)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	f := &sourceFile{path: filepath.ToSlash(rel), text: text, test: strings.HasSuffix(path, "_test.go"), fset: token.NewFileSet()}
	f.pkg = filepath.ToSlash(filepath.Dir(rel))
	if f.pkg == "." {
		f.pkg = "main"
	}
	f.ast, err = parser.ParseFile(f.fset, f.path, text, parser.ParseComments|parser.SkipObjectResolution)
	return f, err
}
