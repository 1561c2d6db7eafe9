package meaning

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Doubled returns a message about an entry that a strategic patch has added although it probably meant to
// replace another one, and for which the API server rejects the pod; "" if there is none. before and next
// are the pod before and after the patch. The text is the end of a sentence about the patch.
func Doubled(before, next corev1.PodSpec) string {
	had := map[string]string{}
	each(before, func(place, wrong string) { had[place+wrong] = wrong })
	out := ""
	each(next, func(place, wrong string) {
		if _, old := had[place+wrong]; out == "" && !old {
			out = "gives " + place + " " + wrong
		}
	})
	return out
}

// each calls f for each place of a pod that has an entry twice.
func each(pod corev1.PodSpec, f func(place, wrong string)) {
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		ports(c, f)
		for _, p := range []struct {
			name string
			is   *corev1.Probe
		}{{"livenessProbe", c.LivenessProbe}, {"readinessProbe", c.ReadinessProbe}, {"startupProbe", c.StartupProbe}} {
			if p.is != nil && several(p.is.Exec != nil, p.is.HTTPGet != nil, p.is.TCPSocket != nil, p.is.GRPC != nil) {
				f(fmt.Sprintf("%s of container %q", p.name, c.Name), "several handlers, its own beside that of the baseline: a strategic patch merges the fields of both. Add \"$patch: replace\" to the "+p.name+" of the patch, with all its fields")
			}
		}
		for _, e := range c.Env {
			from := e.ValueFrom
			if e.Value != "" && from != nil || from != nil && several(from.ConfigMapKeyRef != nil, from.SecretKeyRef != nil, from.FieldRef != nil, from.ResourceFieldRef != nil, from.FileKeyRef != nil) {
				f(fmt.Sprintf("variable %s of container %q", e.Name, c.Name),
					"two sources, its own beside that of the baseline: a strategic patch merges the fields of both. Add the variable twice to the patch: first {name: "+e.Name+", $patch: delete}, then with its new value")
			}
		}
	}
}

func ports(c corev1.Container, f func(place, wrong string)) {
	first := map[string]int32{}
	for _, p := range c.Ports {
		if other, twice := first[p.Name]; p.Name != "" && twice {
			f(fmt.Sprintf("container %q", c.Name), fmt.Sprintf("two ports with the name %s, %d and %d: a strategic patch merges ports by containerPort, and adds one with another number. To replace the list, begin ports in the patch with the item {$patch: replace}; to change one, add {containerPort: %d, $patch: delete}",
				p.Name, min(other, p.ContainerPort), max(other, p.ContainerPort), min(other, p.ContainerPort)))
		}
		first[p.Name] = p.ContainerPort
	}
}

func several(given ...bool) bool {
	n := 0
	for _, is := range given {
		if is {
			n++
		}
	}
	return n > 1
}
