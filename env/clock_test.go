package env

import (
	"testing"
	"time"
)

func TestManualClockFiresWhatIsDue(t *testing.T) {
	start := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	c := NewManualClock(start)
	late, soon, now := c.After(3*time.Second), c.After(time.Second), c.After(0)
	if at := <-now; at != 0 {
		t.Errorf("an alarm of 0 fired at %v", at)
	}
	c.Advance(999 * time.Millisecond)
	if len(soon) != 0 || c.Alarms() != 2 {
		t.Fatalf("fired too early; %d alarms", c.Alarms())
	}
	c.Advance(time.Millisecond)
	if at := <-soon; at != time.Second {
		t.Errorf("fired at %v", at)
	}
	c.StepWall(-time.Hour)
	if len(late) != 0 || c.Now() != time.Second || !c.Wall().Equal(start.Add(time.Second-time.Hour)) {
		t.Errorf("after a step: now %v, wall %v, %d fired", c.Now(), c.Wall(), len(late))
	}
	c.Advance(time.Hour)
	if at := <-late; at != time.Hour+time.Second || c.Alarms() != 0 {
		t.Errorf("fired at %v, %d alarms left", at, c.Alarms())
	}
}

func TestManualClockNeverGoesBack(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	NewManualClock(time.Time{}).Advance(-1)
}

func TestSystemClock(t *testing.T) {
	c := SystemClock()
	before := c.Now()
	at := <-c.After(time.Millisecond)
	if after := c.Now(); at < before+time.Millisecond || after < at || before < 0 {
		t.Errorf("started at %v, fired at %v, now %v", before, at, after)
	}
	if d := time.Since(c.Wall()); d < 0 || d > time.Minute {
		t.Errorf("Wall is off by %v", d)
	}
}

func TestRand(t *testing.T) {
	a, b, c := NewRand(1), NewRand(1), NewRand(2)
	if x, y, z := a.Uint64(), b.Uint64(), c.Uint64(); x != y || x == z {
		t.Errorf("seeds 1, 1, 2 give %x, %x, %x", x, y, z)
	}
	r := SystemRand()
	if x, y := r.Uint64(), r.Uint64(); x == y {
		t.Errorf("the system gives %x twice", x)
	}
}
