// Package history has the commands that work on a whole log: one that is served, or one in a file.
package history

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"switchyard.dev/eventbus/archive"
	"switchyard.dev/eventbus/event"
	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/routeserver/api/messages"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/show"
)

// Log returns the commands that save the log to a file and show which range it retains.
func Log(s *command.Session) *cobra.Command {
	return command.Group(&cobra.Command{Use: "log", Short: "Export the log to a file; show how far back it goes"}, &cobra.Command{
		Use:   "export FILE",
		Short: "Write the whole log to a file",
		Long: `Write every retained event of the log to a file: one line of CloudEvents JSON each,
compressed if the name ends in .gz. The same log produces the same lines. --archive,
replay, bisect and audit verify read such a file.`,
		Example: `  switchyard log export before-the-release.jsonl.gz`,
		Args:    cobra.ExactArgs(1),
		RunE:    func(c *cobra.Command, args []string) error { return export(c.Context(), s, args[0]) },
	}, &cobra.Command{
		Use:   "kept",
		Short: "Show how far back versions go, and the size of the log",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			got, err := command.Ask(c.Context(), s, routingv1.RoutingClient.Kept, &routingv1.KeptRequest{})
			if err != nil {
				return err
			}
			return show.Answer(s.Show, got, s.Show.Kept)
		},
	})
}

func export(ctx context.Context, s *command.Session, path string) error {
	h, next, err := served(ctx, s)
	if err != nil {
		return err
	}
	w, err := archive.Create(path, h)
	if err != nil {
		return err
	}
	for {
		e, err := next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = w.Write(e)
		}
		if err != nil {
			return errors.Join(err, w.Close())
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	fmt.Fprintf(s.Err, "%s: %s, %d to %d of epoch %s\n", path, show.Many(int(h.Len()), "event"), h.Floor, h.Tip, h.Epoch)
	return nil
}

// attempts is the number of times the log is reopened when its beginning is deleted during the
// read.
const attempts = 3

// served returns what a log keeps that is served, event by event.
func served(ctx context.Context, s *command.Session) (archive.Header, func() (event.Stored, error), error) {
	client, err := s.Connect(ctx)
	if err != nil {
		return archive.Header{}, nil, err
	}
	for n := 1; ; n++ {
		is, err := kept(ctx, s, client)
		if err != nil {
			return archive.Header{}, nil, err
		}
		h := archive.Header{Epoch: is.GetFloor().GetEpoch(), Floor: is.GetFloor().GetSequence(), Tip: is.GetNewest().GetPosition().GetSequence()}
		stream, err := client.ReadLog(ctx, &routingv1.ReadLogRequest{})
		if err != nil {
			return archive.Header{}, nil, err
		}
		begun, err := stream.Recv()
		if err != nil && !errors.Is(err, io.EOF) {
			return archive.Header{}, nil, err
		}
		first := begun.GetEvents()
		if n == attempts || len(first) > 0 && proto.Equal(first[0].GetPosition(), is.GetFloor()) {
			return h, upTo(h.TipPos(), first, stream.Recv), nil
		}
	}
}

func kept(ctx context.Context, s *command.Session, client routingv1.RoutingClient) (*routingv1.KeptResponse, error) {
	ctx, cancel := s.Patiently(ctx)
	defer cancel()
	return client.Kept(ctx, &routingv1.KeptRequest{})
}

// upTo returns what reads a log event by event, up to a place: first some that have come
// already, then those of a stream.
func upTo(tip event.Pos, rest []*routingv1.StoredEvent, more func() (*routingv1.ReadLogResponse, error)) func() (event.Stored, error) {
	var at event.Pos
	return func() (event.Stored, error) {
		if at == tip {
			return event.Stored{}, io.EOF // later events were recorded after the request
		}
		for len(rest) == 0 {
			m, err := more()
			if err != nil {
				return event.Stored{}, err
			}
			rest = m.GetEvents()
		}
		e := messages.Stored(rest[0])
		at, rest = e.Pos, rest[1:]
		return e, nil
	}
}
