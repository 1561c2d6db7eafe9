package api

import (
	"context"

	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/routeserver/api/failure"
	"switchyard.dev/routeserver/api/messages"
	"switchyard.dev/routeserver/table"
)

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
