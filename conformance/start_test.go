package conformance

import "errors"

// node is one broker under test.
type node struct {
	addr  string
	dir   string
	knobs knobs
	stop  func() error
}

func start(knobs) (*node, error) { return nil, errors.New("no broker yet") }
