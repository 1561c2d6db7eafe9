package fork

import (
	"k8s.io/apimachinery/pkg/runtime"

	"switchyard.dev/reconcilers/fork/power"
)

// withConfinement returns next with the containers that patches have added confined by
// what confines every container of the baseline, first: as if the pod said it, which
// containers inherit anyway. A field that a patch gives a value stays as it is; whether
// that is allowed is for guardPowers to say, which looks at the result. before is the
// draft before the patch.
//
// What only a power of allowed would let it leave out is not inherited. Nor is a read-only
// root file system: leaving it out gives no power beyond the container, and what is added
// may have to write.
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
				if key == "capabilities" { // The patch may add some, and say nothing of drop.
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
