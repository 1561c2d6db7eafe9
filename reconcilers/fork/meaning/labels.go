package meaning

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Read is a label of its own that a pod reads.
type Read struct {
	// Label is the key of the label, and By its reader.
	Label, By string
}

// String is the end of a sentence.
func (r Read) String() string { return fmt.Sprintf("%s reads label %s", r.By, r.Label) }

// LostLabels returns the labels that a pod reads through the downward API and does not have, while the
// pods of its baseline have them.
func LostLabels(pod *corev1.PodTemplateSpec, baseline map[string]string) (out []Read) {
	lost := func(ref *corev1.ObjectFieldSelector, by string) {
		if ref == nil {
			return
		}
		key, is := strings.CutPrefix(ref.FieldPath, "metadata.labels['")
		key = strings.TrimSuffix(key, "']")
		_, had := baseline[key]
		if _, has := pod.Labels[key]; is && had && !has {
			out = append(out, Read{key, by})
		}
	}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		for _, e := range c.Env {
			if e.ValueFrom != nil {
				lost(e.ValueFrom.FieldRef, fmt.Sprintf("variable %s of container %s", e.Name, c.Name))
			}
		}
	}
	for _, v := range pod.Spec.Volumes {
		var items []corev1.DownwardAPIVolumeFile
		if v.DownwardAPI != nil {
			items = v.DownwardAPI.Items
		}
		if v.Projected != nil {
			for _, s := range v.Projected.Sources {
				if s.DownwardAPI != nil {
					items = append(items, s.DownwardAPI.Items...)
				}
			}
		}
		for _, i := range items {
			lost(i.FieldRef, fmt.Sprintf("file %s of volume %s", i.Path, v.Name))
		}
	}
	return out
}
