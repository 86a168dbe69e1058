package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/mortarmq/mortarmq/admin"
	"github.com/spf13/cobra"
)

const (
	defaultAdmin = "127.0.0.1:7190"
	adminTimeout = 10 * time.Second
	// maxStats bounds what is read of /stats: 32,767 topics with their groups fit.
	maxStats = 256 << 20
)

func (a *app) topicsListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the topics",
		Long: `List the topics, one a line, ascending by id. Columns, separated by tabs:

  id, name, partitions, produced, delivered, dead_lettered, groups

produced counts stored messages; delivered and dead_lettered are sums over the
groups. On a terminal a line with the names stands above. The list comes from
the broker's admin HTTP (listen_admin), not over the wire protocol.`,
		Example: `  mortarmq topics list
  mortarmq topics list --json --admin 10.0.0.5:7190`,
		Args: cobra.NoArgs,
	}
	addr := cmd.Flags().String("admin", "", "admin `HOST:PORT` of the broker (MORTARMQ_ADMIN; default "+defaultAdmin+")")
	asJSON := cmd.Flags().Bool("json", false, "print a JSON array of topics with their groups")
	cmd.RunE = runner(func(cmd *cobra.Command, _ []string) error {
		stats, err := fetchStats(cmp.Or(*addr, a.getenv("MORTARMQ_ADMIN"), defaultAdmin))
		if err != nil {
			return err
		}
		if *asJSON {
			e := json.NewEncoder(a.out)
			e.SetEscapeHTML(false)
			return e.Encode(stats.Topics)
		}
		return printTopics(a.out, stats.Topics)
	})
	return cmd
}

// printTopics prints the list. Names hold no tab and no line break: the broker refuses both.
func printTopics(w io.Writer, topics []admin.Topic) error {
	var b strings.Builder
	if isTerminal(w) {
		b.WriteString("ID\tNAME\tPARTITIONS\tPRODUCED\tDELIVERED\tDEAD_LETTERED\tGROUPS\n")
	}
	for _, t := range topics {
		fmt.Fprintf(&b, "%d\t%s\t%d\t%d\t%d\t%d\t%d\n", t.ID, t.Name, t.Partitions, t.Produced, t.Delivered, t.DeadLettered, len(t.Groups))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// fetchStats reads /stats of an admin address.
func fetchStats(addr string) (*admin.Stats, error) {
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return nil, usagef("--admin %q is not HOST:PORT", addr)
	}
	client := &http.Client{Timeout: adminTimeout}
	resp, err := client.Get("http://" + addr + "/stats")
	if err != nil {
		return nil, unreachablef("no answer from the admin address %s: %w; start `mortarmq serve`, or name its listen_admin with --admin", addr, bare(err))
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, refusedf("the admin address %s answers %s to /stats; is it a broker's listen_admin?", addr, resp.Status)
	}
	var stats admin.Stats
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxStats)).Decode(&stats); err != nil {
		return nil, refusedf("the admin address %s sends no statistics (%w); is it a broker's listen_admin?", addr, err)
	}
	return &stats, nil
}

// bare returns the cause of a network error without the layers that repeat the address.
func bare(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}
