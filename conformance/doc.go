// Package conformance judges a running MortarMQ broker from the outside: its
// tests open raw TCP connections and compare every byte that comes back with
// the wire protocol and the numbered decisions (S1, P4, V6 …) in
// docs/protocol.md.
//
// It promises independence. The encoder and decoder in wire_test.go are its
// own, so a fault shared by the broker and package codec cannot hide. It never
// looks into the broker: the only door is start_test.go, which starts one on a
// free port.
//
// With MORTARMQ_CONFORMANCE_ADDR=HOST:PORT the same tests run against a broker
// that is already up. Tests that need a restart or a special setting are then
// skipped and say so; the rest assume the default settings and no tokens.
//
//	go test ./conformance                       everything but the 45-second timers
//	go test -short ./conformance                nothing that waits for the 10-second timers
//	go test ./conformance -run Timers -timers   the 45-second timers too
//
// Reading order: wire_test.go (frames), peer_test.go (one connection),
// member_test.go (one group member), start_test.go and main_test.go (brokers
// under test), then the rules, one file per subject.
package conformance
