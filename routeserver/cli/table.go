package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/status"

	routingv1 "switchyard.dev/protos/gen/routing/v1"
)

func (a *app) tableCommand() *cobra.Command {
	var at string
	c := &cobra.Command{
		Use:   "table",
		Short: "Show the routing table, now or as it was",
		Long: `Show the rules of the routing table: which sandbox serves requests to which
baseline that carry which routing key. Below them, members that lost their
baseline to an older one, the version and its hash. Tables with the same rules
have the same hash.`,
		Example: `  switchyard table
  switchyard table --key k7q2m9x4v1tz8 --at 14:03
  switchyard table --workload deployment/shop/customer -o json`,
		Args: cobra.NoArgs,
	}
	filter := filterFlags(c)
	c.Flags().StringVar(&at, "at", "", "the `version` to show; the newest")
	c.RunE = func(c *cobra.Command, _ []string) error {
		f, err := filter()
		if err != nil {
			return err
		}
		version, err := a.at(at)
		if err != nil {
			return err
		}
		client, err := a.connect(c.Context())
		if err != nil {
			return err
		}
		if version != nil {
			return a.showTable(c.Context(), client, &routingv1.GetTableRequest{At: version, Filter: f})
		}
		return a.showNewest(c.Context(), client, f)
	}
	return c
}

// showNewest shows the table with all that has been recorded. While the log is
// away nobody knows what that is: then it shows the last table that is known,
// which is the one that routes, and says that it may be old.
func (a *app) showNewest(ctx context.Context, client routingv1.RoutingClient, f *routingv1.Filter) error {
	known, err := a.wholeTable(ctx, client, &routingv1.GetTableRequest{Filter: f})
	if err != nil {
		return err
	}
	fresh := &routingv1.At{Version: &routingv1.At_Fresh{Fresh: true}}
	newest, err := a.wholeTable(ctx, client, &routingv1.GetTableRequest{At: fresh, Filter: f})
	if err == nil {
		return print(a, newest, a.tableText)
	}
	fmt.Fprintf(a.Err, "this is the last table that is known, and the one that routes; newer may be recorded: %s\n", status.Convert(err).Message())
	return print(a, known, a.tableText)
}

// showTable shows all pages of a table.
func (a *app) showTable(ctx context.Context, client routingv1.RoutingClient, req *routingv1.GetTableRequest) error {
	all, err := a.wholeTable(ctx, client, req)
	if err != nil {
		return err
	}
	return print(a, all, a.tableText)
}

// wholeTable gets all pages as one.
func (a *app) wholeTable(ctx context.Context, client routingv1.RoutingClient, req *routingv1.GetTableRequest) (*routingv1.GetTableResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, a.flags.patience)
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

func (a *app) tableText(t *routingv1.GetTableResponse) string {
	rows := grid{{"BASELINE", "KEY", "SANDBOX", "PORT", "DESTINATION", "READY", "BY"}}
	for _, r := range t.GetRules() {
		ready := "yes"
		if !r.GetReady() {
			ready = "no"
		}
		destination := "no Service"
		if r.GetKeptAtBaseline() {
			destination = "the baseline"
		}
		row := []string{nameOf(r.GetBaseline()), r.GetRoutingKey(), r.GetSandbox(), "-", destination, ready, nameOf(r.GetMember())}
		if len(r.GetMappings()) == 0 || r.GetKeptAtBaseline() {
			rows = append(rows, row)
			continue
		}
		for i, m := range r.GetMappings() {
			if i > 0 {
				row = []string{"", "", "", "", "", "", ""}
			}
			row[3], row[4] = fmt.Sprint(m.GetWorkloadPort()), destinations(m)
			rows = append(rows, row)
		}
	}
	out := ""
	if len(rows) > 1 {
		out = rows.String() + "\n"
	}
	for _, c := range t.GetConflicts() {
		out += a.paint(yellow, conflictLine(c)) + "\n"
	}
	v := t.GetVersion()
	return out + fmt.Sprintf("%s at %s, recorded %s\nhash of the whole table: %s\n", many(len(t.GetRules()), "rule"), place(v.GetPosition()), a.when(v.GetRecorded()), v.GetHash())
}

func conflictLine(c *routingv1.Conflict) string {
	return fmt.Sprintf("%s, key %s: %s of sandbox %s gets no requests, for %s of sandbox %s is older",
		nameOf(c.GetBaseline()), c.GetRoutingKey(), nameOf(c.GetLoser()), c.GetLoserSandbox(), nameOf(c.GetHolder()), c.GetHolderSandbox())
}
