package env

import "time"

// Clock tells time in the two ways there are. Timers, leases and elections use
// Now, which only moves forward at the pace of real time; Wall may jump in both
// directions and serves only what people read.
type Clock interface {
	// Now is the monotonic time since the clock was made; the first value is
	// near 0 and never falls.
	Now() time.Duration
	// Wall is the date and time of day.
	Wall() time.Time
	// After returns a channel that receives Now's value once, d after the call.
	// A channel nobody waits for any more costs nothing.
	After(d time.Duration) <-chan time.Duration
}

// SystemClock returns a clock that starts at 0 now.
func SystemClock() Clock { return systemClock{start: time.Now()} }

type systemClock struct{ start time.Time }

func (c systemClock) Now() time.Duration { return time.Since(c.start) }
func (c systemClock) Wall() time.Time    { return time.Now() }

func (c systemClock) After(d time.Duration) <-chan time.Duration {
	ch := make(chan time.Duration, 1)
	time.AfterFunc(d, func() { ch <- c.Now() })
	return ch
}
