// Package written finds the fields that a patch writes, whether or not it changes them. It is pure.
package written

import (
	"encoding/json"
	"strings"
)

// podLabels is where the labels of a workload's pods are.
const podLabels = "/spec/template/metadata/labels"

// PodLabels returns the keys of the pod labels that a patch writes, whether they change or not. form
// is that of the patch: strategic, merge or json.
func PodLabels(form string, content []byte) map[string]bool {
	keys := map[string]bool{}
	switch form {
	case "strategic", "merge":
		var patch struct {
			Spec struct {
				Template struct {
					Metadata struct {
						Labels map[string]any `json:"labels"`
					} `json:"metadata"`
				} `json:"template"`
			} `json:"spec"`
		}
		if json.Unmarshal(content, &patch) == nil { // what does not fit was refused when it was applied
			note(keys, patch.Spec.Template.Metadata.Labels)
		}
	case "json":
		var operations []struct {
			Path  string `json:"path"`
			Value any    `json:"value"`
		}
		_ = json.Unmarshal(content, &operations) // as above
		for _, o := range operations {
			note(keys, labelsAt(o.Path, o.Value))
		}
	}
	return keys
}

// labelsAt returns the pod labels among what an operation of RFC 6902 writes at a path.
func labelsAt(path string, value any) map[string]any {
	if key, ok := strings.CutPrefix(path, podLabels+"/"); ok {
		return map[string]any{strings.NewReplacer("~1", "/", "~0", "~").Replace(key): value}
	}
	rest, ok := strings.CutPrefix(podLabels, path)
	if !ok {
		return nil
	}
	for _, field := range strings.FieldsFunc(rest, func(r rune) bool { return r == '/' }) {
		fields, _ := value.(map[string]any)
		value = fields[field]
	}
	labels, _ := value.(map[string]any)
	return labels
}

// note adds the keys of labels that have a value.
func note(keys map[string]bool, labels map[string]any) {
	for key, value := range labels {
		if value != nil {
			keys[key] = true
		}
	}
}
