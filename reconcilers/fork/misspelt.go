package fork

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"switchyard.dev/eventbus/lists"
	"switchyard.dev/reconcilers/fork/misspelt"
	"switchyard.dev/reconcilers/fork/power"
)

// checkNames returns a Problem when a patch names a container that is not there and that
// looks like a misspelling of one that is. before and next are the pod before and after
// the patch.
//
// A container without an image cannot be a new one. One with an image can, and then its
// name counts only in a strategic patch, which finds containers by their names; a merge
// or JSON patch adds one on purpose.
func checkNames(form string, before, next corev1.PodSpec, here patchPlace) *Problem {
	names := lists.Map(power.Containers(before), func(c power.Container) string { return c.Name })
	for _, c := range power.Containers(next) {
		if slices.Contains(names, c.Name) || c.Image != "" && form != formStrategic {
			continue
		}
		meant := slices.IndexFunc(names, func(name string) bool {
			_, stays := power.ContainerNamed(next, name)
			return stays && misspelt.Is(c.Name, name)
		})
		switch {
		case meant < 0:
		case c.Image == "":
			return problem(ReasonPatchFailed, "%s names container %q, which is not there: did you mean %q?", here, c.Name, names[meant])
		default:
			return problem(ReasonPatchFailed, "%s names container %q, which is not there: did you mean %q? "+
				"To add a new container, give it a name that is less alike", here, c.Name, names[meant])
		}
	}
	return nil
}
