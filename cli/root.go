package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/mortarmq/mortarmq/config"
	"github.com/spf13/cobra"
)

// app is what a command may touch of the process around it.
type app struct {
	in  io.Reader
	out io.Writer
	err io.Writer
	env []string // as os.Environ gives it
	// signals receives SIGINT and SIGTERM.
	signals signalFunc
	// start starts a broker.
	start func(cfg config.Config, logger *slog.Logger) (node, error)
}

// getenv returns a variable, or "".
func (a *app) getenv(name string) string {
	for i := len(a.env) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(a.env[i], name+"="); ok {
			return v
		}
	}
	return ""
}

// Main runs the command line of this process, without its name, and returns
// the exit code.
func Main(args []string) int {
	a := &app{
		in: os.Stdin, out: os.Stdout, err: os.Stderr, env: os.Environ(),
		signals: processSignals,
		start:   startBroker,
	}
	return a.run(args)
}

// processSignals receives what ends this process. Two fit: serve counts them.
func processSignals() (<-chan os.Signal, func()) {
	c := make(chan os.Signal, 2)
	signal.Notify(c, os.Interrupt, syscall.SIGTERM)
	return c, func() { signal.Stop(c) }
}

// untilSignal returns a context that the first signal ends. stop must be called.
func (a *app) untilSignal() (ctx context.Context, stop func()) {
	signals, quiet := a.signals()
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		select {
		case <-signals:
			cancel()
		case <-ctx.Done():
		}
		quiet() // a second signal ends the process, as it does by default
	}()
	return ctx, cancel
}

// run runs one command line.
func (a *app) run(args []string) int {
	root := a.rootCommand()
	root.SetArgs(args)
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	cmd, err := root.ExecuteC()
	if err == nil {
		return exitDone
	}
	var own *exitError
	if !errors.As(err, &own) && !ran(cmd) { // cobra refused the arguments before the command began
		err = &exitError{exitUsage, fmt.Errorf("%w; see `%s --help`", err, cmd.CommandPath())}
	}
	var quiet *silentError
	if !errors.As(err, &quiet) {
		printError(a.err, err)
	}
	return exitCode(err)
}

// silentError ends a command whose own output has said everything.
type silentError struct{ err error }

func (e *silentError) Error() string { return e.err.Error() }
func (e *silentError) Unwrap() error { return e.err }

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "mortarmq",
		Short: "A partitioned, durable message broker",
		Long: `MortarMQ is a partitioned, durable message broker in one binary.

Start a broker, create a topic, send a file through it:

  mortarmq serve
  mortarmq topics create demo --partitions 4
  mortarmq pub demo --file lines.txt --key-sep ' '
  mortarmq sub demo --group readers --idle 2s

Exit codes: 0 done, 2 bad arguments, 3 broker unreachable, 4 refused or
failed, 130 interrupted.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cmd.Help()
		},
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(
		a.benchCommand(),
		a.serveCommand(),
		group("topics", "Create, delete and list topics", a.topicsCreateCommand(), a.topicsDeleteCommand(), a.topicsListCommand()),
		a.pubCommand(),
		a.subCommand(),
		a.hashTokenCommand(),
		group("config", "Check and show the settings of serve", a.configCheckCommand(), a.configShowCommand()),
		a.versionCommand(),
	)
	return root
}

// group makes a command that only holds others.
func group(name, short string, commands ...*cobra.Command) *cobra.Command {
	g := &cobra.Command{
		Use:   name,
		Short: short,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("unknown command %q for %q", args[0], cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cmd.Help()
		},
	}
	g.AddCommand(commands...)
	return g
}

// runAnnotation marks a command whose arguments were accepted.
const runAnnotation = "mortarmq.ran"

// runner wraps the body of a command, so that a failure of the body can be told from one of the arguments.
func runner(body func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		cmd.Annotations = map[string]string{runAnnotation: "yes"}
		return body(cmd, args)
	}
}

func ran(cmd *cobra.Command) bool { return cmd.Annotations[runAnnotation] != "" }
