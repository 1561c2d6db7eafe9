// Package releases reads the requirements of release controllers on mesh objects. It is pure.
package releases

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"switchyard.dev/eventbus/lists"
)

// Inferring returns the VirtualServices in which an Argo Rollout sets the weights of a route that it
// does not name, with the name of that Rollout. Such a VirtualService must have one HTTP route: with a
// second one the Rollout fails ("must have exactly one route").
// Source: spec.strategy.canary.trafficRouting.istio of argoproj.io/v1alpha1.
func Inferring(rollouts []unstructured.Unstructured) map[types.NamespacedName]types.NamespacedName {
	all := map[types.NamespacedName]types.NamespacedName{}
	for i := range rollouts {
		rollout := types.NamespacedName{Namespace: rollouts[i].GetNamespace(), Name: rollouts[i].GetName()}
		routing, _, _ := unstructured.NestedMap(rollouts[i].Object, "spec", "strategy", "canary", "trafficRouting", "istio")
		several, _ := routing["virtualServices"].([]any)
		for _, one := range append(several, routing["virtualService"]) {
			fields, _ := one.(map[string]any)
			written, _ := fields["name"].(string)
			if routes, _ := fields["routes"].([]any); written == "" || len(routes) > 0 {
				continue
			}
			name, namespace, _ := strings.Cut(written, ".")
			all[types.NamespacedName{Namespace: cmp.Or(namespace, rollout.Namespace), Name: name}] = rollout
		}
	}
	return all
}

// Services returns the Services between which an Argo Rollout moves weights in VirtualServices, with the
// name of that Rollout. Workloads call the host of the VirtualService, not the hosts of these Services.
func Services(rollouts []unstructured.Unstructured) map[types.NamespacedName]types.NamespacedName {
	all := map[types.NamespacedName]types.NamespacedName{}
	for i := range rollouts {
		canary, _, _ := unstructured.NestedMap(rollouts[i].Object, "spec", "strategy", "canary")
		if _, has, _ := unstructured.NestedMap(canary, "trafficRouting", "istio"); !has {
			continue
		}
		for _, field := range [][]string{{"stableService"}, {"canaryService"}, {"pingPong", "pingService"}, {"pingPong", "pongService"}} {
			if name, _, _ := unstructured.NestedString(canary, field...); name != "" {
				all[types.NamespacedName{Namespace: rollouts[i].GetNamespace(), Name: name}] = types.NamespacedName{Namespace: rollouts[i].GetNamespace(), Name: rollouts[i].GetName()}
			}
		}
	}
	return all
}

// Advice returns a message that states why a VirtualService gets no routes because of a Rollout, and the
// remedy. route is the name of its only HTTP route; it can be empty.
func Advice(rollout, virtualService types.NamespacedName, route string) string {
	first := ""
	if route == "" {
		route, first = "primary", "name the route of the VirtualService (name: primary), and "
	}
	return fmt.Sprintf("Rollout %s does not name the route of VirtualService %s in which it sets weights, and fails if the VirtualService has more than one route. "+
		"So the VirtualService gets no routes, and requests with the key reach the baseline. To have them routed, %sset spec.strategy.canary.trafficRouting.istio.virtualService.routes of the Rollout to [%s].",
		rollout, virtualService, first, route)
}

// CanaryOf returns the name of the Flagger Canary among the owners of an object; empty for none. Flagger
// replaces the whole spec of its VirtualServices, and resets the weights when it finds other routes in
// them.
func CanaryOf(owners []metav1.OwnerReference) string {
	return lists.First(owners, func(o metav1.OwnerReference) bool {
		group, _, _ := strings.Cut(o.APIVersion, "/")
		return group == "flagger.app" && o.Kind == "Canary"
	}).Name
}

// Replaced returns a message that states why a VirtualService gets no routes because of a Canary, and the
// remedy.
func Replaced(canary, virtualService types.NamespacedName) string {
	return fmt.Sprintf("Canary %s of Flagger replaces the routes of VirtualService %s, and its release would stop if the VirtualService had further routes. "+
		"So the VirtualService gets no routes, and requests with the key that the mesh routes reach the baseline. To have them routed, have the operator inject DevMesh sidecars into the pods of the baseline.",
		canary, virtualService)
}

// gatewayPlugin is the name of the Argo Rollouts plugin that sets weights in Gateway API routes.
const gatewayPlugin = "argoproj-labs/gatewayAPI"

// Selector selects the routes in which an Argo Rollout sets weights. The Rollout fails if it selects a
// route without its Services, such as a derived route.
type Selector struct {
	Rollout types.NamespacedName
	// Kind and Namespace are the kind and the namespace of the routes.
	Kind, Namespace string
	Labels          labels.Selector
}

// Selects reports whether a route is selected.
func (s Selector) Selects(kind, namespace string, of map[string]string) bool {
	return s.Kind == kind && s.Namespace == namespace && s.Labels.Matches(labels.Set(of))
}

// Keys returns the keys of the labels that it selects by.
func (s Selector) Keys() []string {
	requirements, _ := s.Labels.Requirements()
	return lists.Map(requirements, func(r labels.Requirement) string { return r.Key() })
}

// SelectorsOf returns the selectors of Rollouts for HTTPRoutes and GRPCRoutes, sorted.
// Source: getGatewayAPIConfigWithDiscovery in pkg/plugin/plugin.go of the plugin.
func SelectorsOf(rollouts []unstructured.Unstructured) []Selector {
	var out []Selector
	for i := range rollouts {
		rollout := types.NamespacedName{Namespace: rollouts[i].GetNamespace(), Name: rollouts[i].GetName()}
		config, _, _ := unstructured.NestedMap(rollouts[i].Object, "spec", "strategy", "canary", "trafficRouting", "plugins", gatewayPlugin)
		namespace, _ := config["namespace"].(string)
		for kind, field := range map[string]string{"HTTPRoute": "httpRouteSelector", "GRPCRoute": "grpcRouteSelector"} {
			fields, is := config[field].(map[string]any)
			s := &metav1.LabelSelector{}
			if !is || runtime.DefaultUnstructuredConverter.FromUnstructured(fields, s) != nil {
				continue
			}
			if selector, err := metav1.LabelSelectorAsSelector(s); err == nil {
				out = append(out, Selector{rollout, kind, cmp.Or(namespace, rollout.Namespace), selector})
			}
		}
	}
	slices.SortFunc(out, func(a, b Selector) int {
		return cmp.Or(cmp.Compare(a.Rollout.String(), b.Rollout.String()), cmp.Compare(a.Kind, b.Kind))
	})
	return out
}

// Selected returns a message that states why nothing is derived from a route because of a Rollout, and the
// remedy.
func (s Selector) Selected(route string) string {
	return fmt.Sprintf("Rollout %s sets weights in each %s that its selector %q selects, and would fail at one derived from %s, so none is derived and requests with the key reach the baseline. "+
		"Name the route in the configuration of the plugin, or select a label that the route has.",
		s.Rollout, s.Kind, s.Labels, route)
}
