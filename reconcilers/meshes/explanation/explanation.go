// Package explanation reports the effect of meshes on a request that a route server has explained.
package explanation

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/meshes"
	"switchyard.dev/reconcilers/meshes/decision"
	"switchyard.dev/reconcilers/meshes/istioadapter"
	"switchyard.dev/reconcilers/meshes/keymatch"
	"switchyard.dev/reconcilers/meshes/precedence"
	"switchyard.dev/routeserver/explain"
	"switchyard.dev/xds/routingkey"
)

// Method is the header name by which Explain accepts the method of a request.
const Method = ":method"

// Mesh is the effect of meshes on a request.
type Mesh struct {
	// By names the MeshRoute that reports that a mesh routes the request to the sandbox, and the
	// routes of the mesh; empty if none does.
	By string
	// Lost is why no mesh routes the request to the sandbox, and Remedy what to do about it. Both are
	// empty if one does, or if no mesh is on.
	Lost, Remedy string
	// Lines are the reports of all MeshRoutes of the request, for output.
	Lines []string
}

// Explain returns the effect of the meshes on a request that a route server has explained, as reported
// by its IstioRoutes and GatewayAPIRoutes. It returns the zero Mesh if the request has neither.
func Explain(ctx context.Context, reader client.Reader, asked *routingv1.ExplainRequest, got *routingv1.ExplainResponse) (Mesh, error) {
	var none Mesh
	var byIstio, byGatewayAPI []string
	var all []crdv1.MeshRoute
	if err := meshes.EachRoute(ctx, reader, func(r crdv1.MeshRoute) {
		if r.Asked().RoutingKey != got.GetRoutingKey() || !of(r, got.GetBaseline()) {
			return
		}
		all = append(all, r)
		switch r := r.(type) {
		case *crdv1.IstioRoute:
			byIstio = append(byIstio, decided(r, crdv1.KindIstioRoute)...)
			for _, m := range r.Status.MatchedVirtualServices {
				byIstio = append(byIstio, "  "+fmt.Sprintf("VirtualService %s/%s is %s: %s", m.Namespace, m.Name, m.Status, m.Message))
			}
		case *crdv1.GatewayAPIRoute:
			byGatewayAPI = append(byGatewayAPI, decided(r, crdv1.KindGatewayAPIRoute)...)
			byGatewayAPI = append(byGatewayAPI, lists.Map(r.Status.MatchedObjects, beside)...)
		}
	}); err != nil {
		return none, err
	}
	var lines []string
	if byIstio != nil {
		lines = append(append(lines, "Istio is on: the VirtualServices of the mesh decide."), byIstio...)
	}
	if byGatewayAPI != nil {
		lines = append(append(lines, "The Gateway API is on: HTTPRoutes and GRPCRoutes decide where no VirtualService routes to the Service."), byGatewayAPI...)
	}
	if lines == nil {
		return none, nil
	}
	for _, d := range deviations(asked.GetHeaders(), got.GetKeyHeaders()) {
		lines = append(lines, d.Sentence+" (Guide to meshes, section Differences in key matching: "+d.Name+".)")
	}
	d := decision.Of(all, requestOf(asked, got), objectsOf(ctx, reader, all))
	return Mesh{By: d.By, Lost: d.Lost, Remedy: d.Remedy, Lines: lines}, nil
}

// requestOf returns the request in the form that package decision takes.
func requestOf(asked *routingv1.ExplainRequest, got *routingv1.ExplainResponse) decision.Request {
	q := decision.Request{WorkloadPort: int32(got.GetWorkloadPort()), Request: precedence.Request{Path: "/", Method: "GET", Headers: map[string]string{}}}
	if d, err := explain.ParseDestination(asked.GetDestination()); err == nil && asked.GetDestination() != "" {
		q.Service, q.Port = types.NamespacedName{Namespace: cmp.Or(d.Namespace, got.GetBaseline().GetNamespace()), Name: d.Service}, int32(d.Port)
		_, rest, _ := strings.Cut(strings.Replace(asked.GetDestination(), "://", "", 1), "/")
		if u, err := url.Parse("/" + rest); err == nil {
			q.Path, q.Query = u.Path, map[string]string{}
			for name, values := range u.Query() {
				q.Query[name] = values[0]
			}
		}
	}
	if got.GetKeyFrom() == "" {
		q.Headers[routingkey.Baggage] = routingkey.Member + "=" + got.GetRoutingKey()
	}
	for _, h := range asked.GetHeaders() {
		if name := strings.ToLower(h.GetName()); name == Method {
			q.Method = h.GetValue()
		} else {
			q.Headers[name] = h.GetValue()
		}
	}
	return q
}

// objectsOf returns the mesh objects that can decide requests. Objects that cannot be read are left out.
func objectsOf(ctx context.Context, reader client.Reader, all []crdv1.MeshRoute) (out decision.Objects) {
	out.Order = precedence.API
	var namespaces []string
	for _, r := range all {
		switch r := r.(type) {
		case *crdv1.IstioRoute:
			out.Order = precedence.Istiod
			for _, m := range r.Status.MatchedVirtualServices {
				o := &unstructured.Unstructured{}
				o.SetGroupVersionKind(istioadapter.VirtualServices)
				if reader.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: m.Name}, o) == nil {
					out.VirtualServices = append(out.VirtualServices, o)
				}
			}
		case *crdv1.GatewayAPIRoute:
			for _, m := range r.Status.MatchedObjects {
				if m.WithinMesh() && !slices.Contains(namespaces, m.Derived.Namespace) {
					namespaces = append(namespaces, m.Derived.Namespace)
				}
			}
		}
	}
	for _, in := range namespaces {
		var http gatewayv1.HTTPRouteList
		var grpc gatewayv1.GRPCRouteList
		err := reader.List(ctx, &http, client.InNamespace(in))
		if errGRPC := reader.List(ctx, &grpc, client.InNamespace(in)); err == nil && (errGRPC == nil || meta.IsNoMatchError(errGRPC)) {
			out.HTTPRoutes, out.GRPCRoutes = append(out.HTTPRoutes, http.Items...), append(out.GRPCRoutes, grpc.Items...)
		}
	}
	return out
}

// of reports whether a MeshRoute is for a workload.
func of(r crdv1.MeshRoute, w *routingv1.Workload) bool {
	at := r.Asked().Managed.Baseline.WorkloadRef
	return baseline.RoutedKind(crdv1.ObjectRef{Kind: at.Kind}) == w.GetKind() && at.Namespace == w.GetNamespace() && at.Name == w.GetName()
}

// decided returns a line with the Ready condition of a MeshRoute.
func decided(r crdv1.MeshRoute, kind string) []string {
	says := "nothing is known of it yet"
	if ready := crdv1.FindCondition(*r.StatusConditions(), crdv1.ConditionReady); ready != nil {
		says = fmt.Sprintf("Ready is %s (%s): %s", ready.Status, ready.Reason, ready.Message)
	}
	return []string{fmt.Sprintf("%s %s, of Service %s/%s: %s", kind, r.GetName(), r.Asked().Managed.Namespace, r.Asked().Managed.TargetService, says)}
}

// beside returns a line about the route that is derived from a baseline's route, and its status.
func beside(m crdv1.MatchedObject) string {
	line := fmt.Sprintf("beside %s stands nothing (%s)", m.Baseline, m.Status)
	if m.Derived != nil {
		line = fmt.Sprintf("beside %s stands %s, which is %s", m.Baseline, m.Derived, m.Status)
	}
	if m.Message != "" {
		line += ": " + m.Message
	}
	return "  " + line
}

// deviations returns the deviations of keymatch that apply to a request: it has several keys, or white
// space around one. custom are the headers with a key as their whole value.
func deviations(headers []*routingv1.Header, custom []string) (out []keymatch.Deviation) {
	keys, members, spaced := map[string]bool{}, 0, false
	for _, name := range append([]string{routingkey.Baggage, routingkey.Tracestate}, custom...) {
		lines := lists.Map(lists.Filter(headers, func(h *routingv1.Header) bool {
			return strings.EqualFold(h.GetName(), name)
		}), (*routingv1.Header).GetValue)
		alone := func(asked string) []string {
			if asked == name {
				return lines
			}
			return nil
		}
		key, _ := routingkey.Find(alone, custom)
		if key == "" {
			continue
		}
		keys[key] = true
		if slices.Contains(custom, name) {
			spaced = spaced || lines[0] != key
			continue
		}
		members = max(members, membersIn(lines))
	}
	if members > 1 {
		out = append(out, keymatch.SeveralMembers)
	}
	if len(keys) > 1 {
		out = append(out, keymatch.SeveralHeaders)
	}
	if spaced {
		out = append(out, keymatch.WhiteSpace)
	}
	return out
}

// membersIn returns the number of members of a list that have a routing key.
func membersIn(lines []string) (n int) {
	for member := range strings.SplitSeq(strings.Join(lines, ","), ",") {
		if name, value, _ := strings.Cut(member, "="); strings.TrimSpace(name) == routingkey.Member && strings.TrimSpace(value) != "" {
			n++
		}
	}
	return n
}
