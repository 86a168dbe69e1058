package cli

import "github.com/spf13/cobra"

func (a *app) topicsDeleteCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "delete NAME",
		Short: "Delete a topic with all its messages",
		Long: `Delete a topic, its dead-letter twin, their messages and their groups. There
is no way back, and no question is asked. Consumers lose their partitions at
once. Nothing is printed.`,
		Example: `  mortarmq topics delete orders.eu`,
		Args:    cobra.ExactArgs(1),
	}
	t := addTarget(cmd)
	cmd.RunE = runner(func(_ *cobra.Command, args []string) error {
		ctx, stop := a.untilSignal()
		defer stop()
		c, err := t.dial(ctx, a)
		if err != nil {
			return err
		}
		defer c.Close()
		return c.DeleteTopic(ctx, args[0])
	})
	return cmd
}
