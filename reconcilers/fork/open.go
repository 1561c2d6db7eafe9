package fork

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// replicasPointer is where a JSON patch finds the number of pods.
const replicasPointer = "/spec/replicas"

// sizes reports whether the patch sets the number of replicas, even to the current number.
func (f patchForm) sizes() bool {
	if f.name != formJSON {
		return gives(f.content, replicasPointer)
	}
	type operation struct {
		Op    string          `json:"op"`
		Path  string          `json:"path"`
		Value json.RawMessage `json:"value"`
	}
	var operations []operation
	if json.Unmarshal(f.content, &operations) != nil {
		return false
	}
	return slices.ContainsFunc(operations, func(o operation) bool {
		rest, within := strings.CutPrefix(replicasPointer, o.Path)
		within = within && (rest == "" || rest[0] == '/')
		switch o.Op {
		case "add", "replace":
			return within && gives(o.Value, rest)
		case "copy", "move":
			return o.Path == replicasPointer
		}
		return false
	})
}

// gives reports whether the document has a value at a JSON pointer.
func gives(document []byte, pointer string) bool {
	var value any
	if json.Unmarshal(document, &value) != nil {
		return false
	}
	for _, key := range strings.Split(pointer, "/")[1:] {
		fields, _ := value.(map[string]any)
		value = fields[key]
	}
	return value != nil
}

// yields returns the field paths of a fork that are left to other field managers that set them (decision
// record 0021). first is the baseline before all patches.
func yields(o Object, template *corev1.PodTemplateSpec, first *draft) [][]string {
	var out [][]string
	copied := func(have, baseline map[string]string, path ...string) {
		for _, key := range slices.Sorted(maps.Keys(have)) {
			if value, ok := baseline[key]; ok && value == have[key] {
				out = append(out, append(slices.Clone(path), key))
			}
		}
	}
	copied(o.GetAnnotations(), first.meta.Annotations, "metadata", "annotations")
	copied(template.Annotations, first.template.Annotations, "spec", "template", "metadata", "annotations")
	return out
}
