package routing

import (
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/member"
)

// Routing is a RoutingConfig with its existing members. It must not be modified.
type Routing struct {
	// Config is the RoutingConfig; nil while there is none.
	Config *crdv1.RoutingConfig
	// Members are those that exist, of all kinds; nil is not among them.
	Members map[member.Name]crdv1.Member
	// KeyHeaders are the custom headers that carry routing keys.
	KeyHeaders []string
	// Mesh has the mesh routes of the meshes that are on.
	Mesh MeshRoutes
	// Specified are the baselines of members that neither exist nor have a recorded baseline, from the
	// present specification of their sandboxes and the present Services of the baselines.
	Specified map[member.Name]Specified
}

// Of returns the Routing of a RoutingConfig, which may be nil, with these members, and with the mesh
// routes of its status. It ignores nil members.
func Of(c *crdv1.RoutingConfig, members []crdv1.Member, keyHeaders []string) Routing {
	r := Routing{Config: c, Members: map[member.Name]crdv1.Member{}, KeyHeaders: keyHeaders, Mesh: MeshRoutesIn(c)}
	for _, m := range members {
		if m != nil {
			r.Members[member.NameOf(m)] = m
		}
	}
	return r
}

// Ref names a member of a sandbox as a RoutingConfig does.
func Ref(m crdv1.Member, sandbox string) crdv1.SandboxedWorkloadRef {
	return crdv1.SandboxedWorkloadRef{Kind: m.MemberKind(), Namespace: m.GetNamespace(), Name: m.GetName(), SandboxName: sandbox}
}

// NameIn returns the name of a member that a RoutingConfig lists.
func NameIn(m crdv1.SandboxedWorkload) member.Name {
	return member.Name{Kind: m.Kind, Namespace: m.Namespace, Name: m.Name}
}

// IsComplete reports whether a member is named: by kind, namespace and name.
func IsComplete(m crdv1.SandboxedWorkload) bool {
	return m.Kind != "" && m.Name != "" && m.Namespace != ""
}

// Named returns the members that a RoutingConfig names, each once.
func Named(c *crdv1.RoutingConfig) []crdv1.SandboxedWorkload {
	if c == nil {
		return nil
	}
	seen := map[member.Name]bool{}
	var out []crdv1.SandboxedWorkload
	for _, m := range c.Spec.SandboxedWorkloads {
		if name := NameIn(m); IsComplete(m) && !seen[name] {
			seen[name] = true
			out = append(out, m)
		}
	}
	return out
}

// Named returns the members that are named, each once, whether there are such or not.
func (r Routing) Named() []crdv1.SandboxedWorkload { return Named(r.Config) }

// Member returns the object of a member that the spec names; nil when there is none.
func (r Routing) Member(m crdv1.SandboxedWorkload) crdv1.Member { return r.Members[NameIn(m)] }

// SandboxName returns the sandbox name of a member, as its pods have it: from the RoutingConfig, else
// from the member's annotation, else the member's name.
func (r Routing) SandboxName(m crdv1.SandboxedWorkload) string {
	if m.SandboxName != "" {
		return m.SandboxName
	}
	if have := r.Member(m); have != nil && have.GetAnnotations()[crdv1.AnnotationSandboxName] != "" {
		return have.GetAnnotations()[crdv1.AnnotationSandboxName]
	}
	return m.Name
}

// TakesRequests reports whether a member replaces a baseline. A tunnel for outgoing connections alone
// does not, so no requests are routed to it.
func TakesRequests(m crdv1.Member) bool {
	_, ok := m.BaselineRef()
	return ok
}

// shown is how many members a message names.
const shown = 3
