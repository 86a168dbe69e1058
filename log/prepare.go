package log

import (
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/mortarmq/mortarmq/env"
)

const (
	// prepareAfter is how many bytes a segment takes before the next file is
	// prepared.
	prepareAfter = 256 << 10
	// preparePiece is written and synced at a time: small, because a sync of the
	// segment in use waits behind it.
	preparePiece = 1 << 20
	// prepareRest is how long the preparer rests after a piece while the writer
	// is at work, as a multiple of what the piece took. At a load that fills a
	// segment in less than a second the file is then not ready in time, and that
	// is the better bargain: with 4 instead of 16 such loads were a third slower.
	prepareRest = 16
)

// preparer is the goroutine that fills the next segment's file with zeros.
// Overwriting written blocks makes an fdatasync of the data alone; blocks that
// are only reserved make one of the file system's journal too.
type preparer struct {
	o    *Options
	path string
	busy *atomic.Uint64 // rises while the writer is at work

	want  chan struct{} // capacity 1
	stop  chan struct{}
	done  chan struct{}
	state atomic.Int32
	file  env.File // set in prepareReady; belongs to whoever may leave that state
}

// States of the preparer, in order. There is one file name, so nothing is
// prepared until the file before has been taken and renamed.
const (
	prepareIdle  = iota // the writer may ask
	prepareAsked        // the goroutine is at it
	prepareReady        // the writer may take the file
	prepareTaken        // the writer has yet to rename it
)

func newPreparer(o *Options, busy *atomic.Uint64) *preparer {
	return &preparer{
		o: o, path: filepath.Join(o.Dir, preparedName), busy: busy,
		want: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
	}
}

func (p *preparer) ready() bool { return p.state.Load() == prepareReady }

// ask has a file prepared. It returns false when one is ready or under way.
func (p *preparer) ask() bool {
	if !p.state.CompareAndSwap(prepareIdle, prepareAsked) {
		return false
	}
	p.want <- struct{}{}
	return true
}

// take returns the prepared file, still under its temporary name, or nil. After
// renaming it the writer calls renamed.
func (p *preparer) take() env.File {
	if !p.state.CompareAndSwap(prepareReady, prepareTaken) {
		return nil
	}
	return p.file
}

func (p *preparer) renamed() { p.state.CompareAndSwap(prepareTaken, prepareIdle) }

// close ends the goroutine. A file that is ready or half done stays on disk; the
// next start goes on with it.
func (p *preparer) close() {
	close(p.stop)
	<-p.done
	if f := p.take(); f != nil {
		f.Close() // zeros: nothing to lose
	}
}

func (p *preparer) run() {
	defer close(p.done)
	for {
		select {
		case <-p.stop:
			return
		case <-p.want:
		}
		file, err := p.prepare()
		if err != nil {
			// The writer does without; a disk that is full shows there.
			p.o.Logger.Warn("log: preparing the next segment failed", "file", p.path, "error", err)
			p.state.Store(prepareIdle)
			continue
		}
		if file == nil {
			return
		}
		p.file = file
		p.state.Store(prepareReady)
	}
}

// prepare writes zeros from where the file ends, which is where an earlier
// attempt stopped. It returns nil when it was told to stop.
func (p *preparer) prepare() (env.File, error) {
	file, err := p.o.FS.OpenFile(p.path, os.O_RDWR|os.O_CREATE, filePerm)
	if err != nil {
		return nil, err
	}
	ready, err := p.fill(file)
	if ready {
		return file, nil
	}
	err = errors.Join(err, file.Close())
	if err != nil { // most likely the disk is full: do not make it worse
		err = errors.Join(err, p.o.FS.Remove(p.path))
	}
	return nil, err
}

func (p *preparer) fill(file env.File) (ready bool, err error) {
	size, err := file.Size()
	if err != nil {
		return false, err
	}
	if size > p.o.SegmentMaxBytes {
		size = p.o.SegmentMaxBytes
		if err := file.Truncate(size); err != nil {
			return false, err
		}
	}
	zeros := make([]byte, min(preparePiece, p.o.SegmentMaxBytes))
	for off := size; off < p.o.SegmentMaxBytes; {
		start, rounds := p.o.Clock.Now(), p.busy.Load()
		piece := zeros[:min(int64(len(zeros)), p.o.SegmentMaxBytes-off)]
		if _, err := file.WriteAt(piece, off); err != nil {
			return false, err
		}
		if err := file.Sync(); err != nil {
			return false, err
		}
		off += int64(len(piece))
		took := p.o.Clock.Now() - start
		if !p.rest(took, p.busy.Load() != rounds) {
			return false, nil
		}
	}
	if err := file.Sync(); err != nil { // of a file that was found complete
		return false, err
	}
	return true, nil
}

// rest gives the disk to the writer. It returns false when it is time to stop.
func (p *preparer) rest(took time.Duration, busy bool) bool {
	if !busy {
		select {
		case <-p.stop:
			return false
		default:
			return true
		}
	}
	select {
	case <-p.stop:
		return false
	case <-p.o.Clock.After(prepareRest * took):
		return true
	}
}
