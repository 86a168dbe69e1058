package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

func (a *app) configCheckCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check the settings without starting anything",
		Long: `Check the settings as serve would read them: file, environment and flags
together. Every fault is listed with its place and with what is allowed there;
the exit code is 2 then.`,
		Example: `  mortarmq config check --config mortarmq.yaml
  MORTARMQ_SHARDS=2 mortarmq config check`,
		Args: cobra.NoArgs,
	}
	s := addSettings(cmd)
	cmd.RunE = runner(func(*cobra.Command, []string) error {
		loaded, err := s.load(a)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(a.out, "ok: %d settings given, the others have their defaults\n", len(loaded.Origin))
		return err
	})
	return cmd
}
