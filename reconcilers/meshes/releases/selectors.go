package releases

import (
	"cmp"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"switchyard.dev/eventbus/lists"
)

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
