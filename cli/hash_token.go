package cli

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

func (a *app) hashTokenCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "hash-token [TOKEN]",
		Short: "Print the SHA-256 of a token for auth_token_sha256",
		Long: `Print the SHA-256 of a token, as the setting auth_token_sha256 wants it.

Without an argument the token is the first line of standard input; on a
terminal it is not shown while you type. An argument can be seen by other
users of this machine and ends up in the shell's history.`,
		Example: `  mortarmq hash-token
  openssl rand -hex 32 | tee token | mortarmq hash-token`,
		Args: cobra.MaximumNArgs(1),
		RunE: runner(func(_ *cobra.Command, args []string) error {
			token, err := a.readToken(args)
			if err != nil {
				return err
			}
			if token == "" {
				return usagef("the token is empty; give one of your own, such as `openssl rand -hex 32` makes")
			}
			if len(token) > math.MaxUint16 {
				return usagef("the token has %d bytes; at most %d fit into CONNECT", len(token), math.MaxUint16)
			}
			_, err = fmt.Fprintf(a.out, "%x\n", sha256.Sum256([]byte(token)))
			return err
		}),
	}
}

// readToken returns the token of the argument or of standard input, without its line break.
func (a *app) readToken(args []string) (string, error) {
	if len(args) == 1 {
		return args[0], nil
	}
	var line string
	read := func() error {
		var err error
		line, err = bufio.NewReader(io.LimitReader(a.in, math.MaxUint16+3)).ReadString('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	}
	if terminal, ok := a.in.(*os.File); ok && isTerminal(terminal) {
		err := withoutEcho(terminal, func() error {
			fmt.Fprint(a.err, "Token: ")
			return read()
		})
		return strings.TrimRight(line, "\r\n"), err
	}
	err := read()
	return strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r"), err
}
