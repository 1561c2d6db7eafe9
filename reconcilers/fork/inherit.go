package fork

import (
	"k8s.io/apimachinery/pkg/runtime"

	"switchyard.dev/reconcilers/fork/power"
)

// withConfinement returns next with the restrictions that all containers of the baseline (first) share set
// on the containers that the patch has added, as if they were set on the pod. Fields that a patch sets are
// kept; guardPowers checks the result. before is the draft before the patch.
//
// Restrictions that a power in allowed lets the container drop are not inherited. Nor is a read-only root
// file system: a writable one gives no power beyond the container, and the added container may need it.
func withConfinement(k kind, next, before, first *draft, allowed power.Powers) (*draft, error) {
	changed := false
	pod := at(next.fields, "spec", "template", "spec")
	for _, list := range []string{"initContainers", "containers"} {
		for _, fields := range objects(pod, list) {
			name, _ := fields["name"].(string)
			if _, had := power.ContainerNamed(first.template.Spec, name); had {
				continue
			}
			is, _ := power.ContainerNamed(next.template.Spec, name)
			inherited, err := runtime.DefaultUnstructuredConverter.ToUnstructured(power.Confining(&first.template, &next.template, is, allowed))
			if err != nil {
				return nil, err
			}
			for key, value := range inherited {
				changed = true
				if key == "capabilities" { // The patch can set add without setting drop.
					at(fields, "securityContext", key)["drop"] = at(inherited, key)["drop"]
					continue
				}
				at(fields, "securityContext")[key] = value
			}
		}
	}
	if !changed {
		return next, nil
	}
	document, err := encode(next.fields)
	if err != nil {
		return nil, err
	}
	return k.read(document, before)
}
