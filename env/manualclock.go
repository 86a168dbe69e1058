package env

import (
	"sync"
	"time"
)

// ManualClock is a Clock that moves only when it is told to. Its methods may be
// called from several goroutines at once.
type ManualClock struct {
	mu     sync.Mutex
	now    time.Duration
	wall   time.Time
	alarms []alarm // unordered; few
}

type alarm struct {
	at time.Duration
	ch chan time.Duration
}

// NewManualClock returns a clock at 0 whose wall time is wall.
func NewManualClock(wall time.Time) *ManualClock { return &ManualClock{wall: wall} }

// Now implements Clock.
func (c *ManualClock) Now() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Wall implements Clock.
func (c *ManualClock) Wall() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wall
}

// After implements Clock: the channel fires inside the Advance that reaches it.
func (c *ManualClock) After(d time.Duration) <-chan time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	ch := make(chan time.Duration, 1)
	if d <= 0 {
		ch <- c.now
		return ch
	}
	c.alarms = append(c.alarms, alarm{at: c.now + d, ch: ch})
	return ch
}

// Advance moves both times forward by d, which must not be negative, and fires
// the alarms that are due.
func (c *ManualClock) Advance(d time.Duration) {
	if d < 0 {
		panic("env: ManualClock.Advance by a negative duration; monotonic time never falls")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now += d
	c.wall = c.wall.Add(d)
	kept := c.alarms[:0]
	for _, a := range c.alarms {
		if a.at > c.now {
			kept = append(kept, a)
			continue
		}
		a.ch <- c.now // room for exactly this one value
	}
	c.alarms = kept
}

// StepWall moves the wall time alone, in either direction, as an operator or
// NTP does.
func (c *ManualClock) StepWall(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall = c.wall.Add(d)
}

// Alarms returns how many After channels have not fired yet, so that a test can
// wait until the code under test has armed its timer.
func (c *ManualClock) Alarms() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.alarms)
}
