package client

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mortarmq/mortarmq/codec"
)

const (
	// lazyFlush is how long bytes that nobody waits for (see flushSoon) may
	// gather before they are written. Far below a lease, a few times a write.
	lazyFlush = time.Millisecond
	// minRead is the room below which a chunk that others hold is left for a new one.
	minRead = 16 << 10
	// writePiece is the most that is written at a time, so that progress shows.
	writePiece = 1 << 20
	// keepBuffer is up to where a write buffer is kept however little of it is
	// used; a larger one is kept only while a quarter of it is.
	keepBuffer = 256 << 10
	// drainAfterWriteError is how long the reader goes on after a write failed,
	// because the broker's last words (an ERR) may still be on their way.
	drainAfterWriteError = 200 * time.Millisecond
)

// receiver is what a connection belongs to. It keeps the requests that wait
// for an answer: responses come in request order (S6).
type receiver interface {
	// receive takes what one read brought. It is called on the reader's
	// goroutine. Views of the frames are dead when it returns, unless it added
	// references to the chunk. An error ends the connection.
	receive(f *frames) error
	// lost is called once, after the last receive, with the reason.
	lost(err error)
}

// conn is one connection that was accepted by CONNECT. Bytes to be sent are
// appended to out by the owner under the owner's lock; one goroutine writes what has
// gathered with one call, another one reads.
type conn struct {
	nc     net.Conn
	server string
	owner  receiver
	d      *dialer

	mu    *sync.Mutex // the owner's
	out   []byte      // guarded by mu: whole frames, not yet taken by the writer
	spare []byte      // guarded by mu: the next out; nil while the writer has it

	kick chan struct{} // write now; capacity 1
	soon chan struct{} // write within lazyFlush; capacity 1
	stop chan struct{} // closed by fail

	io     atomic.Int64          // when bytes moved last, on the dialer's clock
	broken atomic.Pointer[error] // a write failed; the reader has the last word, then this is why
	once   sync.Once
	err    error // why it ended; set before stop is closed
	wg     sync.WaitGroup
}

func newConn(nc net.Conn, server string, d *dialer, mu *sync.Mutex, owner receiver) *conn {
	return &conn{
		nc: nc, server: server, owner: owner, d: d, mu: mu,
		kick: make(chan struct{}, 1),
		soon: make(chan struct{}, 1),
		stop: make(chan struct{}),
	}
}

// start runs the two goroutines. They end after fail; wait waits for them.
func (c *conn) start() {
	c.moved()
	c.wg.Add(2)
	go c.write()
	go c.read()
}

func (c *conn) moved() { c.io.Store(int64(c.d.now())) }

// lastIO is when bytes were read or written last, on the dialer's clock.
func (c *conn) lastIO() time.Duration { return time.Duration(c.io.Load()) }

// flush has everything in out written now. It never blocks.
func (c *conn) flush() {
	select {
	case c.kick <- struct{}{}:
	default:
	}
}

// flushSoon has everything in out written within lazyFlush.
func (c *conn) flushSoon() {
	select {
	case c.soon <- struct{}{}:
	default:
	}
}

// fail ends the connection; the first reason counts. It never blocks and may
// be called with or without the owner's lock.
func (c *conn) fail(err error) {
	c.once.Do(func() {
		c.err = err
		close(c.stop)
		c.nc.Close() // nothing is lost by its error: the connection is given up
	})
}

// wait returns when both goroutines have ended. Not to be called by them.
func (c *conn) wait() { c.wg.Wait() }

func (c *conn) write() {
	defer c.wg.Done()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-c.stop:
			return
		case <-c.kick:
		case <-c.soon:
			timer.Reset(lazyFlush)
			select {
			case <-c.stop:
				return
			case <-c.kick:
			case <-timer.C:
			}
		}
		if err := c.writeGathered(); err != nil {
			c.drain(err)
			return
		}
	}
}

// writeGathered writes until out is empty. Two buffers take turns.
func (c *conn) writeGathered() error {
	for {
		c.mu.Lock()
		buf := c.out
		if len(buf) == 0 {
			c.mu.Unlock()
			return nil
		}
		c.out, c.spare = c.spare[:0], nil
		c.mu.Unlock()
		if err := c.writeAll(buf); err != nil {
			return err
		}
		if cap(buf) <= keepBuffer || len(buf) >= cap(buf)/4 {
			c.mu.Lock()
			c.spare = buf[:0]
			c.mu.Unlock()
		}
	}
}

// trim gives back the memory of an idle connection. Called with the owner's lock.
func (c *conn) trim() {
	if len(c.out) == 0 && cap(c.out) > keepBuffer {
		c.out = nil
	}
	if cap(c.spare) > keepBuffer {
		c.spare = nil
	}
}

// writeAll writes buf in pieces, so that progress shows.
func (c *conn) writeAll(buf []byte) error {
	for len(buf) > 0 {
		n, err := c.nc.Write(buf[:min(len(buf), writePiece)])
		if err != nil {
			return err
		}
		c.moved()
		buf = buf[n:]
	}
	return nil
}

// drain lets the reader hear the broker's reason before a write error ends the connection.
func (c *conn) drain(err error) {
	err = fmt.Errorf("writing to %s: %w", c.server, err)
	c.broken.Store(&err)
	if c.nc.SetReadDeadline(time.Now().Add(drainAfterWriteError)) == nil {
		select {
		case <-c.stop:
		case <-time.After(2 * drainAfterWriteError):
		}
	}
	c.fail(err)
}

func (c *conn) read() {
	defer c.wg.Done()
	err := c.readFrames()
	if written := c.broken.Load(); written != nil && CodeOf(err) == 0 {
		err = *written
	}
	c.fail(err)
	c.owner.lost(c.err)
}

// readFrames reads until something is wrong. The bytes between r and w of the
// current chunk are what has been received and not been taken.
func (c *conn) readFrames() error {
	ck := c.d.pool.get(chunkSize)
	defer func() { ck.release(1) }()
	r, w := 0, 0
	for {
		n, err := c.nc.Read(ck.buf[w:])
		c.moved()
		w += n
		need := 0
		if n > 0 {
			f := frames{buf: ck.buf[r:w], chunk: ck}
			if err := c.owner.receive(&f); err != nil {
				return err
			}
			if f.err != nil {
				return fmt.Errorf("%s sent bytes that are no MortarMQ frame: %w", c.server, f.err)
			}
			r, need = w-len(f.buf), f.need
		}
		if err != nil {
			return readError(c.server, err, w-r)
		}
		if r == w && ck.refs.Load() == 1 {
			r, w = 0, 0
		} else if room := len(ck.buf) - w; room < need || room < minRead {
			ck, r, w = c.moveOn(ck, r, w, need)
		}
	}
}

// moveOn makes room for the rest of an unfinished frame: in the same chunk
// when nobody else holds it, else in another.
func (c *conn) moveOn(ck *chunk, r, w, need int) (*chunk, int, int) {
	part := ck.buf[r:w]
	if ck.refs.Load() == 1 && len(part)+need <= len(ck.buf) {
		if r > 0 {
			copy(ck.buf, part)
		}
		return ck, 0, len(part)
	}
	next := c.d.pool.get(max(len(part)+need, chunkSize))
	copy(next.buf, part)
	ck.release(1)
	return next, 0, len(part)
}

func readError(server string, err error, unfinished int) error {
	if errors.Is(err, io.EOF) {
		if unfinished > 0 {
			return fmt.Errorf("%s closed the connection in the middle of a frame: %w", server, io.ErrUnexpectedEOF)
		}
		return fmt.Errorf("%s closed the connection: %w", server, err)
	}
	return fmt.Errorf("reading from %s: %w", server, err)
}

// frames walks over the whole frames of what was received.
type frames struct {
	buf   []byte // what is left
	chunk *chunk // where buf lies
	need  int    // bytes that the unfinished frame lacks, as far as is known
	err   error  // what is left is no frame
}

// next returns the next whole frame, or false when there is none left.
func (f *frames) next() (op codec.Op, payload []byte, ok bool) {
	op, payload, n, need, err := codec.Cut(f.buf)
	if err != nil || n == 0 {
		f.need, f.err = need, err
		return 0, nil, false
	}
	f.buf = f.buf[n:]
	return op, payload, true
}

// answer is one OK or ERR.
type answer struct {
	code    codec.Code // 0: OK
	result  []byte     // of an OK; a view
	message []byte     // of an ERR; a view
}

// decodeAnswer decodes an OK or ERR payload that must answer request op. An ERR
// that answers no request ends the connection: it is the error.
func (c *conn) decodeAnswer(op codec.Op, payload []byte, request codec.Op) (answer, error) {
	if op == codec.OpOK {
		ok, err := codec.DecodeOK(payload)
		if err != nil {
			return answer{}, fmt.Errorf("%s sent a malformed OK: %w", c.server, err)
		}
		if ok.RequestOp != request {
			return answer{}, c.mismatch(request, uint8(ok.RequestOp))
		}
		return answer{result: ok.Result}, nil
	}
	m, err := codec.DecodeErr(payload)
	switch {
	case err != nil:
		return answer{}, fmt.Errorf("%s sent a malformed ERR: %w", c.server, err)
	case m.RequestOp == 0:
		return answer{}, &Error{Code: m.Code, Message: string(m.Message), Server: c.server}
	case codec.Op(m.RequestOp) != request:
		return answer{}, c.mismatch(request, m.RequestOp)
	}
	return answer{code: m.Code, message: m.Message}, nil
}

func (c *conn) mismatch(want codec.Op, got uint8) error {
	if want == 0 {
		return fmt.Errorf("%s answered %s, which was not asked", c.server, codec.Op(got))
	}
	return fmt.Errorf("%s answered %s where the answer to %s was due", c.server, codec.Op(got), want)
}

// refusal makes the *Error of an ERR.
func (c *conn) refusal(op codec.Op, a answer) *Error {
	return &Error{Op: op, Code: a.code, Message: string(a.message), Server: c.server}
}
