package routing

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"switchyard.dev/eventbus/event"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/routeserver/api/failure"
	"switchyard.dev/routeserver/api/messages"
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

// newEpoch is the reason in the first Complete of a log that replaced a lost one (fact.proto).
const newEpoch = "epoch"

// sinceStart requests a difference again, from the start of the log, when it was rejected because
// its first time is older than the log. If history before the start was deleted or lost, the
// rejection stands: the first events of the log are then no changes.
func sinceStart(ctx context.Context, s *command.Session, client routingv1.RoutingClient, req *routingv1.DiffRequest, refused error) (*routingv1.DiffResponse, error) {
	if failure.Reason(refused) != failure.ReasonGone || req.GetFrom().GetTime() == nil {
		return nil, refused
	}
	start, err := startOf(ctx, client)
	if err != nil || start == nil || !req.GetFrom().GetTime().AsTime().Before(start.GetRecorded().AsTime()) {
		return nil, refused
	}
	req.From = &routingv1.At{Version: &routingv1.At_Position{Position: start.GetPosition()}}
	got, err := client.Diff(ctx, req)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(s.Err, "the log begins at %s, later than the moment asked for: this is the difference since then\n", s.Show.Clock(start.GetRecorded()))
	return got, nil
}

// startOf returns the oldest version of a log that has no history before it: its first
// event is still kept, and it did not take the place of another log. Otherwise nil.
func startOf(ctx context.Context, client routingv1.RoutingClient) (*routingv1.Version, error) {
	kept, err := client.Kept(ctx, &routingv1.KeptRequest{})
	if err != nil || kept.GetFloor().GetSequence() != 1 {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	oldest := kept.GetOldest().GetPosition()
	read := &routingv1.ReadLogRequest{}
	if seq := oldest.GetSequence(); seq > 1 {
		read.Behind = &routingv1.Position{Epoch: oldest.GetEpoch(), Sequence: seq - 1}
	}
	stream, err := client.ReadLog(ctx, read)
	if err != nil {
		return nil, err
	}
	m, err := stream.Recv()
	if err != nil || len(m.GetEvents()) == 0 {
		return nil, err
	}
	complete, err := event.Open(messages.Stored(m.GetEvents()[0]))
	if err != nil {
		return nil, err
	}
	if c, ok := complete.Fact.Data.(*factv1.Complete); !ok || c.GetReason() == newEpoch {
		return nil, nil
	}
	return kept.GetOldest(), nil
}
