package api

import (
	"context"
	"iter"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"switchyard.dev/eventbus/event"
	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/routeserver/api/failure"
	"switchyard.dev/routeserver/api/messages"
	"switchyard.dev/routeserver/table"
)

// Bounds of one message of a watch: more changes go out as several messages.
const (
	watchChanges = 1000
	watchBytes   = 1 << 20
)

// Watch implements routingv1.RoutingServer.
//
// It keeps the table that it last sent to its client; when there is a newer one it sends the
// difference. A slow client does not receive the versions in between. While nothing changes, the
// client receives the newest position every Config.WatchNews, so that the position to resume from
// does not expire.
func (s *Server) Watch(req *routingv1.WatchRequest, stream grpc.ServerStreamingServer[routingv1.WatchResponse]) error {
	w := &watcher{Server: s, filter: messages.Filter(req.GetFilter())}
	return s.paced(stream.Context(), func(ctx context.Context, p *pace) (err error) {
		if req.GetBehind() != nil {
			if w.sent, err = s.tableBehind(ctx, req.GetBehind()); err != nil {
				return err
			}
		}
		return w.run(ctx, func(m *routingv1.WatchResponse) error {
			return p.send(func() error { return stream.Send(m) })
		})
	})
}

// tableBehind returns the table of a client that has received everything up to a position, once the
// newest table has reached it too. The start of a watch has the timeout of a unary call.
func (s *Server) tableBehind(ctx context.Context, p *routingv1.Position) (table.Table, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.CallWithin)
	defer cancel()
	behind, err := s.versions.Position("behind", p)
	if err != nil {
		return table.Table{}, err
	}
	t, err := s.versions.Table(ctx, behind)
	if err == nil {
		_, err = s.versions.Reach(ctx, behind)
	}
	return t, s.versions.Failed(ctx, err)
}

// watcher is one watch.
type watcher struct {
	*Server
	filter table.Filter
	// sent is the table that the client has; one without an epoch at first.
	sent table.Table
	// at is the position that was last sent to the client; it is older than that of sent if the filter
	// hides later changes.
	at event.Pos
}

func (w *watcher) run(ctx context.Context, send func(*routingv1.WatchResponse) error) error {
	news := time.NewTicker(w.cfg.WatchNews)
	defer news.Stop()
	for first, idle := true, false; ; first = false {
		t, newer := w.versions.Tables.Current()
		if !t.Whole() {
			return failure.NotWhole()
		}
		for m := range w.next(t, first, idle) {
			if err := send(m); err != nil {
				return err
			}
			w.at = t.Pos()
		}
		w.sent, idle = t, false
		select {
		case <-newer:
		case <-news.C:
			idle = true
		case <-ctx.Done():
			return w.versions.Failed(ctx, ctx.Err())
		}
	}
}

// next returns the messages that bring the client from the table it knows to t.
// There are none when it knows all that passes its filter, unless this is the
// first time, or idle is set and the position has moved.
func (w *watcher) next(t table.Table, first, idle bool) iter.Seq[*routingv1.WatchResponse] {
	known := w.sent
	reset := known.Pos().Epoch != t.Pos().Epoch
	if reset {
		known = table.Table{}
	}
	changes := w.filter.Diff(known, t)
	moved := idle && t.Pos() != w.at
	return func(yield func(*routingv1.WatchResponse) bool) {
		if len(changes) == 0 && !first && !reset && !moved {
			return
		}
		m, size := &routingv1.WatchResponse{Reset_: reset}, 0
		for _, c := range changes {
			change := messages.Change(c)
			if size += proto.Size(change); len(m.GetChanges()) == watchChanges || size > watchBytes && len(m.GetChanges()) > 0 {
				if !yield(m) {
					return
				}
				m, size = &routingv1.WatchResponse{}, proto.Size(change)
			}
			m.Changes = append(m.Changes, change)
		}
		m.Synced, m.Version = first, w.versions.Version(t)
		yield(m)
	}
}
