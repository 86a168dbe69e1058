// Package flow holds the values that travel between the floors of the broker:
// requests on their way down from the event loop to the shards and to the
// control plane, completions and notices on their way back up.
//
// It promises that every request gets exactly one completion. It knows no
// sockets, no files and no rules of delivery; it only says what is handed over
// and who owns the bytes until when.
//
// Ownership, in one place:
//   - A Request's Tail is a view into its Chunk. Whoever holds the Request holds
//     one reference to the Chunk and releases it after the last look at Tail.
//   - A Pull is owned by whoever holds its token (see Pull); its Body goes with it.
//   - A Completion's Body and Result belong to the receiver.
//   - A Subscription is shared. Its plain fields never change after SUB was
//     answered; everything else is atomic and names its one writer.
//
// Reading order: conn.go, request.go, pull.go, subscription.go, topics.go.
package flow
