package cli

import (
	"log/slog"

	"github.com/mortarmq/mortarmq/broker"
	"github.com/mortarmq/mortarmq/config"
)

// startBroker starts the real broker.
func startBroker(cfg config.Config, logger *slog.Logger) (node, error) {
	b, err := broker.Start(cfg, broker.Options{Logger: logger, Version: fullVersion()})
	if err != nil {
		return nil, err
	}
	return b, nil
}
