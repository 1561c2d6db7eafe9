package fork

import (
	"encoding/json"
	"maps"
	"strings"
)

// meshLabels are the keys of labels by which Istio decides whether a pod is in the mesh, and in
// which revision of it. A fork is in the mesh as its baseline is, so its pods keep them.
func meshLabels() []string {
	return []string{"sidecar.istio.io/inject", "istio.io/rev", "istio.io/dataplane-mode"}
}

// podLabels is where the labels of a workload's pods are.
const podLabels = "/spec/template/metadata/labels"

// labels returns the keys of the pod labels that a patch writes, whether they change or not.
func (f patchForm) labels() map[string]bool {
	keys := map[string]bool{}
	switch f.name {
	case formStrategic, formMerge:
		var patch struct {
			Spec struct {
				Template struct {
					Metadata struct {
						Labels map[string]any `json:"labels"`
					} `json:"metadata"`
				} `json:"template"`
			} `json:"spec"`
		}
		if json.Unmarshal(f.content, &patch) == nil { // what does not fit was refused when it was applied
			note(keys, patch.Spec.Template.Metadata.Labels)
		}
	case formJSON:
		var operations []struct {
			Path  string `json:"path"`
			Value any    `json:"value"`
		}
		_ = json.Unmarshal(f.content, &operations) // as above
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

// both returns the keys of two sets.
func both(a, b map[string]bool) map[string]bool {
	all := maps.Clone(a)
	if all == nil {
		all = map[string]bool{}
	}
	maps.Copy(all, b)
	return all
}
