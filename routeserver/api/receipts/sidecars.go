package receipts

import (
	"cmp"
	"context"
	"slices"

	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/routeserver/api/failure"
	"switchyard.dev/routeserver/api/messages"
	"switchyard.dev/routeserver/table"
)

// Sidecars answers the call of that name.
func (r *Receipts) Sidecars(ctx context.Context, req *routingv1.SidecarsRequest) (*routingv1.SidecarsResponse, error) {
	passes, err := r.baselinesWith(messages.Filter(req.GetFilter()))
	if err != nil {
		return nil, err
	}
	peers := r.peers
	if req.GetLocal() {
		peers = nil
	}
	sidecars, silent := r.sidecars(ctx, peers, req.GetFilter(), passes)
	return &routingv1.SidecarsResponse{Sidecars: sidecars, Silent: silent}, nil
}

// Of returns the sidecars of a baseline, sorted by pod, and the route servers that did not respond;
// false when no sidecars can be known.
func (r *Receipts) Of(ctx context.Context, baseline table.Workload) (all []*routingv1.Sidecar, silent []string, known bool) {
	ask := &routingv1.Filter{Kind: baseline.Kind, Namespace: baseline.Namespace, Name: baseline.Name}
	all, silent = r.sidecars(ctx, r.peers, ask, func(w table.Workload) bool { return w == baseline })
	return all, silent, r.connected != nil || r.peers != nil
}

// baselinesWith returns which baselines a filter means: with a routing key or a
// sandbox, those that have such a rule now.
func (r *Receipts) baselinesWith(f table.Filter) (func(table.Workload) bool, error) {
	if f.RoutingKey == "" && f.Sandbox == "" {
		return f.Baseline, nil
	}
	t, _ := r.versions.Tables.Current()
	if !t.Whole() {
		return nil, failure.NotWhole()
	}
	with := map[table.Workload]bool{}
	for rule := range t.All() {
		if f.Rule(rule) {
			with[rule.Baseline] = true
		}
	}
	return func(w table.Workload) bool { return with[w] }, nil
}

// sidecars returns those of the baselines that pass, sorted by pod: those connected here and,
// unless peers is nil, those that the other route servers return for this filter.
func (r *Receipts) sidecars(ctx context.Context, peers Peers, ask *routingv1.Filter, passes func(table.Workload) bool) (all []*routingv1.Sidecar, silent []string) {
	if peers != nil {
		var theirs []*routingv1.Sidecar
		theirs, silent = peers.Sidecars(ctx, ask)
		for _, c := range theirs {
			// One that goes by our name is this route server, asked by another address.
			if c.GetRouteServer() != r.name && passes(table.WorkloadOf(c.GetBaseline())) {
				all = append(all, c)
			}
		}
	}
	slices.Sort(silent)
	return r.withOwn(ctx, all, passes), silent
}

// withOwn adds the sidecars of the baselines that pass and are connected here to others, and
// returns one for each pod, sorted.
func (r *Receipts) withOwn(ctx context.Context, all []*routingv1.Sidecar, passes func(table.Workload) bool) []*routingv1.Sidecar {
	if r.connected != nil {
		for _, c := range r.own(ctx) {
			if passes(c.Baseline) {
				all = append(all, r.sidecarOf(c))
			}
		}
	}
	return onePerPod(all)
}

// onePerPod sorts sidecars by pod and keeps one of each. A sidecar that reconnects leaves its
// broken stream behind for some seconds, here or at another route server; the entry with the newest
// position is current.
func onePerPod(all []*routingv1.Sidecar) []*routingv1.Sidecar {
	samePod := func(a, b *routingv1.Sidecar) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetPod(), b.GetPod()))
	}
	current := func(c *routingv1.Sidecar) int {
		if c.GetCurrent() {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(all, func(a, b *routingv1.Sidecar) int {
		return cmp.Or(
			samePod(a, b),
			-cmp.Compare(a.GetReached().GetSequence(), b.GetReached().GetSequence()),
			-cmp.Compare(current(a), current(b)),
			cmp.Compare(a.GetRouteServer(), b.GetRouteServer()),
		)
	})
	return slices.CompactFunc(all, func(a, b *routingv1.Sidecar) bool { return samePod(a, b) == 0 })
}

func (r *Receipts) sidecarOf(c Sidecar) *routingv1.Sidecar {
	return &routingv1.Sidecar{
		Namespace: c.Namespace, Pod: c.Pod, Baseline: messages.Workload(c.Baseline),
		Acknowledged: c.Acknowledged, Due: c.Due, Current: c.Due != "" && c.Acknowledged == c.Due,
		Rejected: c.Rejected, RouteServer: r.name, Reached: messages.Position(c.Reached),
	}
}
