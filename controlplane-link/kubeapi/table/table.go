// Package table is the one table of what the agent of a control plane may do with the Kubernetes API.
// It is the allow-list for requests through the link, and its tests generate the agent's RBAC rules and the
// table in controlplane-link/README.md from it. It is pure.
package table

import "slices"

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
		Resources: []string{"signadotsandboxes", "signadotroutegroups", "resources", "signadotexternalworkloads", "virtualworkloads", "forkedworkloads", "signadotobjectlifecyclemethods", "routingconfigs", "istioroutes", "gatewayapiroutes", "jobs", "jobrunnergroups"}},
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

// Never are subresources and resources that no row may have for requests through the link.
var Never = []string{"secrets", "nodes", "proxy", "exec", "attach", "portforward", "ephemeralcontainers", "token", "serviceaccounts", "impersonate"}

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
