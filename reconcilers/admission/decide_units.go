package admission

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/sandbox"
	"switchyard.dev/workflows/engine"
	"switchyard.dev/workflows/execunit"
	"switchyard.dev/workflows/grant"
	"switchyard.dev/workflows/podreads"
)

// mostUnits is how many units one object may have: each is a pod, and some questions.
const mostUnits = 50

// resources adds the rights for the units of a sandbox's resources, and for their outputs in the
// namespaces of its forks and external workloads.
func (d *deciding) resources(s *crdv1.SignadotSandbox, members []sandbox.Ask) {
	for i, r := range s.Spec.ManagedResources {
		d.units(fmt.Sprintf("spec.managedResources[%d].olm", i), r.OLM)
	}
	if len(s.Spec.ManagedResources) == 0 {
		return
	}
	var namespaces []string
	for _, m := range members {
		if ref, _ := m.Object.BaselineRef(); m.Object.MemberKind() != crdv1.KindVirtualWorkload && named(ref) {
			namespaces = append(namespaces, ref.Namespace)
		}
	}
	d.outputs("spec.managedResources", namespaces)
}

// units adds the rights to create the pods of units, and to read the objects that they refer to.
func (d *deciding) units(at string, olm crdv1.OLM) {
	for _, list := range []struct {
		field string
		units []crdv1.WorkUnit
	}{{"preStart", olm.PreStart}, {"postStop", olm.PostStop}} {
		for i, u := range list.units {
			if u.ExecUnitTemplate == nil {
				continue // The controller refuses it.
			}
			namespace := execunit.Namespace(u, execunit.Settings{OperatorNamespace: d.OperatorNamespace})
			at := fmt.Sprintf("%s.%s[%d].execUnitTemplate.podTemplate", at, list.field, i)
			d.run(at, "the unit "+u.Name, namespace, execunit.Reads(u))
		}
	}
}

// run adds the rights to create the pods of an owner in a namespace, and to read the objects that they refer to.
func (d *deciding) run(at, owner, namespace string, reads []podreads.Read) {
	d.want(Want{
		Access:  Access{Verb: "create", Resource: "pods", Namespace: namespace},
		Purpose: fmt.Sprintf("run %s in namespace %s", owner, namespace), At: at,
	})
	for _, r := range reads {
		d.want(Want{
			Access:  Access{Verb: "get", Group: r.Group, Resource: plural(r.Kind), Namespace: cmp.Or(r.Namespace, namespace), Name: r.Name},
			Purpose: fmt.Sprintf("have %s read %s %s", owner, r.Kind, r.Name), At: at,
		})
	}
}

// runners adds the rights for the pods of a runner group.
func (d *deciding) runners(g *crdv1.JobRunnerGroup) {
	var reads []podreads.Read
	if g.Spec.PodTemplate != nil {
		reads = execunit.ReadsOf(g.Spec.PodTemplate.Spec)
	}
	d.run("spec.podTemplate", "the runners "+g.Name, g.Namespace, reads)
}

// outputs adds the right to create Secrets in the namespaces that get the outputs of units.
func (d *deciding) outputs(at string, namespaces []string) {
	for _, namespace := range slices.Compact(slices.Sorted(slices.Values(namespaces))) {
		d.want(Want{
			Access:  Access{Verb: "create", Resource: "secrets", Namespace: namespace},
			Purpose: "have the outputs of a resource in namespace " + namespace, At: at,
		})
	}
}

// units returns a message if an object has too many units; empty otherwise.
func (Limits) units(all ...crdv1.OLM) string {
	n := 0
	for _, olm := range all {
		n += len(olm.PreStart) + len(olm.PostStop)
	}
	if n <= mostUnits {
		return ""
	}
	return fmt.Sprintf("it has %d units, and at most %d are possible: do more in each script, or split it into several objects", n, mostUnits)
}

// Kept describes the values that the units of one SignadotObjectLifecycleMethods have given, or may
// still give, when a specification is changed that reads them.
type Kept struct {
	// At is the field of the changed object with the units that read the values.
	At string
	// Units are those of the specification before the change, and Status their recorded status.
	Units  []crdv1.WorkUnit
	Status []crdv1.WorkUnitStatus
	// Values has the key of each kept value, with the rights that the author of the unit needed that
	// gave it; nil where an earlier version of the operator did not record them.
	Values map[string]*execunit.Rights
}

// kept wants the rights of all units that gave the values an object keeps, removed units included:
// the author of the change decides which units read these values from now on. A unit with outputs that runs
// or waits counts as well, since it may give a value before the change takes effect.
func (d *deciding) kept(k Kept) {
	settings := execunit.Settings{OperatorNamespace: d.OperatorNamespace}
	for _, key := range slices.Sorted(maps.Keys(k.Values)) {
		what := fmt.Sprintf("keep the value %s, which a unit of this object gave", key)
		if rights := k.Values[key]; rights != nil {
			d.rights(k.At, what, *rights)
		} else if i := slices.IndexFunc(k.Units, func(u crdv1.WorkUnit) bool { return gives(u, key) }); i >= 0 {
			d.rights(k.At, what, execunit.RightsOf(k.Units[i], settings))
		} else {
			d.all(k.At, what)
		}
	}
	for _, u := range k.Units {
		st := engine.StatusOf(k.Status, u.Name)
		if len(u.Outputs) > 0 && u.ExecUnitTemplate != nil && (st == nil || st.Finished == nil || st.Phase == crdv1.UnitPending) {
			d.rights(k.At, fmt.Sprintf("keep the values that unit %s is about to give", u.Name), execunit.RightsOf(u, settings))
		}
	}
	for _, st := range k.Status {
		if g, err := grant.Content(st.Grant); err == nil {
			d.rights(k.At, fmt.Sprintf("keep the values that the pod of unit %s is about to give", st.Name), g.Rights)
		}
	}
}

// gives reports whether a value has the key of an output of a unit.
func gives(u crdv1.WorkUnit, key string) bool {
	return slices.Contains(engine.Keys([]crdv1.WorkUnit{u}), key)
}

// instead is the alternative for an author without the rights of the units that gave values.
const instead = "delete the object and create it again, without its values"

// rights adds the rights that the author of a unit needed.
func (d *deciding) rights(at, what string, r execunit.Rights) {
	d.want(Want{Access: Access{Verb: "create", Resource: "pods", Namespace: r.Namespace}, Purpose: what, At: at, Instead: instead})
	for _, read := range r.Reads {
		access := Access{Verb: "get", Group: read.Group, Resource: plural(read.Kind), Namespace: cmp.Or(read.Namespace, r.Namespace), Name: read.Name}
		d.want(Want{Access: access, Purpose: what, At: at, Instead: instead})
	}
}

// all wants every right that a unit can need: the unit that gave the value is unknown.
func (d *deciding) all(at, what string) {
	d.want(Want{Access: Access{Verb: "create", Resource: "pods"}, Purpose: what, At: at, Instead: instead})
	for _, resource := range []string{"secrets", "configmaps", "persistentvolumeclaims"} {
		d.want(Want{Access: Access{Verb: "get", Resource: resource}, Purpose: what, At: at, Instead: instead})
	}
}
