//go:build !race

package log

// sweepStep of 1 tries every byte.
const sweepStep = 1
