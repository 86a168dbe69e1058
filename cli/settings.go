package cli

import (
	"io"
	"os"
	"strings"

	"github.com/mortarmq/mortarmq/config"
	"github.com/spf13/cobra"
)

// settings are the flags of serve and config: --config and one for each key of the table.
type settings struct {
	file   string
	values map[string][]string
}

// addSettings gives a command the flags.
func addSettings(cmd *cobra.Command) *settings {
	s := &settings{values: map[string][]string{}}
	flags := cmd.Flags()
	flags.StringVar(&s.file, "config", "", "settings `FILE`, YAML or JSON (MORTARMQ_CONFIG)")
	flags.SortFlags = false
	for _, k := range config.Keys() {
		usage := strings.ReplaceAll(k.Doc, "`", "'") // back quotes would name the value
		if d := k.Default(); d != "" {
			usage += " (default " + d + ")"
		}
		if k.Pending != "" {
			usage += " (" + k.Pending + " is not built yet)"
		}
		f := flags.VarPF(&rawFlag{key: k, into: s.values}, strings.TrimPrefix(k.Flag(), "--"), "", usage)
		if k.Bool {
			f.NoOptDefVal = "true"
		}
	}
	return s
}

// load reads file, environment and flags. The error lists every fault.
func (s *settings) load(a *app) (*config.Loaded, error) {
	src := config.Source{File: s.file, Env: a.env, Flags: s.values}
	if src.File == "" {
		src.File = a.getenv("MORTARMQ_CONFIG")
	}
	if src.File != "" {
		data, err := readAtMost(src.File, config.MaxFileLen+1) // Load refuses the one byte more
		if err != nil {
			return nil, err
		}
		src.Data = data
	}
	loaded, err := config.Load(src)
	if err != nil {
		return nil, &exitError{exitUsage, err}
	}
	return loaded, nil
}

// readAtMost reads the first most bytes of a settings file.
func readAtMost(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, usagef("settings file: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil {
		return nil, usagef("settings file: %w", err)
	}
	return data, nil
}

// rawFlag keeps what was given as text: the table parses it, together with everything else, so that all faults come at once.
type rawFlag struct {
	key  config.Key
	into map[string][]string
}

func (f *rawFlag) String() string { return "" }

func (f *rawFlag) Set(v string) error {
	f.into[f.key.Name] = append(f.into[f.key.Name], v)
	return nil
}

// Type is what stands for the value in the help; a flag that may stand alone shows none.
func (f *rawFlag) Type() string {
	if f.key.Bool {
		return "bool"
	}
	return f.key.Value
}
