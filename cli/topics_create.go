package cli

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/mortarmq/mortarmq/client"
	"github.com/spf13/cobra"
)

func (a *app) topicsCreateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a topic",
		Long: `Create a topic and its dead-letter twin NAME.dlq, or confirm that it is there
with this number of partitions. One line is printed, its columns separated by
tabs:

  id, name, partitions, created or exists`,
		Example: `  mortarmq topics create orders.eu --partitions 4`,
		Args:    cobra.ExactArgs(1),
	}
	t := addTarget(cmd)
	partitions := cmd.Flags().Int("partitions", 0, "`N` partitions, 1 to 65534; 0: the broker's partition_default_count, or whatever an existing topic has")
	asJSON := cmd.Flags().Bool("json", false, "print a JSON object")
	cmd.RunE = runner(func(_ *cobra.Command, args []string) error {
		if *partitions < 0 || *partitions >= math.MaxUint16 {
			return usagef("--partitions %d: allowed is 1 to 65534, or 0 for the broker's default", *partitions)
		}
		ctx, stop := a.untilSignal()
		defer stop()
		c, err := t.dial(ctx, a)
		if err != nil {
			return err
		}
		defer c.Close()
		topic, err := c.DeclareTopic(ctx, args[0], *partitions)
		if err != nil {
			return err
		}
		return a.printCreated(topic, *asJSON)
	})
	return cmd
}

func (a *app) printCreated(t client.Topic, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(a.out).Encode(struct {
			ID         uint16 `json:"id"`
			Name       string `json:"name"`
			Partitions int    `json:"partitions"`
			Created    bool   `json:"created"`
		}{uint16(t.ID), t.Name, t.Partitions, t.Created})
	}
	state := "exists"
	if t.Created {
		state = "created"
	}
	_, err := fmt.Fprintf(a.out, "%d\t%s\t%d\t%s\n", t.ID, t.Name, t.Partitions, state)
	return err
}
