package api

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"slices"

	"google.golang.org/protobuf/proto"

	"switchyard.dev/eventbus/event"
	routingv1 "switchyard.dev/protos/gen/routing/v1"
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
		return nil, invalid("page_size", "%d is not between 0 and %d", size, largestPage)
	}
	if size == 0 {
		size = ordinaryPage
	}
	from, err := pageOf(req)
	if err != nil {
		return nil, err
	}
	at := req.GetAt()
	if from.Pos.Seq > 0 {
		at = &routingv1.At{Version: &routingv1.At_Position{Position: positionOf(from.Pos)}}
	}
	t, version, err := s.tableAt(ctx, "at", at)
	if err != nil {
		return nil, err
	}
	f := filterOf(req.GetFilter())
	rules, more := f.page(t, from, size)
	out := &routingv1.GetTableResponse{Version: version, Rules: make([]*routingv1.Rule, 0, len(rules))}
	for _, r := range rules {
		out.Rules = append(out.Rules, ruleOf(r))
	}
	if from.Pos.Seq == 0 {
		out.Conflicts = f.conflicts(t.Conflicts())
	}
	if more {
		last := rules[len(rules)-1]
		out.NextPageToken = page{Pos: t.Pos(), Baseline: last.Baseline, RoutingKey: last.RoutingKey, Of: askedFor(req)}.token()
		s.cfg.History.Remember(t)
	}
	return out, nil
}

// page is where a page begins: behind a rule of a version. The zero page is the
// first one. It travels to the client and back as a token.
type page struct {
	Pos        event.Pos
	Baseline   table.Workload
	RoutingKey string
	// Of stands for what the pages are of: the rest of the request.
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
		return page{}, invalid("page_token", "this is not the next_page_token of an answer")
	}
	if p.Of != askedFor(req) {
		return page{}, invalid("page_token", "it belongs to another request: at and filter have to stay as they were")
	}
	return p, nil
}

// askedFor stands for what all pages of a table have in common in their requests.
// An at or a filter that says nothing is the same as none.
func askedFor(req *routingv1.GetTableRequest) string {
	same := &routingv1.GetTableRequest{}
	if req.GetAt().GetVersion() != nil {
		same.At = req.GetAt()
	}
	if filterOf(req.GetFilter()) != (filter{}) {
		same.Filter = req.GetFilter()
	}
	written, err := proto.MarshalOptions{Deterministic: true}.Marshal(same)
	if err != nil {
		return "" // text that is not UTF-8 does not come over the wire
	}
	sum := sha256.Sum256(written)
	return base64.RawURLEncoding.EncodeToString(sum[:8])
}

// page returns the rules of a page that pass, and whether there are more behind it.
func (f filter) page(t table.Table, from page, size int) (rules []*table.Rule, more bool) {
	for w := range t.Baselines() {
		order := w.Compare(from.Baseline)
		if order < 0 || !f.baseline(w) {
			continue
		}
		for r := range t.Of(w) {
			if order == 0 && cmp.Compare(r.RoutingKey, from.RoutingKey) <= 0 || !f.rule(r) {
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

// conflicts returns those that pass: as the rule of the holder or as that of the
// loser.
func (f filter) conflicts(all []table.Conflict) []*routingv1.Conflict {
	var out []*routingv1.Conflict
	for _, c := range all {
		if f.baseline(c.Baseline) && (f.routingKey == "" || f.routingKey == c.RoutingKey) &&
			(f.sandbox == "" || slices.Contains([]string{c.HolderSandbox, c.LoserSandbox}, f.sandbox)) {
			out = append(out, conflictOf(c))
		}
	}
	return out
}
