package cli

import (
	"github.com/spf13/cobra"
)

func (a *app) configShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Print all settings with where each comes from",
		Long: `Print all settings as serve would use them, one a line, as a settings file:
what stands behind # tells where the setting was made. With --json as one JSON
object, which serve accepts as a file too.`,
		Example: `  mortarmq config show > mortarmq.yaml
  mortarmq config show --config mortarmq.yaml --json`,
		Args: cobra.NoArgs,
	}
	asJSON := cmd.Flags().Bool("json", false, "print JSON")
	s := addSettings(cmd)
	cmd.RunE = runner(func(*cobra.Command, []string) error {
		loaded, err := s.load(a)
		if err != nil {
			return err
		}
		text := loaded.YAML()
		if *asJSON {
			text = loaded.JSON()
		}
		_, err = a.out.Write(text)
		return err
	})
	return cmd
}
