package admission

import (
	"cmp"
	"fmt"
	"slices"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/sandbox"
	"switchyard.dev/workflows/execunit"
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
			d.want(Want{
				Access:  Access{Verb: "create", Resource: "pods", Namespace: namespace},
				Purpose: fmt.Sprintf("run the unit %s in namespace %s", u.Name, namespace), At: at,
			})
			for _, r := range execunit.Reads(u) {
				d.want(Want{
					Access:  Access{Verb: "get", Group: r.Group, Resource: plural(r.Kind), Namespace: cmp.Or(r.Namespace, namespace), Name: r.Name},
					Purpose: fmt.Sprintf("have the unit %s read %s %s", u.Name, r.Kind, r.Name), At: at,
				})
			}
		}
	}
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
