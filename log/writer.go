package log

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/mortarmq/mortarmq/env"
)

// writer is the goroutine that owns the newest segment's file. In rounds it
// takes everything queued, writes it, syncs once, and reports.
type writer struct {
	o     *Options
	queue *queue
	prep  *preparer
	done  chan struct{} // closed when the goroutine has ended

	// The file written to. Invariant: every byte before durable survived an
	// fdatasync that succeeded; bytes from durable to pos may be lost.
	file    env.File
	head    *segmentHead
	pos     int64
	durable int64
	marked  int64 // offset of the mark in the file, 0 if there is none
	size    int64 // of the file
	asked   bool  // the next file was asked for: once per segment, whatever became of it

	gather gatherer
	batch  batch
	last   Ticket
	alarm  <-chan time.Duration // next fdatasync of SyncInterval, nil when none is due

	// Read by the owner.
	err     atomic.Pointer[error]
	written atomic.Uint64 // ticket whose bytes can be read back
	fresh   atomic.Uint64 // number of the current segment if its file was not prepared
	rounds  atomic.Uint64 // read by the preparer too: is the disk in use
	counts  writerCounts
}

type writerCounts struct {
	writes, writtenBytes, syncs, syncedBytes, rolls, preparedRolls atomic.Uint64
}

// failed returns the sticky error.
func (w *writer) failed() error {
	if p := w.err.Load(); p != nil {
		return *p
	}
	return nil
}

// fail makes the first error sticky. The file it concerns is never written or
// synced again: after a failed fdatasync the kernel may have dropped the pages.
func (w *writer) fail(err error) {
	if err != nil && w.failed() == nil {
		sticky := err // err itself would escape, and cost every round an allocation
		w.err.Store(&sticky)
		w.o.Logger.Error("log stopped: disk failed", "dir", w.o.Dir, "error", err)
	}
}

func (w *writer) writtenUpTo() Ticket        { return Ticket(w.written.Load()) }
func (w *writer) onFresh(number uint64) bool { return w.fresh.Load() == number }

func (w *writer) addStats(st *Stats) {
	st.Writes = w.counts.writes.Load()
	st.WrittenBytes = w.counts.writtenBytes.Load()
	st.Syncs = w.counts.syncs.Load()
	st.SyncedBytes = w.counts.syncedBytes.Load()
	st.Rolls = w.counts.rolls.Load()
	st.PreparedRolls = w.counts.preparedRolls.Load()
}

func (w *writer) run() {
	defer close(w.done)
	for {
		w.mark()
		any, closed := w.queue.take(&w.batch)
		if any {
			w.round()
			select { // under steady load the select below is never reached
			case <-w.alarm:
				w.alarm = nil
				w.syncLate()
			default:
			}
			continue
		}
		if closed {
			break
		}
		select {
		case <-w.queue.bell:
		case <-w.alarm:
			w.alarm = nil
			w.syncLate()
		}
	}
	w.syncLate()
	w.mark()
	if w.file != nil {
		w.fail(w.file.Close())
	}
}

// round does one batch: write, sync, report.
func (w *writer) round() {
	w.rounds.Add(1)
	w.last = w.batch.last
	if w.failed() == nil {
		w.fail(w.store())
	}
	w.o.OnWritten(w.last, w.failed())
}

// store writes the batch and makes it as durable as the policy asks.
func (w *writer) store() error {
	if err := w.write(w.batch.items); err != nil {
		return err
	}
	w.written.Store(uint64(w.batch.last))
	w.askForNext()
	if w.o.Policy == SyncAlways || w.batch.force {
		return w.sync()
	}
	if w.alarm == nil && w.pos > w.durable {
		w.alarm = w.o.Clock.After(w.o.SyncInterval)
	}
	return nil
}

// write writes items, rolling where the owner decided to.
func (w *writer) write(items []item) error {
	g := &w.gather
	open := false
	for i := range items {
		it := &items[i]
		if it.head != w.head {
			if open {
				if err := w.flush(); err != nil {
					return err
				}
				open = false
			}
			if err := w.roll(it.head); err != nil {
				return err
			}
		}
		if it.off != w.pos {
			panic(fmt.Sprintf("log: record for offset %d arrived at %d of segment %d", it.off, w.pos, w.head.number))
		}
		if !open {
			g.begin(w.file, w.pos)
			open = true
		}
		if err := g.add(it, w.head.seed, uint32(w.durable)); err != nil {
			return err
		}
		w.pos += paddedLen(it.payloadLen())
	}
	if open {
		return w.flush()
	}
	return nil
}

func (w *writer) flush() error {
	err := w.gather.flush()
	w.counts.writes.Store(w.gather.writes)
	w.counts.writtenBytes.Store(w.gather.bytes)
	w.size = max(w.size, w.pos)
	return err
}

// sync makes everything written durable.
func (w *writer) sync() error {
	bytes := w.pos - w.durable
	if w.file == nil || bytes == 0 {
		return nil
	}
	start := w.o.Clock.Now()
	if err := w.file.Sync(); err != nil {
		return err
	}
	took := w.o.Clock.Now() - start
	w.durable = w.pos
	w.counts.syncs.Add(1)
	w.counts.syncedBytes.Add(uint64(bytes))
	if w.o.OnSync != nil {
		w.o.OnSync(took, int(bytes))
	}
	return nil
}

// syncLate is the sync of SyncInterval, after the report. What it fails to make
// durable was reported already, so the failure is reported at once.
func (w *writer) syncLate() {
	if w.failed() != nil {
		return
	}
	if err := w.sync(); err != nil {
		w.fail(err)
		w.o.OnWritten(w.last, w.failed())
	}
}

// mark writes a mark behind the last record when there is nothing else to do and
// everything is durable. It tells Open that a bad record before it is damage, not
// a write that a crash cut short. The next record overwrites it; nothing waits
// for it to be durable.
func (w *writer) mark() {
	if w.file == nil || w.pos != w.durable || w.marked == w.pos ||
		w.failed() != nil || !w.queue.idle() {
		return
	}
	r := record{kind: kindMark, durable: uint32(w.pos)}
	buf := appendRecord(w.gather.scratch[:0], w.head.seed, &r, nil)
	if _, err := w.file.WriteAt(buf, w.pos); err != nil {
		w.fail(err)
		w.o.OnWritten(w.last, w.failed())
		return
	}
	w.marked = w.pos
	w.size = max(w.size, w.pos+recordLen)
}

// roll finishes the current file and begins the one of h. The order is what Open
// relies on: a segment whose name exists has a valid header, and everything
// before it is durable.
func (w *writer) roll(h *segmentHead) error {
	if err := w.seal(); err != nil {
		return err
	}
	name := filepath.Join(w.o.Dir, segmentName(h.number))
	file, path, prepared, err := w.newFile(h)
	if err != nil {
		return err
	}
	w.file, w.head = file, h // owned from here on, whatever fails
	w.pos, w.durable, w.marked, w.asked = headerLen, headerLen, 0, false
	if w.size, err = file.Size(); err != nil {
		return err
	}
	if _, err := file.WriteAt(appendHeader(nil, h), 0); err != nil {
		return err
	}
	if err := file.Sync(); err != nil {
		return err
	}
	if err := w.o.FS.Rename(path, name); err != nil {
		return err
	}
	if err := w.o.FS.SyncDir(w.o.Dir); err != nil {
		return err
	}
	w.counts.rolls.Add(1)
	if prepared {
		w.prep.renamed()
		w.counts.preparedRolls.Add(1)
		w.fresh.Store(0)
	} else {
		w.fresh.Store(h.number)
	}
	return nil
}

// seal makes the current file durable and gives back space it will not use.
func (w *writer) seal() error {
	if w.file == nil {
		return nil
	}
	if err := w.sync(); err != nil {
		return err
	}
	if w.size-w.pos > w.o.SegmentMaxBytes/4 {
		if err := w.file.Truncate(w.pos); err != nil {
			return err
		}
	}
	err := w.file.Close()
	w.file = nil
	return err
}

// newFile returns the prepared file, or one whose blocks are only reserved.
func (w *writer) newFile(h *segmentHead) (file env.File, path string, prepared bool, err error) {
	if file := w.prep.take(); file != nil {
		return file, w.prep.path, true, nil
	}
	path = filepath.Join(w.o.Dir, fmt.Sprintf("%0*d%s", segmentNameLen, h.number, tempSuffix))
	file, err = w.o.FS.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, filePerm)
	if err != nil {
		return nil, "", false, err
	}
	if err := file.Allocate(w.o.SegmentMaxBytes); err != nil {
		file.Close()
		return nil, "", false, err
	}
	return file, path, false, nil
}

// askForNext has the next file prepared once this one is in real use, so that a
// log of a few records does not cost a whole segment of zeros.
func (w *writer) askForNext() {
	if w.file != nil && !w.asked && w.pos >= min(prepareAfter, w.o.SegmentMaxBytes/4) {
		w.asked = w.prep.ask()
	}
}

// filePerm is the mode of files the log makes.
const filePerm = 0o640
