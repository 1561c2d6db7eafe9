// Package routing contains the commands for current, past and hypothetical routes.
package routing

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/status"

	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/parse"
	"switchyard.dev/tools/switchyard/show"
)

// Table returns the command that shows the table.
func Table(s *command.Session) *cobra.Command {
	var at string
	c := &cobra.Command{
		Use:   "table",
		Short: "Show the routing table, now or as it was",
		Long: `Show the rules of the routing table: the sandbox that serves requests with a routing
key to a baseline. Below them: members that lost their baseline to an older one, the
version and its hash. Tables with the same rules have the same hash.`,
		Example: `  switchyard table
  switchyard table --key k7q2m9x4v1tz8 --at 14:03
  switchyard table --workload deployment/shop/customer -o json`,
		Args: cobra.NoArgs,
	}
	filter := parse.Filter(c)
	c.Flags().StringVar(&at, "at", "", "the `version` to show (default: the newest)")
	c.RunE = func(c *cobra.Command, _ []string) error {
		f, err := filter()
		if err != nil {
			return err
		}
		version, err := parse.At(at, s.Now())
		if err != nil {
			return err
		}
		client, err := s.Connect(c.Context())
		if err != nil {
			return err
		}
		if version != nil {
			return ShowTable(c.Context(), s, client, &routingv1.GetTableRequest{At: version, Filter: f})
		}
		return showNewest(c.Context(), s, client, f)
	}
	return c
}

// showNewest prints the table with everything that has been recorded. While the log is unavailable
// its tip is unknown: then it prints the last known table, which is the one in use, with a warning
// that it may be stale.
func showNewest(ctx context.Context, s *command.Session, client routingv1.RoutingClient, f *routingv1.Filter) error {
	known, err := wholeTable(ctx, s, client, &routingv1.GetTableRequest{Filter: f})
	if err != nil {
		return err
	}
	fresh := &routingv1.At{Version: &routingv1.At_Fresh{Fresh: true}}
	newest, err := wholeTable(ctx, s, client, &routingv1.GetTableRequest{At: fresh, Filter: f})
	if err == nil {
		return show.Answer(s.Show, newest, s.Show.Rules)
	}
	fmt.Fprintf(s.Err, "this is the last table that is known, and the one that routes; newer may be recorded: %s\n", status.Convert(err).Message())
	return show.Answer(s.Show, known, s.Show.Rules)
}

// ShowTable shows all pages of a table.
func ShowTable(ctx context.Context, s *command.Session, client routingv1.RoutingClient, req *routingv1.GetTableRequest) error {
	all, err := wholeTable(ctx, s, client, req)
	if err != nil {
		return err
	}
	return show.Answer(s.Show, all, s.Show.Rules)
}

// wholeTable gets all pages as one.
func wholeTable(ctx context.Context, s *command.Session, client routingv1.RoutingClient, req *routingv1.GetTableRequest) (*routingv1.GetTableResponse, error) {
	ctx, cancel := s.Patiently(ctx)
	defer cancel()
	var all *routingv1.GetTableResponse
	for {
		page, err := client.GetTable(ctx, req)
		if err != nil {
			return nil, err
		}
		if all == nil {
			all = page
		} else {
			all.Rules = append(all.Rules, page.GetRules()...)
		}
		if req.PageToken = page.GetNextPageToken(); req.GetPageToken() == "" {
			all.NextPageToken = ""
			return all, nil
		}
	}
}
