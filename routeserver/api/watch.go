package api

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"iter"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/lists"
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

// The sizes of a page.
const (
	ordinaryPage = 1_000
	largestPage  = 10_000
)

// GetTable implements routingv1.RoutingServer.
func (s *Server) GetTable(ctx context.Context, req *routingv1.GetTableRequest) (*routingv1.GetTableResponse, error) {
	size := int(req.GetPageSize())
	if size < 0 || size > largestPage {
		return nil, failure.Invalid("page_size", "%d is not between 0 and %d", size, largestPage)
	}
	size = cmp.Or(size, ordinaryPage)
	from, err := pageOf(req)
	if err != nil {
		return nil, err
	}
	at := req.GetAt()
	if from.Pos.Seq > 0 {
		at = messages.At(from.Pos)
	}
	t, version, err := s.versions.At(ctx, "at", at)
	if err != nil {
		return nil, err
	}
	f := messages.Filter(req.GetFilter())
	rules, more := from.rules(t, f, size)
	out := &routingv1.GetTableResponse{Version: version, Rules: make([]*routingv1.Rule, 0, len(rules))}
	out.Rules = append(out.Rules, lists.Map(rules, messages.Rule)...)
	if from.Pos.Seq == 0 {
		out.Conflicts = append(out.Conflicts, lists.Map(lists.Filter(t.Conflicts(), f.Conflict), messages.Conflict)...)
	}
	if more {
		last := rules[len(rules)-1]
		out.NextPageToken = page{Pos: t.Pos(), Baseline: last.Baseline, RoutingKey: last.RoutingKey, Of: askedFor(req)}.token()
		s.versions.History.Remember(t)
	}
	return out, nil
}

// page is where a page begins: behind a rule of a version. The zero page is the
// first one. It travels to the client and back as a token.
type page struct {
	Pos        event.Pos
	Baseline   table.Workload
	RoutingKey string
	// Of identifies the request that the pages belong to: all of its fields but the page.
	Of string
}

func (p page) token() string {
	written, err := json.Marshal(p)
	if err != nil {
		return "" // there is nothing in it that cannot be written
	}
	return base64.RawURLEncoding.EncodeToString(written)
}

func pageOf(req *routingv1.GetTableRequest) (page, error) {
	if req.GetPageToken() == "" {
		return page{}, nil
	}
	var p page
	written, err := base64.RawURLEncoding.DecodeString(req.GetPageToken())
	if err != nil || json.Unmarshal(written, &p) != nil || p.Pos.Epoch == "" || p.Pos.Seq == 0 {
		return page{}, failure.Invalid("page_token", "this is not the next_page_token of an answer")
	}
	if p.Of != askedFor(req) {
		return page{}, failure.Invalid("page_token", "it belongs to another request: at and filter have to stay as they were")
	}
	return p, nil
}

// askedFor returns a digest of the fields that the requests for all pages have in common. An empty
// at or filter is the same as none.
func askedFor(req *routingv1.GetTableRequest) string {
	same := &routingv1.GetTableRequest{}
	if req.GetAt().GetVersion() != nil {
		same.At = req.GetAt()
	}
	if messages.Filter(req.GetFilter()) != (table.Filter{}) {
		same.Filter = req.GetFilter()
	}
	written, err := proto.MarshalOptions{Deterministic: true}.Marshal(same)
	if err != nil {
		return "" // text that is not UTF-8 does not come over the wire
	}
	sum := sha256.Sum256(written)
	return base64.RawURLEncoding.EncodeToString(sum[:8])
}

// rules returns the rules of a page that pass, and whether there are more behind it.
func (p page) rules(t table.Table, f table.Filter, size int) (rules []*table.Rule, more bool) {
	for w := range t.Baselines() {
		order := w.Compare(p.Baseline)
		if order < 0 || !f.Baseline(w) {
			continue
		}
		for r := range t.Of(w) {
			if order == 0 && cmp.Compare(r.RoutingKey, p.RoutingKey) <= 0 || !f.Rule(r) {
				continue
			}
			if len(rules) == size {
				return rules, true
			}
			rules = append(rules, r)
		}
	}
	return rules, false
}
