package admission

import (
	"cmp"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
)

// SettingLimits is the value of the chart with the Limits.
const SettingLimits = "sandboxes.limits"

// Limits bound the requests of one object, since they are carried out with the operator's rights, past
// the quotas of its author.
type Limits struct {
	// Members are forks, external and virtual workloads together. Zero means
	// DefaultMembers.
	Members int
	// Patches are those of all forks. Zero means DefaultPatches.
	Patches int
	// Replicas bounds the pods of all forks. Zero means DefaultReplicas.
	Replicas int
}

// Defaults of Limits.
const (
	DefaultMembers  = 100
	DefaultPatches  = 500
	DefaultReplicas = 200
)

// WithDefaults returns the Limits with every number set.
func (l Limits) WithDefaults() Limits {
	l.Members = cmp.Or(max(l.Members, 0), DefaultMembers)
	l.Patches = cmp.Or(max(l.Patches, 0), DefaultPatches)
	l.Replicas = cmp.Or(max(l.Replicas, 0), DefaultReplicas)
	return l
}

// Exceeded returns a message about the bound on members and patches that an object exceeds; empty:
// none. They are counted before any other computation.
func (l Limits) Exceeded(o runtime.Object) string {
	switch o := o.(type) {
	case *crdv1.SignadotSandbox:
		return l.ofSandbox(o)
	case *crdv1.Resource:
		return l.resource(o)
	case *crdv1.SignadotObjectLifecycleMethods:
		return l.units(o.Spec.OLM)
	case *crdv1.ForkedWorkload:
		return l.patches(len(o.Spec.Patches))
	case *crdv1.RoutingConfig:
		return l.references(len(o.Spec.SandboxedWorkloads))
	case *crdv1.SignadotRouteGroup:
		return l.references(len(o.Spec.SandboxNames))
	}
	return ""
}

// mostReferences is how many sandboxes a route group, and members a RoutingConfig, may
// name: each is a question to the API server.
const mostReferences = mostWants

// references returns a message if an object names too many others; empty otherwise.
func (Limits) references(n int) string {
	if n <= mostReferences {
		return ""
	}
	return fmt.Sprintf("it names %d objects, and at most %d are possible: split it into several", n, mostReferences)
}

// ofSandbox returns which bound a sandbox exceeds.
func (l Limits) ofSandbox(s *crdv1.SignadotSandbox) string {
	targets, patches := map[crdv1.ObjectRef]bool{}, 0
	if c := s.Spec.Customization; c != nil {
		patches = len(c.Patches)
		for _, p := range c.Patches {
			targets[p.Target] = true
		}
	}
	if n := len(targets) + len(s.Spec.ExternalWorkloads) + len(s.Spec.VirtualWorkloads); n > l.Members {
		return fmt.Sprintf("it has %d members, and at most %d are possible (%s.members): make two sandboxes of it, with a route group", n, l.Members, SettingLimits)
	}
	return cmp.Or(l.patches(patches), l.units(lists.Map(s.Spec.ManagedResources, func(r crdv1.SandboxResource) crdv1.OLM { return r.OLM })...))
}

// resource returns which bound a resource exceeds.
func (l Limits) resource(r *crdv1.Resource) string {
	return cmp.Or(l.units(r.Spec.OLM), l.references(len(r.Spec.OutputNamespaces)))
}

// patches returns a message if there are too many patches; empty otherwise.
func (l Limits) patches(n int) string {
	if n <= l.Patches {
		return ""
	}
	return fmt.Sprintf("it has %d patches, and at most %d are possible (%s.patches): combine the patches of each workload", n, l.Patches, SettingLimits)
}

// replicas returns a message if forks ask for too many pods; empty otherwise.
func (l Limits) replicas(n int64) string {
	if n <= int64(l.Replicas) {
		return ""
	}
	return fmt.Sprintf("its forks ask for %d pods, and at most %d are possible (%s.replicas): ask for fewer replicas in its patches", n, l.Replicas, SettingLimits)
}
