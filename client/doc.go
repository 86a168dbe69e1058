// Package client is the Go client of MortarMQ: topics, producers, consumers.
//
//	c, err := client.Dial(ctx, []string{"127.0.0.1:7188"}, client.Options{Token: token})
//	p, err := c.NewProducer(ctx, "orders", client.ProducerOptions{})
//	receipt, err := p.Publish(ctx, client.Message{Key: key, Value: value})
//	k, err := c.NewConsumer(ctx, client.ConsumerOptions{Topic: "orders", Group: "billing"})
//	err = k.Run(ctx, func(ctx context.Context, d *client.Delivery) error { … })
//
// # It promises
//
//   - Every message handed to a Producer gets exactly one report. Reported as
//     stored means that the broker has promised it, at the partition and sequence of the Receipt.
//   - A message is stored once, and the messages of a partition in the order in
//     which they were accepted, across lost connections, refusals that pass and a change of leader
//     (not with ProducerOptions.NonIdempotent). What may or may not have been
//     stored in the end is reported as such: ErrOutcomeUnknown.
//   - Every message that is stored is handed to a handler of each group at least
//     once; those of a partition in order, but for messages that are delivered again.
//     A partition is confirmed away only when nothing of it is being handled.
//   - Contexts end every wait. After Close, and when Run has returned, no goroutine is left.
//   - A refusal by the broker is an *Error with the code, its name and a hint.
//
// # It never
//
// buffers without bound, waits to make batches larger, creates topics by
// itself, or drops an error that nobody else can see without counting or logging it.
//
// # How it works
//
// A Client has one connection for topics (control.go); every Producer and every running
// Consumer has one of its own, because answers come in request order. A
// connection (conn.go) has a goroutine that writes what has gathered, in one
// call, and one that reads; a keeper goroutine beside them does what
// depends on time. Publishing a message takes no goroutine, channel, timer or allocation of its own.
//
//	PublishAsync ──► lane of its partition ──► out ──► writer ═══► broker
//	                      ▲                                          ║
//	report ◄── reports ◄──┴── oldest unanswered request ◄── reader ◄═╝
//
//	reader ══► queue ──► handler ──► ACK in out ──► writer ═══► broker
//	      ╚══► NOTICE ─► ownership ─► CONTROL_ACK ─┘
//
// The numbers of rules in comments (S6, P4, V2 …) are those of docs/protocol.md.
//
// # Reading order
//
// options.go, errors.go, client.go and topic.go are the surface. dial.go finds a server, conn.go and
// chunk.go move bytes. Producers: message.go, producer_options.go, producer.go; window.go
// is what is in flight, pipeline.go sends and puts things right, keeper.go
// looks after connection and time, report.go tells. Consumers: consumer_options.go, consumer.go,
// delivery.go; member.go is one membership with its handler's side, receive.go what
// comes in, pulling.go the credit window, rebalance.go partitions that come and go.
package client
