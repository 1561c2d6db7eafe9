package main

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/dryrun"
	"switchyard.dev/reconcilers/meshes/keymatch"
	"switchyard.dev/routeserver/cli/show"
	"switchyard.dev/xds/routingkey"
)

// routedByIstio returns lines about what the VirtualServices of the mesh do with a request that a
// route server has explained, as its IstioRoutes say; none where it has no IstioRoute.
func routedByIstio(ctx context.Context, access *rest.Config, asked *routingv1.ExplainRequest, got *routingv1.ExplainResponse) (string, error) {
	scheme, err := dryrun.Scheme()
	if err != nil {
		return "", err
	}
	reader, err := client.New(access, client.Options{Scheme: scheme})
	if err != nil {
		return "", fmt.Errorf("reach the cluster: %w", err)
	}
	var lines []string
	if err := pages(ctx, reader, "", pageSize, func(l *crdv1.IstioRouteList) {
		for i := range l.Items {
			if r := &l.Items[i]; r.Spec.RoutingKey == got.GetRoutingKey() && of(r, got.GetBaseline()) {
				lines = append(lines, decided(r)...)
			}
		}
	}); err != nil {
		return "", mayNot("istioroutes", "", err)
	}
	if len(lines) == 0 {
		return "", nil
	}
	for _, d := range deviations(asked.GetHeaders(), got.GetKeyFrom()) {
		lines = append(lines, d.Sentence+" (The README of the chart, Where a mesh tells keys otherwise: "+d.Name+".)")
	}
	return show.Plain("Istio is on: the VirtualServices of the mesh decide.") + "\n" + strings.Join(lines, "\n") + "\n", nil
}

// of reports whether an IstioRoute is about a workload.
func of(r *crdv1.IstioRoute, w *routingv1.Workload) bool {
	at := r.Spec.Managed.Baseline.WorkloadRef
	return baseline.RoutedKind(crdv1.ObjectRef{Kind: at.Kind}) == w.GetKind() && at.Namespace == w.GetNamespace() && at.Name == w.GetName()
}

// decided returns what an IstioRoute says of itself, and of each VirtualService.
func decided(r *crdv1.IstioRoute) []string {
	says := "nothing is known of it yet"
	if ready := crdv1.FindCondition(r.Status.Conditions, crdv1.ConditionReady); ready != nil {
		says = fmt.Sprintf("Ready is %s (%s): %s", ready.Status, ready.Reason, ready.Message)
	}
	lines := []string{show.Plain(fmt.Sprintf("IstioRoute %s, of Service %s/%s: %s", r.Name, r.Spec.Managed.Namespace, r.Spec.Managed.TargetService, says))}
	for _, m := range r.Status.MatchedVirtualServices {
		lines = append(lines, "  "+show.Plain(fmt.Sprintf("VirtualService %s/%s is %s: %s", m.Namespace, m.Name, m.Status, m.Message)))
	}
	return lines
}

// deviations returns where a mesh may tell the key of a request otherwise: the request says
// several things. from is the header that holds the key, as sidecars tell it.
func deviations(headers []*routingv1.Header, from string) []keymatch.Deviation {
	members, holding := map[string]int{}, map[string]bool{}
	for _, h := range headers {
		name := strings.ToLower(h.GetName())
		if name != routingkey.Baggage && name != routingkey.Tracestate {
			holding[name] = strings.EqualFold(name, from)
			continue
		}
		for member := range strings.SplitSeq(h.GetValue(), ",") {
			if key, _, _ := strings.Cut(member, "="); strings.TrimSpace(key) == routingkey.Member {
				members[name]++
				holding[name] = true
			}
		}
	}
	var out []keymatch.Deviation
	if members[routingkey.Baggage] > 1 || members[routingkey.Tracestate] > 1 {
		out = append(out, keymatch.SeveralMembers)
	}
	several := 0
	for _, holds := range holding {
		if holds {
			several++
		}
	}
	if several > 1 {
		out = append(out, keymatch.SeveralHeaders)
	}
	return out
}
