package cli

import (
	"os"

	"golang.org/x/sys/unix"
)

// isTerminal reports whether a stream is a terminal: *os.File and a tty.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// withoutEcho switches a terminal's echo off while read runs. The line break
// the user types is still shown.
func withoutEcho(terminal *os.File, read func() error) error {
	fd := int(terminal.Fd())
	before, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return err
	}
	silent := *before
	silent.Lflag &^= unix.ECHO
	silent.Lflag |= unix.ECHONL
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, &silent); err != nil {
		return err
	}
	readErr := read()
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, before); err != nil {
		return err
	}
	return readErr
}
