package api

import (
	"context"
	"fmt"
	"math"

	"google.golang.org/grpc"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/routeserver/api/failure"
	"switchyard.dev/routeserver/api/messages"
)

// Bounds of one message of ReadLog.
const (
	logEvents = 256
	logBytes  = 256 << 10
)

// ReadLog implements routingv1.RoutingServer. It ends at the tip as of the call, unless the request
// follows. A follower that is at the tip receives a message without events at once: over HTTP there
// is no response, not even a status, before the first message.
func (s *Server) ReadLog(req *routingv1.ReadLogRequest, stream grpc.ServerStreamingServer[routingv1.ReadLogResponse]) error {
	return s.paced(stream.Context(), func(ctx context.Context, p *pace) error {
		kept, err := s.versions.Log.Kept(ctx)
		if err != nil {
			return s.versions.Failed(ctx, err)
		}
		behind, err := beginning(req.GetBehind(), kept)
		if err != nil {
			return err
		}
		send := func(events []*routingv1.StoredEvent) error {
			return p.send(func() error { return stream.Send(&routingv1.ReadLogResponse{Events: events}) })
		}
		upTo := kept.Tip.Seq
		if req.GetFollow() {
			upTo = math.MaxUint64
			if behind.Seq == kept.Tip.Seq {
				if err := send(nil); err != nil {
					return s.versions.Failed(ctx, err)
				}
			}
		}
		return s.versions.Failed(ctx, s.passOn(ctx, behind, upTo, send))
	})
}

// beginning returns the place behind which to read.
func beginning(p *routingv1.Position, kept eventbus.Kept) (event.Pos, error) {
	behind := event.Pos{Epoch: p.GetEpoch(), Seq: p.GetSequence()}
	switch {
	case behind == event.Pos{}:
		return event.Pos{Epoch: kept.Floor.Epoch, Seq: kept.Floor.Seq - 1}, nil
	case behind.Epoch == "":
		behind.Epoch = kept.Tip.Epoch
	case behind.Epoch != kept.Tip.Epoch:
		return behind, failure.Gone(failure.ReasonOtherEpoch, fmt.Sprintf(
			"epoch %s of the routing log has ended, now it is %s: read without a position", behind.Epoch, kept.Tip.Epoch), kept.Floor)
	}
	switch {
	case behind.Seq > kept.Tip.Seq:
		return behind, failure.NotReached(fmt.Sprintf("%d has not been reached: the routing log ends at %d", behind.Seq, kept.Tip.Seq))
	case behind.Seq+1 < kept.Floor.Seq:
		return behind, failure.Gone(failure.ReasonGone, fmt.Sprintf(
			"event %d is no longer kept, the first one is %d: read without a position", behind.Seq+1, kept.Floor.Seq), kept.Floor)
	}
	return behind, nil
}

// passOn sends the events after a position, up to and including a sequence. The log is not read
// while the client is slow to take a message.
func (s *Server) passOn(ctx context.Context, behind event.Pos, upTo uint64, send func([]*routingv1.StoredEvent) error) error {
	for behind.Seq < upTo {
		events, err := s.versions.History.Next(ctx, behind)
		if err != nil {
			return err
		}
		behind = events[len(events)-1].Pos
		for len(events) > 0 && events[0].Pos.Seq <= upTo {
			part := firstOf(events, upTo)
			events = events[len(part):]
			if err := send(part); err != nil {
				return err
			}
		}
	}
	return nil
}

// firstOf returns as many events as one message holds, at least one.
func firstOf(events []event.Stored, upTo uint64) []*routingv1.StoredEvent {
	var out []*routingv1.StoredEvent
	size := 0
	for _, e := range events {
		size += len(e.Message.Subject) + len(e.Message.Data)
		for name, value := range e.Message.Header {
			size += len(name) + len(value)
		}
		if e.Pos.Seq > upTo || len(out) == logEvents || size > logBytes && len(out) > 0 {
			break
		}
		out = append(out, messages.StoredEvent(e))
	}
	return out
}
