// Package codec is the MortarMQ wire protocol, wire version 1, as bytes: frames,
// the payloads of the 15 ops in both directions, the results inside OK, the
// limits and the registry of error codes. Brokers and clients use it alike.
//
// # A frame
//
//	 0        4    5                          4+length
//	┌────────┬────┬─────────────────────────┐
//	│ length │ op │ payload                 │
//	└────────┴────┴─────────────────────────┘
//	  u32 BE   u8   length-1 bytes
//
// Bytes come from a socket in pieces. Cut finds the first frame in what is
// there; for an unfinished one CheckPrefix says whether it is worth waiting for
// the rest; DecodeX turns a whole payload into a struct:
//
//	op, payload, n, need, err := codec.Cut(buf)
//	switch {
//	case err != nil: // ErrBadLength, ErrUnknownOp: close
//	case n == 0:     // need more bytes
//		if len(buf) >= codec.HeaderLen {
//			err = codec.CheckPrefix(op, buf[codec.HeaderLen:], len(buf)+need-codec.HeaderLen)
//		}
//	case op == codec.OpPub:
//		m, err := codec.DecodePub(payload)
//		…
//	}
//
// AppendX writes the whole frame of an op behind dst, as append does.
// AppendXResult writes a result alone.
//
// # It promises
//
//   - Decoders never panic, never read past their input and allocate nothing,
//     whatever the input is. Slices in a decoded struct are views: they live as
//     long as the input and must not be written.
//   - Caps (key, value, names, texts) are judged by the length field, before
//     the bytes it announces are looked at or waited for (C2).
//   - Decoding what was encoded gives the same struct; encoding what was decoded
//     gives the same bytes, less a tail of bytes unknown to this version (S3).
//   - CheckPrefix and the decoders agree: it refuses a part exactly when no
//     rest could make the whole decodable.
//   - Appending allocates only to enlarge dst.
//
// # It never
//
// judges what needs state (is the topic known, is the epoch current), does I/O,
// keeps memory between calls, or repairs: an encoder that is given a field over
// its cap panics, because its caller should have checked.
//
// # Reading order
//
// ids.go and messages.go are the vocabulary, limits.go the numbers. frame.go
// cuts frames. One file per op follows the byte order of its struct: connect.go
// (with PING), declare.go, pub.go, sub.go, ack.go (with NACK), answer.go (ERR, OK), msg.go, pull.go,
// heartbeat.go, notice.go (with CONTROL_ACK), credit.go. tail.go is the part that PUB,
// the stored record and MSG share. layout.go has the same shapes as a table, for
// payloads that are there in part. code.go and registry.go are the error codes, error.go
// the errors. names.go and partition.go are the rules for names and keys.
package codec
