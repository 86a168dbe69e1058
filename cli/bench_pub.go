package cli

import (
	"cmp"
	"errors"
	"time"

	"github.com/mortarmq/mortarmq/bench"
	"github.com/mortarmq/mortarmq/client"
	"github.com/spf13/cobra"
)

func (a *app) benchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure a broker",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.benchPubCommand())
	return cmd
}

func (a *app) benchPubCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pub TOPIC",
		Short: "Publish at saturation and report rate and latencies",
		Long: `Publish to TOPIC, which is created with --partitions when it is missing: every
connection keeps --inflight messages unanswered. The latencies are those of a
saturated broker: they say how long a full window takes. The messages stay in
the topic; delete it afterwards.`,
		Example: `  mortarmq bench pub load --connections 8 --inflight 64 --size 1024 --duration 10s`,
		Args:    cobra.ExactArgs(1),
	}
	t := addTarget(cmd)
	partitions := cmd.Flags().Int("partitions", 8, "`N` partitions for a new topic")
	connections := cmd.Flags().Int("connections", 8, "`N` producers, each with a connection of its own")
	inFlight := cmd.Flags().Int("inflight", 64, "`N` messages without an answer, per connection")
	size := cmd.Flags().Int("size", 1024, "value `BYTES`")
	warmup := cmd.Flags().Duration("warmup", 2*time.Second, "`TIME` before counting starts")
	duration := cmd.Flags().Duration("duration", 10*time.Second, "counted `TIME`")
	cmd.RunE = runner(func(_ *cobra.Command, args []string) error {
		servers, err := t.servers(a)
		if err != nil {
			return err
		}
		cfg := bench.PubConfig{
			Servers: servers, Token: cmp.Or(t.token, a.getenv("MORTARMQ_TOKEN")), Topic: args[0],
			Connections: *connections, InFlight: *inFlight, Size: *size,
			Warmup: *warmup, Duration: *duration, Progress: a.err,
		}
		if err := cfg.Validate(); err != nil {
			return usagef("%w", err)
		}
		ctx, stop := a.untilSignal()
		defer stop()
		c, err := t.dial(ctx, a)
		if err != nil {
			return err
		}
		_, err = c.LookupTopic(ctx, cfg.Topic)
		if errors.Is(err, client.ErrUnknownTopic) {
			_, err = c.DeclareTopic(ctx, cfg.Topic, *partitions)
		}
		if cerr := c.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return err
		}
		report, err := bench.Pub(ctx, cfg)
		if report != nil {
			if werr := report.WriteText(a.out); err == nil {
				err = werr
			}
		}
		return err
	})
	return cmd
}
