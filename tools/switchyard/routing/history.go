package routing

import (
	"github.com/spf13/cobra"

	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/switchyard/command/parse"
	"switchyard.dev/tools/switchyard/show"
)

// History returns the command that lists the recorded events.
func History(s *command.Session) *cobra.Command {
	req := &routingv1.HistoryRequest{}
	var workload, member string
	c := &cobra.Command{
		Use:   "history (--key KEY | --workload KIND/NAMESPACE/NAME | --member KIND/NAMESPACE/NAME)",
		Short: "List the events of a key, a baseline or a member, with their authors",
		Long: `List the events of one routing key, of one baseline (of every member that ever
represented it) or of one member (a ForkedWorkload, SignadotExternalWorkload or
VirtualWorkload), oldest first, with the author of each.`,
		Example: `  switchyard history --key k7q2m9x4v1tz8
  switchyard history --workload deployment/shop/customer --limit 10
  switchyard history --member forkedworkload/shop/new-customer-customer`,
		Args: cobra.NoArgs,
	}
	f := c.Flags()
	f.StringVar(&req.RoutingKey, "key", "", "the routing key")
	f.StringVar(&workload, "workload", "", "the baseline, `KIND/NAMESPACE/NAME`")
	f.StringVar(&member, "member", "", "the member, `KIND/NAMESPACE/NAME`")
	f.Int32Var(&req.Limit, "limit", 0, "number of newest events (default: 100)")
	c.MarkFlagsOneRequired("key", "workload", "member")
	c.MarkFlagsMutuallyExclusive("key", "workload", "member")
	c.RunE = func(c *cobra.Command, _ []string) error {
		var ok bool
		if workload != "" {
			if req.Baseline, ok = parse.Workload(workload); !ok {
				return exit.Usage.Errorf("--workload is KIND/NAMESPACE/NAME, for example deployment/shop/customer, not %q", workload)
			}
		}
		if member != "" {
			if req.Member, ok = parse.Member(member); !ok {
				return exit.Usage.Errorf("--member is KIND/NAMESPACE/NAME, for example forkedworkload/shop/customer, not %q", member)
			}
		}
		got, err := command.Ask(c.Context(), s, routingv1.RoutingClient.History, req)
		if err != nil {
			return err
		}
		if err := show.Answer(s.Show, got, s.Show.History); err != nil {
			return err
		}
		return exit.No.Unless(len(got.GetEvents()) > 0)
	}
	return c
}
