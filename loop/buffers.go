package loop

import "math/bits"

// buffers keeps byte slices of a reactor for reuse, by size class: 512 bytes
// to 256 KiB. Unlike a pool shared with others it never lends a large buffer for
// a small need, so what a session holds follows what it received.
type buffers struct {
	free [bufferClasses][][]byte
}

const (
	smallestBits  = 9
	bufferClasses = 10
	largestBuffer = 1 << (smallestBits + bufferClasses - 1)
	keepPerClass  = 1 << 20 // bytes
)

// get returns an empty slice with room for at least size bytes.
func (b *buffers) get(size int) []byte {
	if size > largestBuffer {
		return make([]byte, 0, size)
	}
	class := max(bits.Len(uint(max(size, 1)-1)), smallestBits) - smallestBits
	free := b.free[class]
	if n := len(free) - 1; n >= 0 {
		buf := free[n]
		free[n] = nil
		b.free[class] = free[:n]
		return buf[:0]
	}
	return make([]byte, 0, 1<<(class+smallestBits))
}

// put takes a slice back. Nobody may use it afterwards.
func (b *buffers) put(buf []byte) {
	if cap(buf) < 1<<smallestBits || cap(buf) >= 2*largestBuffer {
		return
	}
	class := bits.Len(uint(cap(buf))) - 1 - smallestBits
	if len(b.free[class])<<(class+smallestBits) < keepPerClass {
		b.free[class] = append(b.free[class], buf)
	}
}

// room returns buf with room for n more bytes. It grows geometrically, but not
// beyond most unless n asks for it. What is held this way counts against
// Limits.Unfinished; false says that there is no more.
func (r *reactor) room(buf []byte, n, most int) ([]byte, bool) {
	need := len(buf) + n
	if need <= cap(buf) {
		return buf, true
	}
	next := r.bufs.get(max(need, min(2*cap(buf), most)))
	more := int64(cap(next) - cap(buf))
	if r.srv.unfinished.Add(more) > r.limits.Unfinished {
		r.srv.unfinished.Add(-more)
		r.bufs.put(next)
		return buf, false
	}
	next = append(next, buf...)
	r.bufs.put(buf)
	return next, true
}

// giveBack ends the use of a buffer that came from room.
func (r *reactor) giveBack(buf []byte) {
	r.srv.unfinished.Add(-int64(cap(buf)))
	r.bufs.put(buf)
}
