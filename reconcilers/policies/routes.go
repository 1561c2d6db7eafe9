package policies

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"switchyard.dev/eventbus/lists"
)

// gatewayGroup is the group of HTTPRoutes and GRPCRoutes.
const gatewayGroup = "gateway.networking.k8s.io"

// Route is an HTTPRoute or a GRPCRoute from which another is to be derived.
type Route struct {
	Kind, Namespace, Name string
	// Rules are the names of its rules.
	Rules []string
	// Labels and Annotations are its own, DerivedLabels and DerivedAnnotations those of routes
	// derived from it.
	Labels, Annotations               map[string]string
	DerivedLabels, DerivedAnnotations map[string]string
	// Services are those of its backends that derived rules replace, and Forks the Services that
	// replace each, in the same namespace.
	Services []types.NamespacedName
	Forks    map[types.NamespacedName][]string
	// Plugins are the values of PluginsAnnotation of Services that have it.
	Plugins map[types.NamespacedName]string
}

// String names the route in messages.
func (r Route) String() string { return r.Kind + " " + r.Namespace + "/" + r.Name }

// Miss is a policy that applies to a route and not to routes derived from it.
type Miss struct {
	// Applies names the policy and the object, as the beginning of a sentence.
	Applies string
	// Remedy is the owner's remedy, as the beginning of a sentence.
	Remedy string
	// Service is the Service that the policy applies to; empty for none.
	Service types.NamespacedName
	// Tunes: the policy protects nothing, it sets how connections to the Service are made.
	Tunes bool
}

// PluginsAnnotation, on a route or a Service, has the names of Kong's plugins for its requests.
const PluginsAnnotation = "konghq.com/plugins"

// OnRoute returns the policies that apply to a route and not to routes derived from it, sorted.
func OnRoute(all []Policy, r Route) []Miss {
	var out []Miss
	if plugins := r.Annotations[PluginsAnnotation]; plugins != "" && r.DerivedAnnotations[PluginsAnnotation] != plugins {
		out = append(out, Miss{
			Applies: fmt.Sprintf("Annotation %s applies plugins (%s) to %s", PluginsAnnotation, plugins, r),
			Remedy:  fmt.Sprintf("Add %s to gatewayAPI.preservedAnnotations", PluginsAnnotation),
		})
	}
	for _, service := range r.Services {
		if plugins := r.Plugins[service]; plugins != "" {
			out = append(out, Miss{
				Applies: fmt.Sprintf("Annotation %s applies plugins (%s) to Service %s", PluginsAnnotation, plugins, service),
				Remedy:  fmt.Sprintf("Move the annotation to the route, and add %s to gatewayAPI.preservedAnnotations", PluginsAnnotation),
			})
		}
	}
	for _, p := range all {
		if miss, missed := p.onRoute(r, all); p.Kind.routes && missed {
			miss.Tunes = p.Kind.tunes
			out = append(out, miss)
		}
	}
	slices.SortStableFunc(out, func(a, b Miss) int { return cmp.Compare(a.Applies, b.Applies) })
	return out
}

// onRoute returns how a policy applies to a route and not to routes derived from it. all are the
// policies of the cluster.
func (p Policy) onRoute(r Route, all []Policy) (Miss, bool) {
	const toGateway = "Attach it to the Gateway"
	if slices.Contains(p.targets, target{gatewayGroup, r.Kind, r.Namespace, r.Name}) {
		return Miss{Applies: fmt.Sprintf("%s targets %s", p, r), Remedy: toGateway}, true
	}
	for _, s := range r.Services {
		without := slices.DeleteFunc(slices.Clone(r.Forks[s]), func(name string) bool { return p.covers(types.NamespacedName{Namespace: s.Namespace, Name: name}, all) })
		if !p.ofService(s) || len(without) == 0 && len(r.Forks[s]) > 0 {
			continue
		}
		miss := Miss{Applies: fmt.Sprintf("%s targets Service %s", p, s), Remedy: toGateway, Service: s}
		if own := fmt.Sprintf("reate one for Service %s", strings.Join(without, ", ")); p.Kind.tunes {
			miss.Remedy = "C" + own
			if p.host != "" {
				miss.Applies, miss.Remedy = fmt.Sprintf("%s configures connections to Service %s", p, s), "Set istio.enabled to true, with which the operator copies it, or c"+own
			}
		}
		return miss, true
	}
	for _, c := range p.chosen {
		if c.group == gatewayGroup && c.kind == r.Kind && (c.anywhere || p.Namespace == r.Namespace) &&
			c.selector.Matches(labels.Set(r.Labels)) && !c.selector.Matches(labels.Set(r.DerivedLabels)) {
			keys := strings.Join(keysOf(c.selector), ", ")
			return Miss{Applies: fmt.Sprintf("%s selects %s by label %s", p, r, keys), Remedy: fmt.Sprintf("Add %s to gatewayAPI.preservedLabels", keys)}, true
		}
	}
	if slices.ContainsFunc(p.routes, r.isNamed) {
		return Miss{Applies: fmt.Sprintf("%s names a route of %s in Envoy's configuration", p, r), Remedy: toGateway}, true
	}
	return Miss{}, false
}

// EnvoyFilters returns the kind of Istio by which routes of VirtualServices are named.
func EnvoyFilters() Kind {
	return known[slices.IndexFunc(known, func(k Kind) bool { return k.Kind == "EnvoyFilter" })]
}

// Sidecars returns the kind of Istio that limits the configuration of proxies.
func Sidecars() Kind {
	return known[slices.IndexFunc(known, func(k Kind) bool { return k.Kind == "Sidecar" })]
}

// OfVirtualServices returns the kinds that are read beside VirtualServices: those that name routes,
// and those that hide VirtualServices from proxies.
func OfVirtualServices() []Kind { return []Kind{EnvoyFilters(), Sidecars()} }

// RouteNames returns the names that policies have for routes in Envoy's configuration, each with
// the first policy that has it.
func RouteNames(all []Policy) map[string]string {
	out := map[string]string{}
	for _, p := range all {
		for _, name := range p.routes {
			if out[name] == "" || p.String() < out[name] {
				out[name] = p.String()
			}
		}
	}
	return out
}

// isNamed reports whether a name that an Envoy has for a route, or a text with such a name in it,
// is for one of r. Istio names a route after its rule, or namespace.name.index; Envoy Gateway
// httproute/namespace/name/rule/….
func (r Route) isNamed(name string) bool {
	istio := regexp.MustCompile(`^` + regexp.QuoteMeta(r.Namespace+"."+r.Name) + `\.\d+$`)
	return slices.Contains(r.Rules, name) || istio.MatchString(name) || strings.Contains(name, strings.ToLower(r.Kind)+"/"+r.Namespace+"/"+r.Name+"/")
}

// keysOf returns the keys of the labels that a selector asks about, sorted.
func keysOf(s labels.Selector) []string {
	requirements, _ := s.Requirements()
	out := lists.Map(requirements, func(r labels.Requirement) string { return r.Key() })
	return lists.Unique(out)
}

// covers reports whether the Service of a fork needs no further policy beside p: p applies to it or,
// if p protects nothing, another of its kind.
func (p Policy) covers(fork types.NamespacedName, all []Policy) bool {
	return p.ofService(fork) || p.Kind.tunes && slices.ContainsFunc(all, func(other Policy) bool {
		return other.Kind.GroupKind() == p.Kind.GroupKind() && other.ofService(fork)
	})
}

// ofService reports whether the policy applies to a Service: it targets the Service, or is the
// DestinationRule of its host.
func (p Policy) ofService(s types.NamespacedName) bool {
	if slices.Contains(p.targets, target{"", "Service", s.Namespace, s.Name}) {
		return true
	}
	name := s.Name + "." + s.Namespace
	return p.host == name || strings.HasPrefix(p.host, name+".svc") || p.host == s.Name && p.Namespace == s.Namespace
}
