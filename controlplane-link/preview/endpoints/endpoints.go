// Package endpoints has the endpoints of sandboxes and route groups, the hosts of their previews, and what the agent
// of a cluster reports about previews.
package endpoints

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/preview/label"
	"switchyard.dev/controlplane-link/registry"
	"switchyard.dev/tunnels/policy"
	"switchyard.dev/workflows/spec"
	"switchyard.dev/workflows/specfile"
)

// Endpoint is an endpoint of a sandbox or a route group.
type Endpoint struct {
	Cluster registry.Cluster
	// Owner is the name of the sandbox, or, if Group, of the route group, and Name that of the endpoint.
	Owner string
	Group bool
	Name  string
	// Path is that of the endpoint in the specification, such as spec.endpoints[0].
	Path string
	// Target is the destination as the specification has it. Scheme, Host and Port are its parts: the scheme is in
	// lower case, the host is that of a Service or a workload in an endpoint with a preview, and 0 is no port.
	Target, Scheme, Host string
	Port                 uint16
	RoutingKey           string
	// Label is that of its preview; the zero one: it has none, because of its name or its target. Sidecars route HTTP
	// and gRPC without TLS: another target would be the baseline.
	Label label.Label
	// Generation is that of its owner, and Status the owner's as it was observed last.
	Generation int64
	Status     model.Status
}

// Unrouted returns why requests with the routing key could reach baselines instead of the owner: it is not ready, or
// its last change was not observed. The text is for people, in sentences; empty: they are routed.
func (e Endpoint) Unrouted() string {
	s, what := e.Status, "Sandbox"
	if e.Group {
		what = "Route group"
		part, has := s.Clusters[e.Cluster.Name]
		if !has {
			return fmt.Sprintf("Route group %s has no sandbox in cluster %s.", e.Owner, e.Cluster.Name)
		}
		s = part
	}
	switch {
	case s.Generation < e.Generation:
		return fmt.Sprintf("%s %s was changed, and cluster %s has not reported the change yet.", what, e.Owner, e.Cluster.Name)
	case !s.Ready && s.Message != "":
		return fmt.Sprintf("%s %s is not ready: %s", what, e.Owner, s.Message)
	case !s.Ready:
		return fmt.Sprintf("%s %s is not ready.", what, e.Owner)
	}
	return ""
}

// list makes the endpoints of one owner.
type list struct {
	of  Endpoint
	all []Endpoint
}

func (l *list) add(cluster, path, name, target string) {
	e := l.of
	e.Cluster.Name, e.Path, e.Name, e.Target = cmp.Or(cluster, e.Cluster.Name), path, name, target
	if u, err := url.Parse(target); err == nil {
		e.Scheme, e.Host = u.Scheme, strings.ToLower(u.Hostname())
		if port, err := strconv.ParseUint(cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme]), 10, 16); err == nil {
			e.Port = uint16(port)
		}
	}
	if label.Check(name, e.Owner) == nil && (e.Scheme == "http" || e.Scheme == "grpc") && inCluster(e.Host) && e.Port != 0 && e.Cluster.Name != "" && l.find(name) < 0 {
		e.Label = label.Label{Endpoint: strings.ToLower(name), Owner: e.Owner}
	}
	l.all = append(l.all, e)
}

// find returns the index of the endpoint with the label of a name; -1: there is none.
func (l *list) find(name string) int {
	for i, e := range l.all {
		if e.Label.Endpoint != "" && strings.EqualFold(e.Label.Endpoint, name) {
			return i
		}
	}
	return -1
}

// inCluster reports whether a host is the name of a Service or a workload. The agent decides whether it is reached.
func inCluster(host string) bool {
	_, domain, _ := strings.Cut(host, ".svc.")
	target, is := policy.Parse(host, domain)
	return is && target.Kind != ""
}

// Of returns the endpoints of a sandbox, in all published forms.
func Of(s model.Sandbox) []Endpoint {
	var of spec.SandboxSpec
	if json.Unmarshal(s.Spec, &of) != nil {
		return nil
	}
	l := &list{of: Endpoint{Cluster: registry.Cluster{Organisation: s.Org, Name: s.Cluster}, Owner: s.Name, RoutingKey: s.RoutingKey, Generation: s.Generation, Status: s.Status}}
	if of.DefaultRouteGroup != nil {
		for i, e := range of.DefaultRouteGroup.Endpoints {
			l.add("", fmt.Sprintf("spec.defaultRouteGroup.endpoints[%d]", i), e.Name, e.Target)
		}
	}
	for i, e := range of.Endpoints {
		l.add("", fmt.Sprintf("spec.endpoints[%d]", i), e.Name, fmt.Sprintf("%s://%s:%d", e.Protocol, e.Host, e.Port))
	}
	for i, f := range of.Forks {
		domain := "deploy"
		if f.ForkOf.Kind == policy.KindRollout {
			domain = "rollout"
		}
		for j, e := range f.Endpoints {
			l.add("", fmt.Sprintf("spec.forks[%d].endpoints[%d]", i, j), e.Name, fmt.Sprintf("%s://%s.%s.%s:%d", e.Protocol, f.ForkOf.Name, f.ForkOf.Namespace, domain, e.Port))
		}
	}
	return l.all
}

// OfGroup returns the endpoints of a route group.
func OfGroup(g model.RouteGroup) []Endpoint {
	var of spec.GroupSpec
	if json.Unmarshal(g.Spec, &of) != nil {
		return nil
	}
	l := &list{of: Endpoint{Cluster: registry.Cluster{Organisation: g.Org, Name: g.Cluster}, Owner: g.Name, Group: true, RoutingKey: g.RoutingKey, Generation: g.Generation, Status: g.Status}}
	for i, e := range of.Endpoints {
		l.add(e.Cluster, fmt.Sprintf("spec.endpoints[%d]", i), e.Name, e.Target)
	}
	return l.all
}

// Store has the sandboxes and route groups, as store.Store.
type Store interface {
	Sandbox(ctx context.Context, org, name string) (model.Sandbox, error)
	RouteGroup(ctx context.Context, org, name string) (model.RouteGroup, error)
}

// Find returns the endpoint of an organisation with a label. The error wraps model.ErrNotFound if there is none, or
// its owner is being deleted.
func Find(ctx context.Context, s Store, org string, l label.Label) (Endpoint, error) {
	box, err := s.Sandbox(ctx, org, l.Owner)
	all, deleted := Of(box), box.DeletedAt
	if errors.Is(err, model.ErrNotFound) {
		var group model.RouteGroup
		group, err = s.RouteGroup(ctx, org, l.Owner)
		all, deleted = OfGroup(group), group.DeletedAt
	}
	if err != nil {
		return Endpoint{}, fmt.Errorf("find the endpoint of a preview: %w", err)
	}
	for _, e := range all {
		if deleted.IsZero() && l.Endpoint != "" && e.Label == l {
			return e, nil
		}
	}
	return Endpoint{}, fmt.Errorf("endpoint %q of %q: %w", l.Endpoint, l.Owner, model.ErrNotFound)
}

// Check returns the problems of endpoints that cannot have a host of their own because of their names, with the paths
// of these. Endpoints with the names of former ones of the object have none, so that it can be written again. The error
// is specfile.Problems.
func Check(asked, former []Endpoint) error {
	had := func(name string) bool {
		return slices.ContainsFunc(former, func(e Endpoint) bool { return e.Name == name })
	}
	var problems specfile.Problems
	for i, e := range asked {
		if had(e.Name) {
			continue
		}
		if err := label.Check(e.Name, e.Owner); err != nil {
			problems.Add(e.Path+".name", "%v", err)
			continue
		}
		for j, other := range asked {
			if j != i && (j < i || had(other.Name)) && strings.EqualFold(other.Name, e.Name) {
				problems.Add(e.Path+".name", "is %q, and its preview would have the same host as that of %q; use another name", e.Name, other.Name)
			}
		}
	}
	return problems.OrNil()
}
