//go:build race

package log

// sweepStep thins out sweeps over every byte, which the race detector makes ten
// times slower and learns nothing from. It is odd, so that all alignments occur.
const sweepStep = 13
