package policies

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"switchyard.dev/eventbus/lists"
)

// Policy is an object of a Kind, reduced to the fields that Read reads.
type Policy struct {
	Kind Kind
	// Namespace is empty for an object of the cluster.
	Namespace, Name string

	targets []target
	chosen  []chosen
	pods    []podSelector
	routes  []string
	// host is the host to which a DestinationRule configures connections.
	host     string
	anywhere bool
	// within are the namespaces in which pods are selected; empty: its own.
	within []string
}

// target is an object that the policy names.
type target struct{ group, kind, namespace, name string }

// chosen are objects that the policy selects by labels.
type chosen struct {
	group, kind string
	selector    labels.Selector
	// anywhere: in other namespaces too.
	anywhere bool
}

// String names the policy in messages.
func (p Policy) String() string {
	if p.Namespace == "" {
		return p.Kind.Kind + " " + p.Name
	}
	return p.Kind.Kind + " " + p.Namespace + "/" + p.Name
}

// Read reads an object of a Kind. Fields in a form that no known kind has are passed over.
func Read(kind Kind, object map[string]any) Policy {
	meta, _ := object["metadata"].(map[string]any)
	p := Policy{Kind: kind, Namespace: text(meta, "namespace"), Name: text(meta, "name")}
	for _, spec := range specs(object) {
		p.readTargets(spec)
		p.readPods(spec)
		p.routes = append(p.routes, routeNames(spec)...)
		if _, configures := spec["trafficPolicy"]; configures {
			p.host = text(spec, "host")
		}
	}
	return p
}

// OfNetworkPolicy reads a NetworkPolicy.
func OfNetworkPolicy(n *networkingv1.NetworkPolicy) Policy {
	p := Policy{Kind: NetworkPolicies, Namespace: n.Namespace, Name: n.Name}
	if s, ok := newPodSelector(n.Spec.PodSelector.DeepCopy()); ok {
		s.settings = settingsOfNetwork(n)
		p.pods = []podSelector{s}
	}
	return p
}

// KeepPodSelector leaves of a NetworkPolicy which pods it selects, and a digest of the rest, to be
// cached.
func KeepPodSelector(o metav1.Object) {
	n, ok := o.(*networkingv1.NetworkPolicy)
	if !ok {
		return
	}
	n.Labels, n.Annotations, n.ManagedFields = nil, map[string]string{keptSettings: settingsOfNetwork(n)}, nil
	n.Spec = networkingv1.NetworkPolicySpec{PodSelector: n.Spec.PodSelector}
}

// Unclear reports whether an object of a further kind has none of the fields by which it would
// apply to others.
func (p Policy) Unclear() bool {
	return p.Kind.further && len(p.targets)+len(p.chosen)+len(p.pods)+len(p.routes) == 0
}

// ReadFields names, for messages, the fields by which objects of further kinds apply to others.
const ReadFields = "spec.targetRef, targetRefs, targetSelectors, selector, podSelector, workloadSelector or endpointSelector"

// specs returns the specifications of an object: a CiliumNetworkPolicy may have several.
func specs(object map[string]any) []map[string]any {
	return append(objectsIn(object["spec"]), objectsIn(object["specs"])...)
}

func (p *Policy) readTargets(spec map[string]any) {
	for _, ref := range slices.Concat(objectsIn(spec["targetRef"]), objectsIn(spec["targetRefs"]), objectsIn(spec["targetReference"])) {
		p.targets = append(p.targets, target{text(ref, "group"), text(ref, "kind"), cmp.Or(text(ref, "namespace"), p.Namespace), text(ref, "name")})
	}
	for _, s := range objectsIn(spec["targetSelectors"]) {
		if selector, ok := readSelector(s); ok {
			_, anywhere := s["namespaces"]
			p.chosen = append(p.chosen, chosen{text(s, "group"), text(s, "kind"), selector.Selector, anywhere})
		}
	}
}

// Fields by which known kinds select pods.
var podFields = []string{"selector", "podSelector", "workloadSelector", "endpointSelector"}

func (p *Policy) readPods(spec map[string]any) {
	for _, field := range podFields {
		of, is := spec[field].(map[string]any)
		if !is {
			continue
		}
		if s, ok := readSelector(of); ok {
			s.settings = settingsOf(spec)
			p.pods = append(p.pods, s)
		}
	}
	if s, is := p.Kind.ofAllPods(spec); is {
		p.pods = append(p.pods, s)
	}
	if of, is := spec["namespaceSelector"].(map[string]any); is { // of a PodMonitor
		p.anywhere = p.anywhere || of["any"] == true
		names, _, _ := unstructured.NestedStringSlice(of, "matchNames")
		p.within = append(p.within, names...)
	}
}

// Keep removes the fields that Read does not use from an object of a Kind, before it is cached.
func Keep(o any) (any, error) {
	u, is := o.(*unstructured.Unstructured)
	if !is {
		return o, nil
	}
	meta, _ := u.Object["metadata"].(map[string]any)
	kept := map[string]any{"apiVersion": u.Object["apiVersion"], "kind": u.Object["kind"], "metadata": only(meta, "name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp")}
	for _, field := range []string{"spec", "specs"} {
		all := lists.Map(objectsIn(u.Object[field]), func(spec map[string]any) any { return keepSpec(spec) })
		if field == "spec" && len(all) == 1 {
			kept[field] = all[0]
		} else if len(all) > 0 {
			kept[field] = all
		}
	}
	u.Object = kept
	return u, nil
}

func keepSpec(spec map[string]any) map[string]any {
	kept := only(spec, append([]string{"targetRef", "targetRefs", "targetReference", "targetSelectors", "namespaceSelector", keptNames}, podFields...)...)
	if _, configures := spec["trafficPolicy"]; configures { // of a DestinationRule
		kept["host"], kept["trafficPolicy"] = spec["host"], map[string]any{}
	}
	if names := routeNames(spec); len(names) > 0 {
		kept[keptNames] = lists.Map(names, func(name string) any { return name })
	}
	var listeners []any
	for _, listener := range objectsIn(spec["egress"]) {
		if _, has := listener["hosts"]; has { // of a Sidecar
			listeners = append(listeners, only(listener, "hosts"))
		}
	}
	if len(listeners) > 0 {
		kept["egress"] = listeners
	}
	kept[keptSettings] = settingsOf(spec)
	return kept
}

// keptNames is the field of a cached specification that has the names of routes in it.
const keptNames = "namesOfRoutes"

// routeNames returns the Envoy names of routes in a specification:
// those of an Istio EnvoyFilter, and texts with such names in the patches of Envoy Gateway.
func routeNames(spec map[string]any) []string {
	out := textsOf(spec[keptNames])
	for _, patch := range objectsIn(spec["configPatches"]) {
		if name, _, _ := unstructured.NestedString(patch, "match", "routeConfiguration", "vhost", "route", "name"); name != "" {
			out = append(out, name)
		}
	}
	for _, patch := range objectsIn(spec["jsonPatches"]) {
		out = append(out, namesIn(patch)...)
	}
	return out
}

// namesIn returns the texts in a value that have the name of a route of Envoy Gateway in them.
func namesIn(value any) []string {
	var out []string
	switch v := value.(type) {
	case string:
		if strings.Contains(v, "httproute/") || strings.Contains(v, "grpcroute/") {
			out = append(out, v)
		}
	case []any:
		out = append(out, slices.Concat(lists.Map(v, namesIn)...)...)
	case map[string]any:
		for _, one := range v {
			out = append(out, namesIn(one)...)
		}
	}
	return out
}

// objectsIn returns the objects of a list, or the one object that a value is.
func objectsIn(value any) []map[string]any {
	switch v := value.(type) {
	case map[string]any:
		return []map[string]any{v}
	case []any:
		var out []map[string]any
		for _, one := range v {
			if m, is := one.(map[string]any); is {
				out = append(out, m)
			}
		}
		return out
	}
	return nil
}

func only(of map[string]any, fields ...string) map[string]any {
	out := lists.Merged(of)
	maps.DeleteFunc(out, func(field string, _ any) bool { return !slices.Contains(fields, field) })
	return out
}

func text(of map[string]any, field string) string {
	value, _ := of[field].(string)
	return value
}

func textsOf(value any) []string {
	list, _ := value.([]any)
	var out []string
	for _, one := range list {
		if t, is := one.(string); is {
			out = append(out, t)
		}
	}
	return out
}
