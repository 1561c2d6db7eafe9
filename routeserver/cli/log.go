package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"switchyard.dev/eventbus/archive"
	"switchyard.dev/eventbus/event"
	routingv1 "switchyard.dev/protos/gen/routing/v1"
)

func (a *app) logCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "log",
		Short: "Keep the log in a file; say what the log keeps",
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(&cobra.Command{
		Use:   "export FILE",
		Short: "Write the whole log to a file",
		Long: `Write every event that the log keeps to a file: a line of CloudEvents JSON for
each, compressed when the name ends in .gz. The same log gives the same lines. The
file is what --archive, replay, bisect and audit verify read.`,
		Example: `  switchyard log export before-the-release.jsonl.gz`,
		Args:    cobra.ExactArgs(1),
		RunE:    func(c *cobra.Command, args []string) error { return a.export(c.Context(), args[0]) },
	}, &cobra.Command{
		Use:   "kept",
		Short: "Say how far back versions go, and how large the log is",
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return a.kept(c.Context()) },
	})
	return c
}

func (a *app) kept(ctx context.Context) error {
	client, err := a.connect(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, a.flags.patience)
	defer cancel()
	got, err := client.Kept(ctx, &routingv1.KeptRequest{})
	if err != nil {
		return err
	}
	return print(a, got, a.keptText)
}

func (a *app) keptText(k *routingv1.KeptResponse) string {
	rows := grid{
		{"oldest version", a.versionLine(k.GetOldest())},
		{"newest version", a.versionLine(k.GetNewest())},
		{"first event", place(k.GetFloor())},
	}
	if k.GetBytes() > 0 {
		size := fmt.Sprintf("%d bytes", k.GetBytes())
		if k.GetMaxBytes() > 0 {
			size += fmt.Sprintf(" of at most %d", k.GetMaxBytes())
		}
		rows = append(rows, []string{"size", size})
	}
	return rows.String()
}

func (a *app) export(ctx context.Context, path string) error {
	h, next, err := a.live(ctx)
	if err != nil {
		return err
	}
	w, err := archive.Create(path, h)
	if err != nil {
		return err
	}
	for {
		s, err := next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = w.Write(s)
		}
		if err != nil {
			return errors.Join(err, w.Close())
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	fmt.Fprintf(a.Err, "%s: %s, %d to %d of epoch %s\n", path, many(int(h.Len()), "event"), h.Floor, h.Tip, h.Epoch)
	return nil
}

// attempts is how often the log is opened anew when it forgets its beginning at
// that very moment.
const attempts = 3

// live returns what a log keeps that is served, event by event.
func (a *app) live(ctx context.Context) (archive.Header, func() (event.Stored, error), error) {
	client, err := a.connect(ctx)
	if err != nil {
		return archive.Header{}, nil, err
	}
	for n := 1; ; n++ {
		kept, err := a.keptNow(ctx, client)
		if err != nil {
			return archive.Header{}, nil, err
		}
		h := archive.Header{Epoch: kept.GetFloor().GetEpoch(), Floor: kept.GetFloor().GetSequence(), Tip: kept.GetNewest().GetPosition().GetSequence()}
		stream, err := client.ReadLog(ctx, &routingv1.ReadLogRequest{})
		if err != nil {
			return archive.Header{}, nil, err
		}
		r := &logReader{stream: stream, tip: h.TipPos()}
		if err := r.fill(); err != nil && !errors.Is(err, io.EOF) {
			return archive.Header{}, nil, err
		}
		if n == attempts || len(r.events) > 0 && r.events[0].Pos == (event.Pos{Epoch: h.Epoch, Seq: h.Floor}) {
			return h, r.next, nil
		}
	}
}

func (a *app) keptNow(ctx context.Context, client routingv1.RoutingClient) (*routingv1.KeptResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, a.flags.patience)
	defer cancel()
	return client.Kept(ctx, &routingv1.KeptRequest{})
}

// logReader reads a ReadLog stream up to a place.
type logReader struct {
	stream interface {
		Recv() (*routingv1.ReadLogResponse, error)
	}
	tip    event.Pos
	events []event.Stored
	done   bool
}

func (r *logReader) next() (event.Stored, error) {
	for len(r.events) == 0 {
		if r.done {
			return event.Stored{}, io.EOF
		}
		if err := r.fill(); err != nil {
			return event.Stored{}, err
		}
	}
	s := r.events[0]
	r.events, r.done = r.events[1:], r.done || s.Pos == r.tip
	if s.Pos == r.tip {
		r.events = nil // what was recorded since it was asked how far the log goes
	}
	return s, nil
}

// fill takes the next message.
func (r *logReader) fill() error {
	m, err := r.stream.Recv()
	if err != nil {
		return err
	}
	for _, e := range m.GetEvents() {
		r.events = append(r.events, event.Stored{
			Pos:     event.Pos{Epoch: e.GetPosition().GetEpoch(), Seq: e.GetPosition().GetSequence()},
			Message: event.Message{Subject: e.GetSubject(), Header: e.GetHeader(), Data: e.GetData()},
		})
	}
	return nil
}
