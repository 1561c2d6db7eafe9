package meaning

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

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

// freeForm are the fields of a patch below which null has a meaning: it removes a field.
var freeForm = []string{"strategic", "merge", "json"}

// LostNulls returns the fields of patches that are null in the specification given to kubectl apply and
// missing in the one at the API server: kubectl removes them, so the patch leaves these fields unchanged.
// Both are JSON; path is the path of the specification.
func LostNulls(applied, stored []byte, path string) []string {
	var given, has any
	if json.Unmarshal(applied, &given) != nil || json.Unmarshal(stored, &has) != nil {
		return nil
	}
	return lostNulls(given, has, path, false)
}

func lostNulls(given, has any, path string, counts bool) (out []string) {
	switch given := given.(type) {
	case map[string]any:
		has, _ := has.(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(given)) {
			value, there := has[key]
			switch at := path + "." + key; {
			case given[key] == nil && counts && !there && has != nil:
				out = append(out, at)
			case there:
				out = append(out, lostNulls(given[key], value, at, counts || slices.Contains(freeForm, key))...)
			case counts && onlyNulls(given[key]): // kubectl keeps the empty object, other clients may not.
				out = append(out, at)
			}
		}
	case []any:
		has, _ := has.([]any)
		for i := range given {
			if len(has) == len(given) {
				out = append(out, lostNulls(given[i], has[i], fmt.Sprintf("%s[%d]", path, i), counts)...)
			}
		}
	}
	return out
}

// onlyNulls reports whether an object has nulls and nothing else.
func onlyNulls(value any) bool {
	object, is := value.(map[string]any)
	for _, v := range object {
		if v != nil && !onlyNulls(v) {
			return false
		}
	}
	return is && len(object) > 0
}

// ExplainLostNulls is the sentence about them.
func ExplainLostNulls(paths []string) string {
	return fmt.Sprintf("kubectl apply removed null from these patches, which therefore do not remove the fields %s: replace null with {$patch: delete}, use a JSON patch with op remove, or apply the file with kubectl apply --server-side.", strings.Join(paths, ", "))
}
