package routing

import (
	"context"
	"fmt"

	"switchyard.dev/eventbus/event"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/routeserver/api/failure"
	"switchyard.dev/routeserver/api/messages"
	"switchyard.dev/tools/switchyard/command"
)

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
