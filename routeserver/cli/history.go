package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	routingv1 "switchyard.dev/protos/gen/routing/v1"
)

func (a *app) historyCommand() *cobra.Command {
	req := &routingv1.HistoryRequest{}
	var workload, member string
	c := &cobra.Command{
		Use:   "history (--key KEY | --workload KIND/NAMESPACE/NAME | --member KIND/NAMESPACE/NAME)",
		Short: "List what was stated of a key, a baseline or a member, and by whom",
		Long: `List the events of one routing key, of one baseline (of every member that ever
stood for it) or of one member (a ForkedWorkload, SignadotExternalWorkload or
VirtualWorkload), oldest first, and who caused each.`,
		Example: `  switchyard history --key k7q2m9x4v1tz8
  switchyard history --workload deployment/shop/customer --limit 10
  switchyard history --member forkedworkload/shop/new-customer-customer`,
		Args: cobra.NoArgs,
	}
	f := c.Flags()
	f.StringVar(&req.RoutingKey, "key", "", "the routing key")
	f.StringVar(&workload, "workload", "", "the baseline, `KIND/NAMESPACE/NAME`")
	f.StringVar(&member, "member", "", "the member, `KIND/NAMESPACE/NAME`")
	f.Int32Var(&req.Limit, "limit", 0, "the newest so many; 100")
	c.MarkFlagsOneRequired("key", "workload", "member")
	c.MarkFlagsMutuallyExclusive("key", "workload", "member")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if workload != "" {
			w, ok := baseline(workload)
			if !ok {
				return usage("--workload is KIND/NAMESPACE/NAME, for example deployment/shop/customer, not %q", workload)
			}
			req.Baseline = w
		}
		if member != "" {
			kind, namespace, name, ok := object(member, memberKind)
			if !ok {
				return usage("--member is KIND/NAMESPACE/NAME, for example forkedworkload/shop/customer, not %q", member)
			}
			req.Member = &routingv1.Member{Kind: kind, Namespace: namespace, Name: name}
		}
		return a.history(c.Context(), req)
	}
	return c
}

func (a *app) history(ctx context.Context, req *routingv1.HistoryRequest) error {
	client, err := a.connect(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, a.flags.patience)
	defer cancel()
	got, err := client.History(ctx, req)
	if err != nil {
		return err
	}
	if err := print(a, got, a.historyText); err != nil {
		return err
	}
	if len(got.GetEvents()) == 0 {
		return errNo
	}
	return nil
}

func (a *app) historyText(h *routingv1.HistoryResponse) string {
	floor := beginning(h.GetFloor()) + "\n"
	if len(h.GetEvents()) == 0 {
		return "nothing was stated of it, as far as the log is kept; " + floor
	}
	return a.eventRows(h.GetEvents()) + "\n" + many(len(h.GetEvents()), "event") + "; " + floor
}

func (a *app) eventRows(events []*routingv1.Event) string {
	rows := grid{{"SEQUENCE", "RECORDED", "AGE", "WHAT", "BY"}}
	for _, e := range events {
		rows = append(rows, []string{
			fmt.Sprint(e.GetPosition().GetSequence()), a.clock(e.GetRecorded()), a.age(e.GetRecorded()), statement(e.GetStatement()), causeName(e.GetCause()),
		})
	}
	return rows.String()
}
