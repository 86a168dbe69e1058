package cli

import (
	"cmp"
	"context"
	"errors"
	"net"
	"strconv"
	"strings"

	"github.com/mortarmq/mortarmq/client"
	"github.com/spf13/cobra"
)

const defaultServer = "127.0.0.1:7188"

// target is where a command finds the broker, and who it says it is.
type target struct {
	server string
	token  string
}

// addTarget gives a command --server and --token.
func addTarget(cmd *cobra.Command) *target {
	t := &target{}
	cmd.Flags().StringVar(&t.server, "server", "", "broker `HOST:PORT[,HOST:PORT...]` (MORTARMQ_SERVER; default "+defaultServer+")")
	cmd.Flags().StringVar(&t.token, "token", "", "`TOKEN` to connect with; better in MORTARMQ_TOKEN, where other users cannot see it")
	return t
}

// dial connects to the first server that answers.
func (t *target) dial(ctx context.Context, a *app) (*client.Client, error) {
	servers, err := t.servers(a)
	if err != nil {
		return nil, err
	}
	c, err := client.Dial(ctx, servers, client.Options{Token: cmp.Or(t.token, a.getenv("MORTARMQ_TOKEN"))})
	if errors.Is(err, client.ErrUnreachable) {
		return nil, unreachablef("no broker answers at %s: %w; start one with `mortarmq serve`, or name it with --server", strings.Join(servers, ", "), bare(err))
	}
	return c, err
}

// servers returns the addresses, checked.
func (t *target) servers(a *app) ([]string, error) {
	text := cmp.Or(t.server, a.getenv("MORTARMQ_SERVER"), defaultServer)
	servers := strings.Split(text, ",")
	for i, s := range servers {
		servers[i] = strings.TrimSpace(s)
		_, port, err := net.SplitHostPort(servers[i])
		if err == nil {
			_, err = strconv.ParseUint(port, 10, 16)
		}
		if err != nil {
			return nil, usagef("--server %q: %q is not HOST:PORT", text, servers[i])
		}
	}
	return servers, nil
}
