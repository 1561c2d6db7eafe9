// Package inprocess runs a whole route server on a stored log in this process, so that the
// present, the past and a file are answered by the same code.
package inprocess

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/archive"
	"switchyard.dev/eventbus/event"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/routeserver/history/fold"
	"switchyard.dev/routeserver/server"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/switchyard/command/reach"
	"switchyard.dev/xds/routingkey"
)

// Load reads an archive and verifies its integrity. Its error refers to the audit command of
// program.
func Load(path, program string) (*archive.Log, error) {
	r, err := archive.OpenFile(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }() // it was only read
	log, err := archive.Load(r)
	if errors.Is(err, eventbus.ErrDamaged) {
		return nil, fmt.Errorf("%s: %w\na log that differs from the recorded one gives no answers; see: %s audit verify %s", path, err, program, path)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return log, nil
}

// Server is a route server in this process. Make one with Serve.
type Server struct {
	*server.Main
	Client routingv1.RoutingClient
	// Stop ends the server, and waits until it has ended.
	Stop func()
}

// FirstWhole returns the first version of a log of which there is a whole table.
func FirstWhole(log *archive.Log) (uint64, error) {
	h := log.Header()
	for seq := h.Floor; seq <= h.Tip; seq++ {
		s := log.Event(seq)
		if s.Message.Subject != event.Log.Subject() {
			continue
		}
		r, err := event.Open(s)
		if err != nil {
			continue // of a newer kind
		}
		if c, ok := r.Fact.Data.(*factv1.Complete); ok && fold.Counts(c, h.Floor) {
			return seq, nil
		}
	}
	return 0, exit.Gone.Errorf("the log (events %d to %d of epoch %s) ends before every object had been stated in it, so there never was a whole table", h.Floor, h.Tip, h.Epoch)
}

// Until returns a log as it was at a version of which there is a whole table.
func Until(log *archive.Log, seq uint64) (*archive.Log, error) {
	first, err := FirstWhole(log)
	switch h := log.Header(); {
	case err != nil:
		return nil, err
	case seq < first || seq > h.Tip:
		return nil, exit.Gone.Errorf("there is no version %d in this log: it has versions %d to %d of epoch %s", seq, first, h.Tip, h.Epoch)
	}
	return log.Until(seq), nil
}

// Serve runs a route server on a log, on ports of the loopback address, and waits until it
// answers. It gets the token in a file as any other would. The caller stops it.
func Serve(ctx context.Context, log *archive.Log, tokenFile string) (*Server, error) {
	if _, err := FirstWhole(log); err != nil {
		return nil, err
	}
	const free = "127.0.0.1:0"
	main, err := server.New(server.Config{Log: log, Keys: routingkey.Find, GRPCAddress: free, RESTAddress: free, MetricsAddress: free})
	if err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = main.Run(running) // it ends when running is cancelled, or calls fail
	}()
	stop := func() { cancel(); <-ended }
	conn, err := reach.Dial(main.GRPCAddress(), "this program", tokenFile)
	if err != nil {
		stop()
		return nil, err
	}
	s := &Server{Main: main, Client: routingv1.NewRoutingClient(conn), Stop: func() { _ = conn.Close(); stop() }}
	if err := s.settle(ctx); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// longest bounds the time in which the server in this process takes in a log. It
// only ends what would never end: a log of any size is read sooner.
const longest = 15 * time.Minute

// settle waits until the server has taken in the whole log, and knows its past.
func (s *Server) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	for {
		kept, err := s.Client.Kept(ctx, &routingv1.KeptRequest{})
		switch {
		case err == nil && kept.GetNewest().GetRecorded() != nil:
			return nil
		case err != nil && exit.Of(err) != exit.Unavailable:
			return err
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("the route server in this process has not read the log: %w", cmp.Or(err, ctx.Err()))
		}
	}
}
