// Package routing contains the commands for current, past and hypothetical routes.
package routing

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"switchyard.dev/eventbus/wake"
	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/switchyard/command/parse"
	"switchyard.dev/tools/switchyard/show"
)

// Between two attempts to go on with a watch.
const (
	againFirst = 200 * time.Millisecond
	againLast  = 5 * time.Second
)

// Watch returns the command that shows decisions as they change.
func Watch(s *command.Session) *cobra.Command {
	var behind string
	var once bool
	c := &cobra.Command{
		Use:   "watch",
		Short: "Show decisions as they change",
		Long: `Show the current decisions, and then each change. With --behind it starts with the
changes since that position. After a lost connection it resumes at its position; with
-o json each line is one message, and its version is the position to resume from.`,
		Example: `  switchyard watch --key k7q2m9x4v1tz8
  switchyard watch --behind 4y2kq7m9x1v3tz8b/120 --once -o json`,
		Args: cobra.NoArgs,
	}
	filter := parse.Filter(c)
	c.Flags().StringVar(&behind, "behind", "", "start after this `position` (default: with all current decisions)")
	c.Flags().BoolVar(&once, "once", false, "exit when the newest version is reached")
	c.RunE = func(c *cobra.Command, _ []string) (err error) {
		req := &routingv1.WatchRequest{}
		if req.Filter, err = filter(); err != nil {
			return err
		}
		if req.Behind, err = parse.Position("behind", behind); err != nil {
			return err
		}
		client, err := s.Connect(c.Context())
		if err != nil {
			return err
		}
		return watch(c.Context(), s, client, req, once)
	}
	return c
}

// watch follows changes, and resumes at its position when the stream ends.
func watch(ctx context.Context, s *command.Session, client routingv1.RoutingClient, req *routingv1.WatchRequest, once bool) error {
	pause := againFirst
	for told := false; ; {
		err := watchStream(ctx, s, client, req, once, func() { told, pause = true, againFirst })
		switch {
		case err == nil || ctx.Err() != nil:
			return nil // it was interrupted, which is how a watch ends
		case !told || !again(err):
			return err
		}
		fmt.Fprintf(s.Err, "%s: the watch was interrupted and resumes: %s\n", s.Name, show.Plain(exit.Text(err, s.Name)))
		if exit.Of(err) == exit.Gone {
			req.Behind = nil // the log has begun again: so does the watch
		}
		if !wake.Sleep(ctx, pause) {
			return nil
		}
		pause = min(2*pause, againLast)
	}
}

// again reports whether a stream that ended so is to be opened again.
func again(err error) bool {
	if code := exit.Of(err); errors.Is(err, io.EOF) || code == exit.Unavailable || code == exit.Gone {
		return true
	}
	code := status.Code(err)
	return code == codes.Internal || code == codes.Unknown
}

// watchStream prints the changes of one stream, and advances the request's position.
func watchStream(ctx context.Context, s *command.Session, client routingv1.RoutingClient, req *routingv1.WatchRequest, once bool, told func()) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := client.Watch(ctx, req)
	if err != nil {
		return err
	}
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		told()
		if err := show.Part(s.Show, m, s.Show.Watch); err != nil {
			return err
		}
		if m.GetVersion() != nil {
			req.Behind = m.GetVersion().GetPosition()
			if once {
				return nil
			}
		}
	}
}

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
