// Package env is the door to the world: disk, clock and randomness come in
// through the small interfaces declared here, so that everything above can be
// run against twins that a test controls.
//
// It promises that the real implementations (OS, SystemClock, SystemRand) add
// nothing to what Linux does except retrying interrupted calls and finishing
// short writes, and that the twins (NewMemFS, NewManualClock, NewRand) behave
// alike as far as a caller may rely on it. It never hides an error, never
// retries a failed write or sync, and keeps no state of its own between calls.
//
// Only main and cli choose the real implementations; every other package is
// given them.
//
// Reading order: fs.go (what a disk is), os.go and lock.go (the real one),
// memfs.go (the twin), clock.go and manualclock.go, rand.go.
package env
