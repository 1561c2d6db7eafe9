package api

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/lists"
	routesv1 "switchyard.dev/protos/gen/routes"
	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/routeserver/api/failure"
	"switchyard.dev/routeserver/api/messages"
	"switchyard.dev/routeserver/explain"
	"switchyard.dev/routeserver/table"
)

// Keys returns the routing key of a request and the name of the header that contains it; "" and ""
// when the request has none. The function lines returns the values of all header lines with a name,
// in order; custom are the custom headers that carry keys, from the table. It is the implementation
// that the sidecars use: xds/routingkey documents how the key of a request is determined.
type Keys func(lines func(name string) []string, custom []string) (key, header string)

// Services lists the Services of the cluster.
type Services interface {
	// List returns every Service that can be addressed.
	List(ctx context.Context) ([]*routesv1.ClusterService, error)
}

// Explain implements routingv1.RoutingServer. While there is no whole table, that
// is the answer.
func (s *Server) Explain(ctx context.Context, req *routingv1.ExplainRequest) (*routingv1.ExplainResponse, error) {
	if err := s.explainable(req); err != nil {
		return nil, err
	}
	if newest, _ := s.versions.Tables.Current(); !newest.Whole() && req.GetAt().GetVersion() == nil {
		return s.explained(explain.Evidence{}, "", nil), nil
	}
	t, version, err := s.versions.At(ctx, "at", req.GetAt())
	if err != nil {
		return nil, err
	}
	e, from, err := s.evidence(ctx, req, t)
	if tip, lost := s.versions.Log.Tip(ctx); lost == nil && tip.Epoch != t.Pos().Epoch {
		// What there was to read is of the new epoch, or nothing.
		return nil, failure.Again(failure.New(codes.Unavailable, failure.ReasonNotWhole,
			"the routing log has been restarted; until it is filled, the old routes stay and cannot be explained: try again"), time.Second)
	}
	if err != nil {
		return nil, s.versions.Failed(ctx, err)
	}
	out := s.explained(e, from, version)
	if e.Pod != "" {
		return out, nil
	}
	for _, t := range explain.Others(e) {
		e.Targets = []explain.Target{t}
		s.acknowledged(ctx, req, &e)
		out.Others = append(out.Others, s.explained(e, from, nil))
	}
	return out, nil
}

// explainable returns an error that describes the first invalid field of a request, or nil.
func (s *Server) explainable(req *routingv1.ExplainRequest) error {
	w := req.GetBaseline()
	switch {
	case req.GetDestination() == "" && w == nil:
		return failure.Invalid("destination", "say what the request is for: a destination, or a baseline")
	case w != nil && !messages.Named(w):
		return failure.Invalid("baseline", "name one workload by kind, namespace and name")
	case w == nil && req.GetWorkloadPort() != 0:
		return failure.Invalid("workload_port", "it goes with a baseline; a destination has its own port")
	case req.GetWorkloadPort() > 65535:
		return failure.Invalid("workload_port", "%d is not a port", req.GetWorkloadPort())
	case req.GetRoutingKey() != "" && len(req.GetHeaders()) > 0:
		return failure.Invalid("routing_key", "give the headers of the request or its routing key, not both")
	case len(req.GetHeaders()) > 0 && s.cfg.Keys == nil:
		return failure.Invalid("headers", "this route server does not read headers: give the routing key")
	case req.GetPod() != "" && strings.Count(req.GetPod(), "/") != 1:
		return failure.Invalid("pod", "write namespace/name")
	}
	return nil
}

// evidence gathers what decides a request at a version, and where its key was
// taken from.
func (s *Server) evidence(ctx context.Context, req *routingv1.ExplainRequest, t table.Table) (e explain.Evidence, from string, err error) {
	e.Table, e.Key, e.Pod = t, req.GetRoutingKey(), req.GetPod()
	if e.Key == "" {
		e.Key, from, e.WhyNoKey = s.keyIn(req.GetHeaders(), t)
	}
	if err := s.targets(ctx, req, &e); err != nil {
		return e, "", err
	}
	if e.Key != "" {
		if err := s.histories(ctx, &e); err != nil {
			return e, "", err
		}
	}
	s.acknowledged(ctx, req, &e)
	return e, from, nil
}

func asksForNewest(at *routingv1.At) bool {
	return at.GetPosition() == nil && at.GetTime() == nil
}

// keyIn returns the routing key in headers, as sidecars with the routes of a table determine it, or
// the reason why there is none.
func (s *Server) keyIn(lines []*routingv1.Header, t table.Table) (key, from, why string) {
	headers := lists.Map(lines, func(h *routingv1.Header) explain.Header {
		return explain.Header{Name: h.GetName(), Value: h.GetValue()}
	})
	if s.cfg.Keys != nil {
		key, from = s.cfg.Keys(func(name string) []string { return explain.Lines(headers, name) }, t.KeyHeaders())
	}
	if key == "" {
		return "", "", explain.WhyNoKey(headers)
	}
	return key, from, ""
}

// targets finds what the request is for.
func (s *Server) targets(ctx context.Context, req *routingv1.ExplainRequest, e *explain.Evidence) error {
	if w := req.GetBaseline(); w != nil {
		e.Targets = []explain.Target{{Baseline: table.WorkloadOf(w), WorkloadPort: req.GetWorkloadPort()}}
		return nil
	}
	d, err := explain.ParseDestination(req.GetDestination())
	if err != nil {
		e.WhyNoTarget = err.Error()
		return nil
	}
	if d.Address.IsValid() {
		if d, e.WhyNoTarget = s.serviceAt(ctx, d); e.WhyNoTarget != "" {
			return nil
		}
	}
	if err := s.versions.History.Reached(ctx, e.Table.Pos()); err != nil {
		return err
	}
	e.Targets, e.WhyNoTarget = explain.Resolve(d, s.versions.History.Places(d, e.Table.Pos()))
	return nil
}

// serviceAt returns the Service with an address, or the reason why none was found.
func (s *Server) serviceAt(ctx context.Context, d explain.Destination) (of explain.Destination, why string) {
	if s.cfg.Services == nil {
		return d, "this route server does not know the Services of the cluster; name the Service instead of its address"
	}
	all, err := s.cfg.Services.List(ctx)
	if err != nil {
		return d, fmt.Sprintf("the Services of the cluster are not known at the moment: %v", err)
	}
	i := slices.IndexFunc(all, func(c *routesv1.ClusterService) bool { return c.GetServiceIp() == d.Address.String() })
	if i < 0 {
		return d, fmt.Sprintf("no Service has the address %s", d.Address)
	}
	of, err = explain.ParseDestination(all[i].GetHostname())
	if err != nil {
		return d, err.Error()
	}
	of.Port = d.Port
	return of, ""
}

// histories gathers the events of the key and of the members it named.
func (s *Server) histories(ctx context.Context, e *explain.Evidence) (err error) {
	at := e.Table.Pos()
	if e.OfKey, err = s.versions.History.Of(ctx, event.RoutingKey(e.Key), at); err != nil {
		return err
	}
	e.OfMember = map[event.Key][]event.Recorded{}
	for _, member := range explain.Members(e.OfKey) {
		if e.OfMember[member], err = s.versions.History.Of(ctx, member, at); err != nil {
			return err
		}
	}
	if len(e.OfKey) == 0 {
		e.KeptSince, err = s.keptSince(ctx)
	}
	return err
}

// keptSince returns since when the log is kept; the zero time when it is kept from
// its beginning.
func (s *Server) keptSince(ctx context.Context) (time.Time, error) {
	kept, err := s.versions.Log.Kept(ctx)
	if err != nil || kept.Floor.Seq <= 1 {
		return time.Time{}, err
	}
	if err := s.versions.History.Reached(ctx, kept.Floor); err != nil {
		return time.Time{}, err
	}
	since, known := s.versions.History.RecordedAt(kept.Floor)
	if !known {
		return time.Time{}, fmt.Errorf("the log has forgotten event %d just now", kept.Floor.Seq)
	}
	return since, nil
}

// acknowledged adds what the sidecars of the baseline have acknowledged, and which route servers
// did not respond: unless the one requested pod was found, the state of their sidecars is unknown.
// Only the newest table can be compared with sidecars.
func (s *Server) acknowledged(ctx context.Context, req *routingv1.ExplainRequest, e *explain.Evidence) {
	e.Sidecars, e.Silent, e.SidecarsKnown = nil, nil, false
	newest, _ := s.versions.Tables.Current()
	if len(e.Targets) == 0 || !asksForNewest(req.GetAt()) || newest.Pos().Epoch != e.Table.Pos().Epoch {
		return
	}
	sidecars, silent, known := s.receipts.Of(ctx, explain.Preferred(*e).Baseline)
	if !known {
		return
	}
	e.Sidecars = append(e.Sidecars, lists.Filter(sidecars, func(c *routingv1.Sidecar) bool {
		return e.Pod == "" || e.Pod == c.GetNamespace()+"/"+c.GetPod()
	})...)
	if e.Pod == "" || len(e.Sidecars) == 0 {
		e.Silent = silent
	}
	e.SidecarsKnown = len(silent) == 0 || len(e.Sidecars) > 0
}

// explained converts the result to a response.
func (s *Server) explained(e explain.Evidence, keyFrom string, version *routingv1.Version) *routingv1.ExplainResponse {
	a := explain.Explain(e)
	out := &routingv1.ExplainResponse{
		Version: version, Verdict: a.Verdict, Summary: a.Summary, Hint: a.Hint,
		RoutingKey: e.Key, KeyFrom: keyFrom, Rule: messages.Rule(a.Rule),
		Because: messages.Events(a.Because), Lagging: a.Lagging, KeyHeaders: e.Table.KeyHeaders(),
	}
	if a.Target.Baseline != (table.Workload{}) {
		out.Baseline, out.WorkloadPort = messages.Workload(a.Target.Baseline), a.Target.WorkloadPort
	}
	if a.Conflict != nil && (a.Verdict == routingv1.Verdict_LOST || a.Verdict == routingv1.Verdict_NO_SIDECAR) {
		conflict := messages.Conflict(*a.Conflict)
		out.Holder, out.HolderSandbox = conflict.GetHolder(), conflict.GetHolderSandbox()
	}
	return out
}

// Lookup implements routingv1.RoutingServer.
func (s *Server) Lookup(ctx context.Context, req *routingv1.LookupRequest) (*routingv1.LookupResponse, error) {
	w := req.GetBaseline()
	for field, value := range map[string]string{
		"baseline.kind": w.GetKind(), "baseline.namespace": w.GetNamespace(), "baseline.name": w.GetName(),
	} {
		if value == "" {
			return nil, failure.Invalid(field, "name one workload by kind, namespace and name")
		}
	}
	if req.GetRoutingKey() == "" {
		return nil, failure.Invalid("routing_key", "give the routing key; requests without one belong to the baseline")
	}
	t, version, err := s.versions.At(ctx, "at", req.GetAt())
	if err != nil {
		return nil, err
	}
	rule, _ := t.Lookup(table.WorkloadOf(w), req.GetRoutingKey())
	return &routingv1.LookupResponse{Version: version, Rule: messages.Rule(rule)}, nil
}
