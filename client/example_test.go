package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/mortarmq/mortarmq/broker"
	"github.com/mortarmq/mortarmq/client"
	"github.com/mortarmq/mortarmq/codec"
	"github.com/mortarmq/mortarmq/config"
)

// exampleBroker starts a broker for an example. A program of yours connects to the
// one that `mortarmq serve` runs, at 127.0.0.1:7188.
func exampleBroker() (addr string, stop func()) {
	dir, err := os.MkdirTemp("", "mortarmq-example-")
	if err != nil {
		log.Fatal(err)
	}
	cfg := config.Default()
	cfg.DataDir = dir
	cfg.ListenClient, cfg.ListenAdmin = "127.0.0.1:0", "127.0.0.1:0"
	b, err := broker.Start(cfg, broker.Options{})
	if err != nil {
		log.Fatal(err)
	}
	return b.ClientAddr(), func() {
		if err := errors.Join(b.Close(), os.RemoveAll(dir)); err != nil {
			log.Fatal(err)
		}
	}
}

// Create a topic, publish a message, consume it.
func Example() {
	addr, stop := exampleBroker()
	defer stop()
	ctx := context.Background()

	c, err := client.Dial(ctx, []string{addr}, client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	if _, err := c.DeclareTopic(ctx, "orders.eu", 4); err != nil {
		log.Fatal(err)
	}

	p, err := c.NewProducer(ctx, "orders.eu", client.ProducerOptions{})
	if err != nil {
		log.Fatal(err)
	}
	receipt, err := p.Publish(ctx, client.Message{Key: []byte("customer 7"), Value: []byte("3 bricks")})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("stored in partition %d as number %d\n", receipt.Partition, receipt.Sequence)

	k, err := c.NewConsumer(ctx, client.ConsumerOptions{Topic: "orders.eu", Group: "billing"})
	if err != nil {
		log.Fatal(err)
	}
	ctx, enough := context.WithCancel(ctx)
	err = k.Run(ctx, func(ctx context.Context, d *client.Delivery) error {
		fmt.Printf("%s: %s\n", d.Key, d.Value)
		enough() // a service goes on until it is told to end
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// stored in partition 0 as number 1
	// customer 7: 3 bricks
}

// Keep many messages in flight: each is reported once, and Flush waits for all.
func ExampleProducer_PublishAsync() {
	addr, stop := exampleBroker()
	defer stop()
	ctx := context.Background()
	c, err := client.Dial(ctx, []string{addr}, client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	if _, err := c.DeclareTopic(ctx, "measurements", 1); err != nil {
		log.Fatal(err)
	}
	p, err := c.NewProducer(ctx, "measurements", client.ProducerOptions{})
	if err != nil {
		log.Fatal(err)
	}

	stored, failed := 0, 0
	report := func(r client.Receipt, err error) { // one at a time
		if err != nil {
			failed++
			log.Printf("message %d: %v", r.Tag, err)
			return
		}
		stored++
	}
	for i := range 1000 {
		p.PublishAsync(ctx, client.Message{Value: fmt.Appendf(nil, "%d", i), Tag: uint64(i)}, report)
	}
	if err := p.Close(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println(stored, "stored,", failed, "failed")
	// Output: 1000 stored, 0 failed
}

// Number the messages yourself, and a run that broke off can be started again
// from its beginning without storing anything twice.
func ExampleProducer_PublishSeq() {
	addr, stop := exampleBroker()
	defer stop()
	ctx := context.Background()
	c, err := client.Dial(ctx, []string{addr}, client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	if _, err := c.DeclareTopic(ctx, "lines", 1); err != nil {
		log.Fatal(err)
	}

	run := func(lines ...string) {
		p, err := c.NewProducer(ctx, "lines", client.ProducerOptions{ProducerID: 4711})
		if err != nil {
			log.Fatal(err)
		}
		stored, repeats := 0, 0
		for i, line := range lines {
			p.PublishSeq(ctx, 0, codec.ProducerSeq(i+1), client.Message{Value: []byte(line)}, func(r client.Receipt, err error) {
				switch {
				case err == nil && !r.Duplicate:
					stored++
				case err == nil, errors.Is(err, client.ErrRepeat):
					repeats++
				default:
					log.Print(err)
				}
			})
		}
		if err := p.Close(ctx); err != nil {
			log.Fatal(err)
		}
		fmt.Println(stored, "stored,", repeats, "repeats")
	}
	run("one", "two")
	run("one", "two", "three")
	// Output:
	// 2 stored, 0 repeats
	// 1 stored, 2 repeats
}

// What a handler returns decides what becomes of the message.
func ExampleReject() {
	addr, stop := exampleBroker()
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c, err := client.Dial(ctx, []string{addr}, client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	if _, err := c.DeclareTopic(ctx, "numbers", 1); err != nil {
		log.Fatal(err)
	}
	p, err := c.NewProducer(ctx, "numbers", client.ProducerOptions{})
	if err != nil {
		log.Fatal(err)
	}
	for _, v := range []string{"1", "two", "3"} {
		if _, err := p.Publish(ctx, client.Message{Value: []byte(v)}); err != nil {
			log.Fatal(err)
		}
	}

	k, err := c.NewConsumer(ctx, client.ConsumerOptions{Topic: "numbers", Group: "sum"})
	if err != nil {
		log.Fatal(err)
	}
	sum, handled := 0, 0
	running, enough := context.WithCancel(ctx)
	err = k.Run(running, func(_ context.Context, d *client.Delivery) error {
		if handled++; handled == 3 {
			enough()
		}
		var n int
		if _, err := fmt.Sscan(string(d.Value), &n); err != nil {
			return client.Reject(err) // it will never be a number: to the dead-letter topic
		}
		sum += n
		return nil // settled; any other error would have it delivered again
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("sum", sum)

	k, err = c.NewConsumer(ctx, client.ConsumerOptions{Topic: "numbers", Group: "undertaker", DeadLetter: true})
	if err != nil {
		log.Fatal(err)
	}
	running, enough = context.WithCancel(ctx)
	err = k.Run(running, func(_ context.Context, d *client.Delivery) error {
		fmt.Printf("%s: %q, rejected by group %s as number %d\n", d.Topic, d.Value, d.Origin.Group, d.Origin.Sequence)
		enough()
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// sum 4
	// numbers.dlq: "two", rejected by group sum as number 2
}

// Refusals carry the code, its name and what to do.
func ExampleError() {
	addr, stop := exampleBroker()
	defer stop()
	ctx := context.Background()
	c, err := client.Dial(ctx, []string{addr}, client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	if _, err := c.DeclareTopic(ctx, "orders", 4); err != nil {
		log.Fatal(err)
	}

	_, err = c.DeclareTopic(ctx, "orders", 8)
	var refusal *client.Error
	if errors.As(err, &refusal) {
		fmt.Printf("%s (0x%04X)\n%s\n", refusal.Name(), uint16(refusal.Code), refusal.Hint())
	}
	_, err = c.LookupTopic(ctx, "invoices")
	fmt.Println(errors.Is(err, client.ErrUnknownTopic))
	// Output:
	// TOPIC_EXISTS_MISMATCH (0x2001)
	// DECLARE with the topic's own partition count or with 0, or choose another name.
	// true
}
