package admission

import (
	"cmp"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/fork/power"
	"switchyard.dev/reconcilers/sandbox"
)

// Access is one right, in the form of a SubjectAccessReview.
type Access struct {
	// Resource is followed by a subresource where it concerns one: pods/exec.
	Verb, Group, Resource string
	// Namespace is empty for kinds that have none.
	Namespace string
	// Name is empty for all objects of the namespace, and for create.
	Name string
}

// Want is a right that an author needs, and its purpose.
type Want struct {
	Access
	// Purpose is the action that requires it, as "fork Deployment shop/customer".
	Purpose string
	// At is the field that requires it.
	At string
	// Instead is an alternative to requesting the right; it may be empty.
	Instead string
}

// Input is the input of Decide for one object.
type Input struct {
	// Object is a pointer to one of the kinds of Kinds.
	Object runtime.Object
	// Before is the object before the change; nil for a new one. It has the type of Object.
	Before crdv1.Object
	// Change has the relevant changes of the request.
	Change Change
	// Resource is the resource of the object's kind, such as signadotsandboxes.
	Resource string
	// Baselines are the live workloads that the object names. nil: do not compute the objects that its
	// patches read.
	Baselines map[crdv1.ObjectRef]Baseline
	// Captured are the baselines of the forks that a TrafficCapture is of.
	Captured []crdv1.ObjectRef
	// Kept are the values that units of the object gave before this change of it.
	Kept []Kept
	// OperatorNamespace is where the operator lives.
	OperatorNamespace string
	// Powers are those that the patches of any user may add.
	Powers power.Powers
	// Limits bound the requests of one object.
	Limits Limits
	// GivenUp reports whether the caller no longer waits, so that the Decision will not be
	// used. nil: the caller waits.
	GivenUp func() bool
}

// Baseline is a workload that an object names.
type Baseline struct {
	// Live is the workload; nil if it does not exist or cannot be read.
	Live *baseline.Workload
	// Missing is the reason why Live is nil, as the end of a sentence about the workload.
	Missing string
}

// Decision has the rights that an object requires.
type Decision struct {
	// Wants are the rights that its author needs, each once.
	Wants []Want
	// TooMuch is a message about the limit that it exceeds; empty: none.
	TooMuch string
}

// Decide returns the rights that the author of an object needs.
func Decide(in Input) Decision {
	d := &deciding{Input: in, had: map[Access]bool{}}
	d.deletion()
	if in.Change.Spec {
		d.specification()
	}
	return Decision{Wants: d.wants, TooMuch: d.tooMuch}
}

// specification checks the bounds of a specification and collects the rights that it needs.
func (d *deciding) specification() {
	if d.tooMuch = d.Limits.Exceeded(d.Object); d.tooMuch != "" {
		return
	}
	switch o := d.Object.(type) {
	case *crdv1.SignadotSandbox:
		members := asks(o, d.OperatorNamespace)
		d.members(members, true)
		d.resources(o, members)
	case *crdv1.Resource:
		d.units("spec.olm", o.Spec.OLM)
		d.outputs("spec.outputNamespaces", o.Spec.OutputNamespaces)
	case *crdv1.SignadotObjectLifecycleMethods:
		d.units("spec", o.Spec.OLM)
	case *crdv1.JobRunnerGroup:
		d.runners(o)
	case *crdv1.Job:
		d.job(o)
	case *crdv1.TrafficCapture:
		d.capture(o)
	case crdv1.Member:
		d.members([]sandbox.Ask{{At: "spec.baseline", Object: o}}, false)
	case *crdv1.RoutingConfig:
		d.routingConfig(o)
	case *crdv1.SignadotRouteGroup:
		d.routeGroup(o)
	}
	for _, k := range d.Kept {
		d.kept(k)
	}
}

// References returns the workloads that an object names and that patches are for, each
// once.
func References(o runtime.Object, operatorNamespace string) []crdv1.ObjectRef {
	var members []sandbox.Ask
	switch o := o.(type) {
	case *crdv1.SignadotSandbox:
		members = asks(o, operatorNamespace)
	case *crdv1.ForkedWorkload:
		members = []sandbox.Ask{{Object: o}}
	}
	var out []crdv1.ObjectRef
	had := map[crdv1.ObjectRef]bool{}
	for _, m := range members {
		w, ok := m.Object.(*crdv1.ForkedWorkload)
		if ref, _ := m.Object.BaselineRef(); ok && named(ref) && !had[ref] && len(w.Spec.Patches) > 0 {
			had[ref] = true
			out = append(out, ref)
		}
	}
	return out
}

// asks returns the members of a sandbox, each with its field in the spec.
func asks(s *crdv1.SignadotSandbox, operatorNamespace string) []sandbox.Ask {
	all := sandbox.Asks(sandbox.Input{Sandbox: s, OperatorNamespace: operatorNamespace})
	for i := range all {
		all[i].At = "spec." + all[i].At
	}
	return all
}

// deciding collects the rights that an object requires.
type deciding struct {
	Input
	wants   []Want
	had     map[Access]bool
	pods    int64
	tooMuch string
}

// want adds a right, unless it was added before.
func (d *deciding) want(w Want) {
	if !d.had[w.Access] {
		d.had[w.Access] = true
		d.wants = append(d.wants, w)
	}
}

// members adds the rights for members. ofSandbox is true if a single sandbox asks for them: only then
// are the outputs of resources in them valid.
func (d *deciding) members(all []sandbox.Ask, ofSandbox bool) {
	for _, m := range all {
		if d.GivenUp != nil && d.GivenUp() {
			return
		}
		ref, ok := m.Object.BaselineRef()
		if !ok {
			d.freeTunnel(m)
			continue
		}
		if !named(ref) {
			continue // It replaces no workload: the controller refuses it.
		}
		group, resource := resourceOf(ref)
		d.want(Want{
			Access:  Access{Verb: "create", Group: group, Resource: resource, Namespace: ref.Namespace},
			Purpose: purpose(m.Object) + " " + baseline.Describe(ref), At: m.At,
		})
		if w, ok := m.Object.(*crdv1.ForkedWorkload); ok && d.Baselines != nil {
			d.reads(w, ref, ofSandbox)
		}
	}
	d.tooMuch = cmp.Or(d.tooMuch, d.Limits.replicas(d.pods))
}

// freeTunnel adds the right for an external workload without a baseline: it gets a Service. In the
// operator's own namespace it needs none.
func (d *deciding) freeTunnel(m sandbox.Ask) {
	namespace := m.Object.GetNamespace()
	if namespace == d.OperatorNamespace {
		return
	}
	d.want(Want{
		Access:  Access{Verb: "create", Resource: "services", Namespace: namespace},
		Purpose: "have a Service for a tunnel in namespace " + namespace, At: m.At,
	})
}

// named reports whether a reference names a workload; the controllers take no other.
func named(ref crdv1.ObjectRef) bool {
	return ref.Kind != "" && ref.Name != "" && ref.Namespace != ""
}

// purpose returns the action of a member on its baseline.
func purpose(m crdv1.Member) string {
	switch m.MemberKind() {
	case crdv1.KindForkedWorkload:
		return "fork"
	case crdv1.KindExternalWorkload:
		return "take the requests of"
	default:
		return "stand before"
	}
}

// resourceOf returns the API group and resource of a kind of workload. A kind that this
// version does not know may be one that a later one does: its resource is guessed.
func resourceOf(ref crdv1.ObjectRef) (group, resource string) {
	return baseline.GroupOf(ref), plural(ref.Kind)
}

// plural returns the resource of a kind by the naming convention of Kubernetes.
func plural(kind string) string {
	guessed, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Kind: kind})
	return guessed.Resource
}

// routingConfig adds the rights for the members of a RoutingConfig.
func (d *deciding) routingConfig(c *crdv1.RoutingConfig) {
	for i, m := range c.Spec.SandboxedWorkloads {
		d.want(Want{
			Access:  Access{Verb: "get", Group: crdv1.Group, Resource: plural(m.Kind), Namespace: m.Namespace, Name: m.Name},
			Purpose: fmt.Sprintf("route requests to %s %s/%s", m.Kind, m.Namespace, m.Name),
			At:      fmt.Sprintf("spec.sandboxedWorkloads[%d]", i),
		})
	}
}

// sandboxes and routeGroups are the resources of two kinds.
var sandboxes, routeGroups = strings.ToLower(crdv1.KindSandbox) + "es", plural(crdv1.KindRouteGroup)

// job adds the rights to run a script in the pods of a runner group, with the routing key of a sandbox or route group.
func (d *deciding) job(j *crdv1.Job) {
	d.want(Want{
		Access:  Access{Verb: "create", Resource: "pods/exec", Namespace: j.Spec.RunnerGroup.Namespace},
		Purpose: fmt.Sprintf("run a script in the pods of runner group %s/%s", j.Spec.RunnerGroup.Namespace, j.Spec.RunnerGroup.Name), At: "spec.runnerGroup",
	})
	c := j.Spec.RoutingContext
	if c == nil {
		return
	}
	for _, one := range []struct{ resource, name, at string }{{sandboxes, c.SandboxName, "sandboxName"}, {routeGroups, c.RouteGroupName, "routegroupName"}} {
		if one.name != "" {
			d.want(Want{
				Access:  Access{Verb: "get", Group: crdv1.Group, Resource: one.resource, Name: one.name},
				Purpose: "run a script with the routing key of " + one.name, At: "spec.routingContext." + one.at,
			})
		}
	}
}

// routeGroup adds the rights for the sandboxes of a route group.
func (d *deciding) routeGroup(g *crdv1.SignadotRouteGroup) {
	for i, name := range g.Spec.SandboxNames {
		if name == "" {
			continue
		}
		d.want(Want{
			Access:  Access{Verb: "get", Group: crdv1.Group, Resource: sandboxes, Name: name},
			Purpose: "route requests to the members of SignadotSandbox " + name,
			At:      fmt.Sprintf("spec.sandboxNames[%d]", i),
		})
	}
	for i, m := range g.Spec.TrafficManagerMatches { // as for a TrafficCapture; without a workload everywhere
		ref := crdv1.ObjectRef{APIVersion: "apps/v1", Kind: baseline.KindDeployment}
		if m.Workload != nil {
			ref.Kind, ref.Name, ref.Namespace = m.Workload.Kind, m.Workload.Name, m.Workload.Namespace
		}
		if ref.Kind == baseline.KindRollout {
			ref.APIVersion = "argoproj.io/v1alpha1"
		}
		group, resource := resourceOf(ref)
		d.want(Want{
			Access:  Access{Verb: "create", Group: group, Resource: resource, Namespace: ref.Namespace},
			Purpose: "have requests pass middleware " + m.Instance.Middleware, At: fmt.Sprintf("spec.trafficManagerMatches[%d]", i),
		})
	}
}
