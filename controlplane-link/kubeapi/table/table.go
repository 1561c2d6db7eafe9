// Package table is the one table of what the agent of a control plane may do with the Kubernetes API.
// It is the allow-list for requests through the link, and its tests generate the agent's RBAC rules and the
// table in controlplane-link/README.md from it. It is pure.
package table

import (
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"
)

// Scope is where the rights of a row count.
type Scope int

// The scopes.
const (
	// Cluster: in the whole cluster, always.
	Cluster Scope = iota
	// Namespaces: in the namespaces that the operator is restricted to, or in all.
	Namespaces
	// Operator: in the operator's namespace.
	Operator
)

// Row gives rights.
type Row struct {
	Scope     Scope
	Group     string
	Resources []string // with a subresource: pods/log
	Names     []string // of objects; none: all
	Verbs     []string
	// PodLogs: with controlPlane.podLogAccess.enabled only.
	PodLogs bool
	// AgentOnly: for the agent itself, and never for requests through the link.
	AgentOnly bool
	// Why is for the page.
	Why string
}

var (
	read  = []string{"get", "list", "watch"}
	write = []string{"get", "list", "watch", "create", "update", "patch", "delete"}
)

// Rows are all rights of the agent.
var Rows = []Row{
	{Scope: Cluster, Group: "signadot.com", Verbs: write, Why: "the operator's own kinds; the webhooks of authors check changes of specifications as those of its user",
		Resources: []string{"signadotsandboxes", "signadotroutegroups", "resources", "signadotexternalworkloads", "virtualworkloads", "forkedworkloads", "signadotobjectlifecyclemethods", "routingconfigs", "istioroutes", "gatewayapiroutes", "jobs", "jobrunnergroups", "trafficcaptures"}},
	{Scope: Cluster, Resources: []string{"namespaces"}, Verbs: read, Why: "names for users, and the UID of `kube-system`, the identity of the cluster"},
	{Scope: Namespaces, Resources: []string{"pods", "services"}, Verbs: read, Why: "the state of sandboxes and baselines"},
	{Scope: Namespaces, Resources: []string{"pods/log"}, Verbs: []string{"get"}, PodLogs: true, Why: "logs of sandboxes for users"},
	{Scope: Namespaces, Resources: []string{"events"}, Verbs: read, Why: "causes of a sandbox that is not ready"},
	{Scope: Namespaces, Group: "events.k8s.io", Resources: []string{"events"}, Verbs: read, Why: "the same"},
	{Scope: Namespaces, Group: "apps", Resources: []string{"deployments", "replicasets"}, Verbs: read, Why: "baselines and forks"},
	{Scope: Namespaces, Group: "argoproj.io", Resources: []string{"rollouts"}, Verbs: read, Why: "baselines and forks"},
	{Scope: Operator, Resources: []string{"configmaps"}, Names: []string{"signadot-authority"}, Verbs: []string{"get"}, Why: "the certificates that users without a kubeconfig verify tunnel proxies with"},
	{Scope: Operator, Resources: []string{"configmaps"}, Names: []string{"controlplane-keys"}, Verbs: []string{"get", "update"}, AgentOnly: true, Why: "the public keys of credentials of the control plane's users"},
	{Scope: Cluster, Group: "authorization.k8s.io", Resources: []string{"subjectaccessreviews"}, Verbs: []string{"create"}, AgentOnly: true, Why: "whether a user of the control plane has the right to a request"},
	{Scope: Cluster, Resources: []string{"services", "nodes"}, Verbs: []string{"list", "watch"}, AgentOnly: true, Why: "which addresses are of Services, and which of nodes"},
	{Scope: Cluster, Group: "discovery.k8s.io", Resources: []string{"endpointslices"}, Verbs: []string{"list", "watch"}, AgentOnly: true, Why: "which addresses are of pods behind Services"},
}

// Policy decides about requests through the link.
type Policy struct {
	// PodLogs is controlPlane.podLogAccess.enabled. Namespaces are those that the operator is restricted to;
	// none: all.
	PodLogs    bool
	Namespaces []string
	// Operator is the operator's namespace.
	Operator string
}

// Allows reports whether a request may pass.
func (p Policy) Allows(r Request) bool {
	if r.Discovery {
		return r.Verb == "get"
	}
	resource := r.Resource
	if r.Subresource != "" {
		resource += "/" + r.Subresource
	}
	return slices.ContainsFunc(Rows, func(row Row) bool {
		return !row.AgentOnly && (p.PodLogs || !row.PodLogs) && row.Group == r.Group && slices.Contains(row.Resources, resource) && slices.Contains(row.Verbs, r.Verb) &&
			(len(row.Names) == 0 || slices.Contains(row.Names, r.Name)) && p.within(row.Scope, r.Namespace)
	})
}

func (p Policy) within(s Scope, namespace string) bool {
	switch s {
	case Operator:
		return namespace == p.Operator
	case Namespaces:
		return len(p.Namespaces) == 0 || slices.Contains(p.Namespaces, namespace)
	}
	return true
}

// Request is a request to the Kubernetes API, as far as rights need it.
type Request struct {
	Verb, Group, Version, Resource, Subresource, Namespace, Name string
	// Discovery: it asks which kinds there are.
	Discovery bool
}

// Object returns the object of a request, for records.
func (r Request) Object() string {
	parts := []string{r.Group, r.Namespace, r.Resource, r.Name, r.Subresource}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "/")
}

// Parse reads a request's method and URL. The error is that of a request that the API server could
// understand differently than this function does.
func Parse(method string, u *url.URL) (Request, error) {
	if u.RawPath != "" || !strings.HasPrefix(u.Path, "/") || path.Clean(u.Path) != u.Path {
		return Request{}, fmt.Errorf("the path %.200q is not in its canonical form", u.Path)
	}
	parts := strings.Split(u.Path[1:], "/")
	var r Request
	switch {
	case len(parts) == 1 && parts[0] == "version", parts[0] == "openapi", len(parts) <= 2 && parts[0] == "api", len(parts) <= 3 && parts[0] == "apis":
		r.Discovery = true
		r.Verb = map[string]string{"GET": "get", "HEAD": "get"}[method]
		return r, nil
	case parts[0] == "api":
		r.Version, parts = parts[1], parts[2:]
	case parts[0] == "apis":
		r.Group, r.Version, parts = parts[1], parts[2], parts[3:]
	default:
		return r, fmt.Errorf("the path %.200q is none of the API of objects", u.Path)
	}
	if parts[0] == "watch" || parts[0] == "proxy" { // forms of old releases
		return r, fmt.Errorf("the path %.200q has a form of old releases", u.Path)
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		r.Namespace, parts = parts[1], parts[2:]
	}
	r.Resource = parts[0]
	if len(parts) > 1 {
		r.Name = parts[1]
	}
	r.Subresource = strings.Join(parts[min(2, len(parts)):], "/")
	r.Verb = verb(method, r.Name != "", u.Query())
	if r.Verb == "" {
		return r, fmt.Errorf("method %.20q is none of the API of objects", method)
	}
	return r, nil
}

// verbs are those of a collection, and of an object.
var verbs = map[string][2]string{
	"GET": {"list", "get"}, "HEAD": {"list", "get"}, "POST": {"create", "create"}, "PUT": {"update", "update"}, "PATCH": {"patch", "patch"}, "DELETE": {"deletecollection", "delete"},
}

func verb(method string, named bool, query url.Values) string {
	value, watches := query["watch"]
	watches = watches && value[0] != "0" && !strings.EqualFold(value[0], "false") // as the API server reads it
	of := verbs[method]
	switch {
	case watches && (method == "GET" || method == "HEAD"):
		return "watch"
	case named:
		return of[1]
	}
	return of[0]
}

// Writes reports whether the request changes an object.
func (r Request) Writes() bool {
	return !r.Discovery && r.Verb != "get" && r.Verb != "list" && r.Verb != "watch"
}
