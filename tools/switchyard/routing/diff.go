package routing

import (
	"context"

	"github.com/spf13/cobra"

	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/switchyard/command/parse"
	"switchyard.dev/tools/switchyard/show"
)

// Diff returns the command that shows what differs between two versions.
func Diff(s *command.Session) *cobra.Command {
	var differs bool
	c := &cobra.Command{
		Use:   "diff FROM [TO]",
		Short: "Show the decisions that differ between two versions, with their causes",
		Long: `Show which decisions differ between two versions of the table: the baseline, key
and ports, the old and new destination, and the events that caused the change. TO
defaults to the newest version. A FROM before the start of the log means its start.`,
		Example: `  switchyard diff 15m
  switchyard diff 14:03 14:10 --workload deployment/shop/customer
  switchyard diff 4y2kq7m9x1v3tz8b/120 now -o json`,
		Args: cobra.RangeArgs(1, 2),
	}
	filter := parse.Filter(c)
	c.Flags().BoolVar(&differs, "exit-code", false, "exit with 1 when something differs")
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		req := &routingv1.DiffRequest{}
		if req.Filter, err = filter(); err != nil {
			return err
		}
		if req.From, err = parse.At(args[0], s.Now()); err != nil {
			return err
		}
		if len(args) > 1 {
			if req.To, err = parse.At(args[1], s.Now()); err != nil {
				return err
			}
		}
		client, err := s.Connect(c.Context())
		if err != nil {
			return err
		}
		got, err := diff(c.Context(), s, client, req)
		if err != nil {
			return err
		}
		return exit.No.Unless(!differs || len(got.GetChanges()) == 0 && got.GetKeyHeaders() == nil)
	}
	return c
}

// diff shows what differs between two versions.
func diff(ctx context.Context, s *command.Session, client routingv1.RoutingClient, req *routingv1.DiffRequest) (*routingv1.DiffResponse, error) {
	ctx, cancel := s.Patiently(ctx)
	defer cancel()
	got, err := client.Diff(ctx, req)
	if err != nil {
		got, err = sinceStart(ctx, s, client, req, err)
	}
	if err != nil {
		return nil, err
	}
	return got, show.Answer(s.Show, got, s.Show.Diff)
}
