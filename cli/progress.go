package cli

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// When the progress line appears, and how often.
const (
	progressAfter    = 2 * time.Second // a shorter run needs none
	progressTerminal = 250 * time.Millisecond
	progressPlain    = 5 * time.Second // in a log every line stays
)

// progress writes a line about a long run to standard error now and then: over itself on a
// terminal, as lines of their own elsewhere. It runs beside the command, so it speaks also while the command waits.
type progress struct {
	w        io.Writer
	terminal bool
	line     func() string // the state in words; called from the progress goroutine
	stop     chan struct{}
	stopped  sync.WaitGroup
	width    int // of what stands on the terminal's line
}

// startProgress begins to tell. line must be safe to call from another goroutine.
func startProgress(w io.Writer, line func() string) *progress {
	p := &progress{w: w, terminal: isTerminal(w), line: line, stop: make(chan struct{})}
	every := progressPlain
	if p.terminal {
		every = progressTerminal
	}
	p.stopped.Go(func() { p.run(every) })
	return p
}

func (p *progress) run(every time.Duration) {
	timer := time.NewTimer(progressAfter)
	defer timer.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-timer.C:
			p.show(p.line())
			timer.Reset(every)
		}
	}
}

func (p *progress) show(text string) {
	if !p.terminal {
		fmt.Fprintln(p.w, text)
		return
	}
	fmt.Fprintf(p.w, "\r%-*s", p.width, text)
	p.width = len(text)
}

// end stops telling. What stood on the terminal's line is wiped, so that the summary can take its place.
func (p *progress) end() {
	close(p.stop)
	p.stopped.Wait()
	if p.width > 0 {
		fmt.Fprintf(p.w, "\r%-*s\r", p.width, "")
	}
}
