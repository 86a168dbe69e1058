// Package bench is the load generator: it drives a broker through package
// client and reports what it measured, and nothing it did not.
//
// This is its first cut: saturation with a fixed window per connection. Open-loop load,
// consuming and the machine's ceilings come later.
//
// Reading order: pub.go, report.go.
package bench
