// Package lint asserts what this repository promises about its own source: which package may import which, that each one introduces
// itself, that files and functions can be read in one sitting, and that gofmt, go vet and staticcheck have nothing to say.
//
// It has tests only. They read the source, not compiled packages, so they speak even while something does not build.
//
// Reading order: imports_test.go, style_test.go, tools_test.go; source_test.go finds and parses the files.
package lint
