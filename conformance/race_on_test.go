//go:build race

package conformance

// pace stretches short leases in a program that the race detector slows down;
// above 1 it also says that memory and time are not the broker's own.
const pace = 3
