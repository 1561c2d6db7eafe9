package api

import (
	"cmp"
	"context"
	"slices"

	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/routeserver/table"
)

// Sidecars implements routingv1.RoutingServer.
func (s *Server) Sidecars(ctx context.Context, req *routingv1.SidecarsRequest) (*routingv1.SidecarsResponse, error) {
	passes, err := s.baselinesWith(filterOf(req.GetFilter()))
	if err != nil {
		return nil, err
	}
	var peers Peers
	if !req.GetLocal() {
		peers = s.cfg.Peers
	}
	sidecars, silent := s.sidecars(ctx, peers, req.GetFilter(), passes)
	return &routingv1.SidecarsResponse{Sidecars: sidecars, Silent: silent}, nil
}

// baselinesWith returns which baselines a filter means: with a routing key or a
// sandbox, those that have such a rule now.
func (s *Server) baselinesWith(f filter) (func(table.Workload) bool, error) {
	if f.routingKey == "" && f.sandbox == "" {
		return f.baseline, nil
	}
	t, _ := s.cfg.Tables.Current()
	if !t.Whole() {
		return nil, notWhole()
	}
	with := map[table.Workload]bool{}
	for r := range t.All() {
		if f.rule(r) {
			with[r.Baseline] = true
		}
	}
	return func(w table.Workload) bool { return with[w] }, nil
}

// sidecars returns those of the baselines that pass, sorted by pod: those connected
// here and, unless peers is nil, those that the other route servers tell of when
// asked with this filter.
func (s *Server) sidecars(ctx context.Context, peers Peers, ask *routingv1.Filter, passes func(table.Workload) bool) (all []*routingv1.Sidecar, silent []string) {
	if peers != nil {
		var theirs []*routingv1.Sidecar
		theirs, silent = peers.Sidecars(ctx, ask)
		for _, c := range theirs {
			// One that goes by our name is this route server, asked by another address.
			if c.GetRouteServer() != s.cfg.Name && passes(tableWorkload(c.GetBaseline())) {
				all = append(all, c)
			}
		}
	}
	slices.Sort(silent)
	return s.withOwn(ctx, all, passes), silent
}

// withOwn adds the sidecars of the baselines that pass and are connected here to
// others, and gives one for each pod, sorted.
func (s *Server) withOwn(ctx context.Context, all []*routingv1.Sidecar, passes func(table.Workload) bool) []*routingv1.Sidecar {
	if s.cfg.Sidecars != nil {
		for _, c := range s.own(ctx) {
			if passes(c.Baseline) {
				all = append(all, s.sidecarOf(c))
			}
		}
	}
	return onePerPod(all)
}

// onePerPod sorts sidecars by pod. A sidecar that comes back leaves its broken
// stream behind for some seconds, here or at another route server; what it has
// acknowledged is what it said last, on whichever: the entry that has got farthest.
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

func (s *Server) sidecarOf(c Sidecar) *routingv1.Sidecar {
	return &routingv1.Sidecar{
		Namespace: c.Namespace, Pod: c.Pod, Baseline: workloadOf(c.Baseline),
		Acknowledged: c.Acknowledged, Due: c.Due, Current: c.Due != "" && c.Acknowledged == c.Due,
		Rejected: c.Rejected, RouteServer: s.cfg.Name, Reached: positionOf(c.Reached),
	}
}
