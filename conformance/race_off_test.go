//go:build !race

package conformance

// pace stretches short leases; see race_on_test.go.
const pace = 1
