package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/mortarmq/mortarmq/client"
	"github.com/mortarmq/mortarmq/codec"
	"github.com/mortarmq/mortarmq/config"
)

// Exit codes of every command.
const (
	exitDone        = 0
	exitUsage       = 2   // bad arguments or settings; nothing was tried
	exitUnreachable = 3   // no broker answered
	exitRefused     = 4   // the broker, the disk or a port said no; or not everything was done
	exitInterrupted = 130 // ended by a signal before it was done, as shells report SIGINT
)

// exitError is an error that knows its exit code.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// usagef says that an argument or a setting is wrong.
func usagef(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

// unreachablef says that no broker could be reached.
func unreachablef(format string, args ...any) error {
	return &exitError{exitUnreachable, fmt.Errorf(format, args...)}
}

// refusedf says that something was refused or failed.
func refusedf(format string, args ...any) error {
	return &exitError{exitRefused, fmt.Errorf(format, args...)}
}

// exitCode is the one place that turns an error into an exit code.
func exitCode(err error) int {
	var own *exitError
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &own):
		return own.code
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.Is(err, client.ErrUnreachable):
		return exitUnreachable
	default:
		return exitRefused
	}
}

// printError writes an error, one line for each of its faults.
func printError(w io.Writer, err error) {
	for _, one := range faultsOf(err) {
		fmt.Fprintf(w, "error: %s\n", strings.ReplaceAll(errorText(one), "\n", "; "))
	}
}

// errorText puts the code first where there is one: "UNKNOWN_TOPIC (0x0008): what to do".
func errorText(err error) string {
	var refusal *client.Error
	if errors.As(err, &refusal) {
		return (&codec.Error{Code: refusal.Code, Message: refusal.Message}).Error()
	}
	var wire *codec.Error
	if errors.As(err, &wire) {
		return wire.Error()
	}
	return strings.TrimPrefix(err.Error(), "client: ") // the package that says it is nobody's concern here
}

// faultsOf splits what is wrong with the settings into its parts; any other error is one.
func faultsOf(err error) []error {
	var fault *config.Fault
	var many interface{ Unwrap() []error }
	if errors.As(err, &fault) && errors.As(err, &many) {
		return many.Unwrap()
	}
	return []error{err}
}
