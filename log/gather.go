package log

import (
	"encoding/binary"

	"github.com/mortarmq/mortarmq/env"
)

// Bounds of one pwritev.
const (
	gatherBufs  = 1024      // IOV_MAX
	gatherBytes = 8 << 20   // beyond it more bytes per call gain nothing
	smallData   = 4 << 10   // payloads up to this are copied: cheaper than a buffer of their own
	scratchSize = 512 << 10 // headers, small payloads and padding between two calls
)

// gatherer collects records that follow each other in a file and writes them
// with as few calls as possible, without copying large payloads. It belongs to
// the writer.
type gatherer struct {
	file env.File
	off  int64 // file offset of the first collected byte
	size int64 // bytes collected

	bufs    [][]byte
	scratch []byte
	run     int // scratch[run:] is not in bufs yet

	vote [hardStateLen]byte // payload of a hard state

	writes uint64
	bytes  uint64
}

// begin starts collecting for file at off.
func (g *gatherer) begin(file env.File, off int64) {
	if g.scratch == nil {
		g.scratch = make([]byte, 0, scratchSize)
	}
	g.file, g.off, g.size = file, off, 0
	g.bufs, g.scratch, g.run = g.bufs[:0], g.scratch[:0], 0
}

// add collects the record of it, writing first when there is no room.
func (g *gatherer) add(it *item, seed, durable uint32) error {
	n := it.payloadLen()
	copied := n <= smallData
	need := recordLen + len(padding)
	if copied {
		need += n
	}
	if len(g.scratch)+need > cap(g.scratch) || len(g.bufs)+3 > gatherBufs || g.size >= gatherBytes {
		if err := g.flush(); err != nil {
			return err
		}
	}
	r := record{length: uint32(n), kind: it.kind, typ: it.typ, durable: durable, term: it.term, index: it.index}
	payload := it.data
	if it.kind == kindHardState {
		payload = binary.BigEndian.AppendUint64(g.vote[:0], it.vote)
	}
	g.scratch = appendRecord(g.scratch, seed, &r, payload)
	if copied {
		g.scratch = append(g.scratch, payload...)
	} else {
		g.cut()
		g.bufs = append(g.bufs, payload)
	}
	size := paddedLen(n)
	g.scratch = append(g.scratch, padding[:size-recordLen-int64(n)]...)
	g.size += size
	return nil
}

// cut makes the scratch bytes since the last cut a buffer of the next write.
func (g *gatherer) cut() {
	if end := len(g.scratch); end > g.run {
		g.bufs = append(g.bufs, g.scratch[g.run:end:end])
		g.run = end
	}
}

// flush writes what is collected.
func (g *gatherer) flush() error {
	g.cut()
	if len(g.bufs) == 0 {
		return nil
	}
	n, err := g.file.WritevAt(g.bufs, g.off)
	g.writes++
	g.bytes += uint64(n)
	g.off += g.size
	clear(g.bufs)
	g.size, g.bufs, g.scratch, g.run = 0, g.bufs[:0], g.scratch[:0], 0
	return err
}
