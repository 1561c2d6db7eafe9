// Package destinationrules derives DestinationRules of Istio for the hosts of sandboxes from those for
// the hosts of their baselines (decision record 0056). It is pure.
package destinationrules

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/meshes/istio"
	"switchyard.dev/reconcilers/meshes/istio/names"
)

const (
	// LabelDerived is on each DestinationRule that the operator derives.
	LabelDerived = "istio.signadot.com/derived"
	// AnnotationDerivedFrom names the DestinationRules from which one is derived.
	AnnotationDerivedFrom = "istio.signadot.com/derived-from"
	// rulePrefix is the prefix of the names of derived DestinationRules; a digest follows.
	rulePrefix = "signadot-"
	// labelRevision is the label that names the revision of istiod that uses an object.
	labelRevision = "istio.io/rev"
)

// Reasons of findings.
const (
	// ReasonNotDerived: a DestinationRule of the baseline's host does not apply to the sandbox's.
	ReasonNotDerived = "DestinationRuleNotDerived"
	// ReasonSubsetsDiffer: routes use subsets with different traffic policies.
	ReasonSubsetsDiffer = "SubsetsDiffer"
)

// Rule is a derived DestinationRule, which gives the host of a sandbox the settings of the baseline's host.
type Rule struct {
	Object *unstructured.Unstructured
	// Host is the host of the sandbox, and To its Service.
	Host string
	To   types.NamespacedName
	// Of are the routing keys and Services that it is derived for, sorted.
	Of []Of
	// From names the DestinationRules from which it is derived.
	From string
	// TLS is true if requests can fail without the rule: it sets TLS, or it replaces a more general
	// rule with an empty traffic policy.
	TLS bool
}

// Of is a baseline Service with a routing key.
type Of struct {
	Service types.NamespacedName
	Key     string
}

// Rules are the DestinationRules that sandboxes need, by name, and the findings about DestinationRules
// of owners, by Service.
type Rules struct {
	Wanted   map[types.NamespacedName]*Rule
	Findings map[types.NamespacedName][]istio.Finding
}

// Derived reports whether a DestinationRule was created by the operator.
func Derived(o metav1.Object) bool {
	return o.GetLabels()[LabelDerived] == "true" && strings.HasPrefix(o.GetName(), rulePrefix)
}

// HostOf returns the host of a DestinationRule, without resolving it.
func HostOf(o *unstructured.Unstructured) string {
	host, _, _ := unstructured.NestedString(o.Object, "spec", "host")
	return host
}

// Same reports whether a DestinationRule equals the desired one. It can have additional labels.
func Same(have, want *unstructured.Unstructured) bool {
	return names.Equal(have.Object["spec"], want.Object["spec"]) && HasAll(have.GetLabels(), want.GetLabels()) &&
		have.GetAnnotations()[AnnotationDerivedFrom] == want.GetAnnotations()[AnnotationDerivedFrom]
}

// HasAll reports whether labels include all wanted ones.
func HasAll(labels, wanted map[string]string) bool {
	for name, value := range wanted {
		if have, has := labels[name]; !has || have != value {
			return false
		}
	}
	return true
}

// service is the Service of a baseline with its subsets.
type service struct {
	istio.Service
	host string
	// subsets are the subsets that routes to it use; "" represents routes without one.
	subsets map[string]bool
}

// Derive returns the DestinationRules that give the hosts of sandboxes the settings of their baselines'
// hosts. virtualServices and destinationRules are all those of the cluster.
//
// For a host, Istio uses the DestinationRules with the most specific host in the client's namespace, then
// in the Service's, then in the root namespace. So in each namespace, those with the most specific host
// for the baseline are copied, including exportTo and workloadSelector, with the host of the sandbox,
// unless they already apply to it. Several that Istio merges become one copy. Routes for sandboxes have
// no subset, so the traffic policy of the subset is merged into the copy.
func Derive(clusterDomain string, services []istio.Service, virtualServices, destinationRules []*unstructured.Unstructured) Rules {
	out := Rules{Wanted: map[types.NamespacedName]*Rule{}, Findings: map[types.NamespacedName][]istio.Finding{}}
	namespaces := ofOwners(destinationRules, clusterDomain)
	if len(services) == 0 || len(namespaces) == 0 {
		return out
	}
	subsets := subsetsIn(virtualServices, clusterDomain)
	for _, of := range services {
		host := istio.Resolve(of.Name, of.Namespace, clusterDomain)
		s := service{of, host, subsets[host]}
		for _, namespace := range slices.Sorted(maps.Keys(namespaces)) {
			in := namespaces[namespace]
			best, found := in.mostSpecific(host)
			if !found {
				continue
			}
			for _, g := range grouped(in[best]) {
				out.derive(s, g, namespaces, clusterDomain)
			}
		}
	}
	return out
}

// derive adds the DestinationRules for the sandboxes of a Service that are derived from a group.
func (r Rules) derive(s service, g group, namespaces map[string]hostRules, clusterDomain string) {
	if g.ignored() {
		return
	}
	policy, differ := g.policy(s.subsets)
	if len(differ) > 0 {
		r.Findings[s.id()] = append(r.Findings[s.id()], istio.Finding{Reason: ReasonSubsetsDiffer, Service: s.id(), Message: fmt.Sprintf(
			"Routes to Service %s use destinations with different traffic policies of DestinationRule %s, of subsets %s among them. A sandbox has no subsets: its requests have the traffic policy of the DestinationRule itself.",
			s.id(), g.names(), strings.Join(differ, ", "))})
	}
	hosts := s.hosts(clusterDomain)
	for _, to := range slices.Sorted(maps.Keys(hosts)) {
		in := namespaces[g.namespace()]
		if _, own := in[to]; own {
			continue // The owner has one for it.
		}
		applies := covers(g.host, to) && names.Equal(policy, g.top())
		if needless := len(policy) == 0 && !anyCovers(namespaces, to); applies || needless {
			continue
		}
		o := g.copyFor(to, policy)
		id := types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
		if have := r.Wanted[id]; have != nil {
			have.Of = append(have.Of, hosts[to]...)
			continue
		}
		name, _, _ := strings.Cut(to, ".")
		r.Wanted[id] = &Rule{Object: o, Host: to, To: types.NamespacedName{Namespace: s.Namespace, Name: name}, Of: hosts[to], From: g.names(), TLS: hasTLS(policy) || len(policy) == 0}
	}
}

func (s service) id() types.NamespacedName {
	return types.NamespacedName{Namespace: s.Namespace, Name: s.Name}
}

// hosts returns the hosts of the sandboxes of a Service, each with the routing keys that have it.
func (s service) hosts(clusterDomain string) map[string][]Of {
	all := map[string][]Of{}
	for _, sandbox := range s.Sandboxes {
		for _, m := range sandbox.Mappings {
			host, of := istio.Resolve(m.ToService, s.Namespace, clusterDomain), Of{s.id(), sandbox.Key}
			if !slices.Contains(all[host], of) {
				all[host] = append(all[host], of)
			}
		}
	}
	return all
}

// Hosts returns the hosts of all sandboxes of Services.
func Hosts(clusterDomain string, services []istio.Service) map[string]bool {
	all := map[string]bool{}
	for _, of := range services {
		for host := range (service{Service: of}).hosts(clusterDomain) {
			all[host] = true
		}
	}
	return all
}

// hostRules are the DestinationRules of a namespace by host.
type hostRules map[string][]*unstructured.Unstructured

// ofOwners returns the DestinationRules that the operator did not create, by namespace.
func ofOwners(objects []*unstructured.Unstructured, clusterDomain string) map[string]hostRules {
	out := map[string]hostRules{}
	for _, o := range objects {
		if Derived(o) || o.GetDeletionTimestamp() != nil {
			continue
		}
		namespace := o.GetNamespace()
		if out[namespace] == nil {
			out[namespace] = hostRules{}
		}
		host := strings.ToLower(istio.Resolve(HostOf(o), namespace, clusterDomain))
		out[namespace][host] = append(out[namespace][host], o)
	}
	return out
}

// covers reports whether a host of a DestinationRule, which may begin with a wildcard, applies to
// a full host name.
func covers(host, name string) bool {
	end, wild := strings.CutPrefix(host, "*")
	return host == name || wild && strings.HasSuffix(name, end)
}

func anyCovers(namespaces map[string]hostRules, name string) bool {
	for _, in := range namespaces {
		if _, found := in.mostSpecific(name); found {
			return true
		}
	}
	return false
}

// mostSpecific returns the most specific host for a full host name, which is the one that Istio uses.
func (r hostRules) mostSpecific(name string) (host string, found bool) {
	if _, has := r[name]; has {
		return name, true
	}
	for of := range r {
		if covers(of, name) && len(of) > len(host) {
			host, found = of, true
		}
	}
	return host, found
}

// group are DestinationRules with the same host that Istio merges, in its order: those of a
// namespace with the same exportTo and the same workloadSelector.
type group struct {
	host  string
	rules []*unstructured.Unstructured
}

// grouped returns the groups of DestinationRules with the same host and namespace.
func grouped(rules []*unstructured.Unstructured) []group {
	rules = slices.Clone(rules)
	slices.SortFunc(rules, func(a, b *unstructured.Unstructured) int {
		return cmp.Or(a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time), cmp.Compare(a.GetName(), b.GetName()))
	})
	var all []group
	at := map[string]int{}
	for _, o := range rules {
		as := visibility(o)
		if i, has := at[as]; has {
			all[i].rules = append(all[i].rules, o)
			continue
		}
		at[as] = len(all)
		host := strings.ToLower(HostOf(o))
		all = append(all, group{host, []*unstructured.Unstructured{o}})
	}
	return all
}

// visibility returns a text that is equal for DestinationRules that Istio merges.
func visibility(o *unstructured.Unstructured) string {
	spec := specOf(o)
	to, _, _ := unstructured.NestedStringSlice(spec, "exportTo")
	slices.Sort(to)
	text, err := json.Marshal([]any{to, spec["workloadSelector"], o.GetLabels()[labelRevision]})
	if err != nil {
		return "" // Never: JSON came in.
	}
	return string(text)
}

func specOf(o *unstructured.Unstructured) map[string]any {
	spec, _ := o.Object["spec"].(map[string]any)
	return spec
}

func (g group) namespace() string { return g.rules[0].GetNamespace() }

// names returns the names of the DestinationRules for messages.
func (g group) names() string {
	return strings.Join(lists.Map(g.rules, func(o *unstructured.Unstructured) string { return o.GetNamespace() + "/" + o.GetName() }), ", ")
}

// ignored reports whether an annotation excludes any of them from derivation.
func (g group) ignored() bool {
	return slices.ContainsFunc(g.rules, func(o *unstructured.Unstructured) bool {
		return o.GetAnnotations()[istio.AnnotationIgnore] == "true" || o.GetAnnotations()[crdv1.AnnotationIgnore] == "true"
	})
}

// top returns the first traffic policy outside subsets; nil for none.
func (g group) top() map[string]any {
	for _, o := range g.rules {
		if policy, has := specOf(o)["trafficPolicy"].(map[string]any); has {
			return policy
		}
	}
	return nil
}

// subset returns the traffic policy of a subset; nil for none. The first subset with a name applies.
func (g group) subset(name string) map[string]any {
	for _, o := range g.rules {
		list, _ := specOf(o)["subsets"].([]any)
		for _, one := range list {
			if fields, _ := one.(map[string]any); fields["name"] == name {
				policy, _ := fields["trafficPolicy"].(map[string]any)
				return policy
			}
		}
	}
	return nil
}

// policy returns the traffic policy for a host without subsets. used are the subsets that routes use (""
// for none). If their policies differ, it returns the policy outside subsets, and the subsets in differ.
func (g group) policy(used map[string]bool) (policy map[string]any, differ []string) {
	top := g.top()
	if len(used) == 0 {
		return top, nil
	}
	subsets := slices.Sorted(maps.Keys(used))
	policy = withSubset(top, g.subset(subsets[0]))
	if slices.ContainsFunc(subsets[1:], func(name string) bool { return !names.Equal(policy, withSubset(top, g.subset(name))) }) {
		return top, slices.DeleteFunc(subsets, func(name string) bool { return name == "" })
	}
	return policy, nil
}

// copyFor returns the DestinationRule for the host of a sandbox.
func (g group) copyFor(host string, policy map[string]any) *unstructured.Unstructured {
	first := g.rules[0]
	spec := map[string]any{"host": host}
	for _, field := range []string{"exportTo", "workloadSelector"} {
		if value, has := specOf(first)[field]; has {
			spec[field] = runtime.DeepCopyJSONValue(value)
		}
	}
	if len(policy) > 0 {
		spec["trafficPolicy"] = runtime.DeepCopyJSON(policy)
	}
	sum := sha256.Sum256([]byte(host + "\n" + visibility(first)))
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "networking.istio.io/v1", "kind": "DestinationRule", "spec": spec}}
	o.SetNamespace(g.namespace())
	o.SetName(rulePrefix + hex.EncodeToString(sum[:10]))
	labels := map[string]string{LabelDerived: "true"}
	if revision := first.GetLabels()[labelRevision]; revision != "" {
		labels[labelRevision] = revision
	}
	o.SetLabels(labels)
	o.SetAnnotations(map[string]string{AnnotationDerivedFrom: g.names()})
	return o
}

// subsetsIn returns the subsets that owners' HTTP routes use, by full host name; "" for routes
// without one.
func subsetsIn(virtualServices []*unstructured.Unstructured, clusterDomain string) map[string]map[string]bool {
	out := map[string]map[string]bool{}
	for _, vs := range virtualServices {
		for _, entry := range routesIn(vs) {
			if names.OfOurs(entry) != "" {
				continue
			}
			destinationsIn(entry, func(of map[string]any) {
				written, _ := of["host"].(string)
				subset, _ := of["subset"].(string)
				host := istio.Resolve(written, vs.GetNamespace(), clusterDomain)
				if out[host] == nil {
					out[host] = map[string]bool{}
				}
				out[host][subset] = true
			})
		}
	}
	return out
}

// RoutesTo reports whether a VirtualService has routes for sandboxes to a full host name.
func RoutesTo(virtualService *unstructured.Unstructured, host string) bool {
	found := false
	for _, entry := range routesIn(virtualService) {
		if !found && names.OfOurs(entry) != "" {
			destinationsIn(entry, func(of map[string]any) { found = found || of["host"] == host })
		}
	}
	return found
}

func routesIn(virtualService *unstructured.Unstructured) []any {
	list, _ := specOf(virtualService)["http"].([]any)
	return list
}

// destinationsIn calls note with each destination of a route, including mirrors.
func destinationsIn(entry any, note func(map[string]any)) {
	fields, _ := entry.(map[string]any)
	for _, field := range []string{"route", "mirrors"} {
		list, _ := fields[field].([]any)
		for _, one := range list {
			holder, _ := one.(map[string]any)
			if of, is := holder["destination"].(map[string]any); is {
				note(of)
			}
		}
	}
	if of, is := fields["mirror"].(map[string]any); is {
		note(of)
	}
}
