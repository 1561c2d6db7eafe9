package api

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"

	"google.golang.org/protobuf/proto"

	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/lists"
	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/routeserver/api/failure"
	"switchyard.dev/routeserver/api/messages"
	"switchyard.dev/routeserver/table"
)

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
