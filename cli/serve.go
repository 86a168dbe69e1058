package cli

import (
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/mortarmq/mortarmq/config"
	"github.com/spf13/cobra"
)

// node is a started broker, as far as serve deals with it.
type node interface {
	ClientAddr() string
	AdminAddr() string
	// Failed delivers the first fault after which the broker serves no longer. It has been logged.
	Failed() <-chan error
	// Close drains: what was answered stays true. It returns when everything is closed.
	Close() error
}

func (a *app) serveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run a broker",
		Long: `Run a broker until SIGINT or SIGTERM. One line on standard output tells that
it is ready, with the addresses it listens on; the log goes to standard error.
The first signal drains: nothing new is accepted, what is in progress is
finished. The second one stops at once, which costs nothing that was answered.

Every setting is a flag, an environment variable (MORTARMQ_ and the key in
capitals) and a key of the --config file, in this order of precedence. Without
any, data is kept in ./data and only this machine can connect.`,
		Example: `  mortarmq serve
  mortarmq serve --data-dir /var/lib/mortarmq --listen-client 0.0.0.0:7188 --auth-token-sha256 "$(mortarmq hash-token < token)"
  MORTARMQ_LOG_LEVEL=debug mortarmq serve --config mortarmq.yaml`,
		Args: cobra.NoArgs,
	}
	s := addSettings(cmd)
	cmd.RunE = runner(func(*cobra.Command, []string) error {
		loaded, err := s.load(a)
		if err != nil {
			return err
		}
		return a.serve(loaded.Config)
	})
	return cmd
}

// serve runs a broker until a signal or its own failure ends it.
func (a *app) serve(cfg config.Config) error {
	signals, quiet := a.signals()
	defer quiet()
	logger := newLogger(a.err, cfg)
	n, err := a.start(cfg, logger)
	if err != nil {
		return refusedf("%w", err)
	}
	if _, err := fmt.Fprintf(a.out, "mortarmq %s is ready: clients=%s admin=%s data=%s\n", fullVersion(), n.ClientAddr(), n.AdminAddr(), cfg.DataDir); err != nil {
		logger.Warn("the ready line could not be written to standard output", "error", err)
	}
	// A broker that failed stays up, so that /readyz can say why and clients are told by a code; the signal ends it.
	var failure error
	for waiting := true; waiting; {
		select {
		case failure = <-n.Failed():
		case sig := <-signals:
			logger.Info("draining; a second signal stops at once", "signal", sig.String())
			waiting = false
		}
	}
	closed := make(chan error, 1)
	go func() { closed <- n.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			return refusedf("the broker did not stop cleanly: %w", err)
		}
		if failure != nil {
			return refusedf("the broker had failed before: %w", failure)
		}
		logger.Info("stopped")
		return nil
	case sig := <-signals:
		logger.Warn("stopped without draining", "signal", sig.String())
		return &silentError{&exitError{exitInterrupted, fmt.Errorf("stopped by %s", sig)}}
	}
}

func newLogger(w io.Writer, cfg config.Config) *slog.Logger {
	o := &slog.HandlerOptions{Level: cfg.LogLevel}
	if cfg.LogFormat == config.LogJSON {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

// signalFunc begins to receive the signals that end a process; stop gives them back.
type signalFunc func() (signals <-chan os.Signal, stop func())
