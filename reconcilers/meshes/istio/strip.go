package istio

import (
	"encoding/json"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

const (
	// AnnotationIgnore, on a VirtualService, asks us to leave it alone when it is "true", as
	// does that of all routes (crdv1.AnnotationIgnore).
	AnnotationIgnore = "istio.signadot.com/ignore"
	// AnnotationGatewaysOnly, on a VirtualService, says when it is "true" that no workload of the
	// mesh calls the Services that it leads to: their requests come by gateways alone.
	AnnotationGatewaysOnly = "istio.signadot.com/gateways-only"
	// AnnotationAdded, on a VirtualService, holds the labels and annotations that we added.
	AnnotationAdded = "istio.signadot.com/added"
)

// Strip returns a copy of a VirtualService without anything of ours: what it was before
// Render, as its owner has it.
func Strip(object *unstructured.Unstructured) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: strip(object.Object)}
}

func strip(object map[string]any) map[string]any {
	object = maps.Clone(object)
	if spec, ok := object["spec"].(map[string]any); ok {
		if routes, ok := spec["http"].([]any); ok { // Ours are not even copied: they are many.
			spec = maps.Clone(spec)
			spec["http"] = slices.DeleteFunc(slices.Clone(routes), ours)
			object["spec"] = spec
		}
	}
	object = runtime.DeepCopyJSON(object)
	removeAdded(object)
	return object
}

// added is the content of AnnotationAdded.
type added struct {
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// add puts the labels and annotations of the installation on an object that has none of
// theirs, and notes which.
func (m *Mesh) add(object map[string]any) {
	metadata, ok := object["metadata"].(map[string]any)
	if !ok {
		return
	}
	note := added{put(metadata, "labels", m.settings.Labels), put(metadata, "annotations", m.settings.Annotations)}
	if len(note.Labels)+len(note.Annotations) == 0 {
		return
	}
	if text, err := json.Marshal(note); err == nil {
		put(metadata, "annotations", map[string]string{AnnotationAdded: string(text)})
	}
}

// put adds to a map of the metadata what it has not, and returns that.
func put(metadata map[string]any, field string, values map[string]string) map[string]string {
	has, _ := metadata[field].(map[string]any)
	now := maps.Clone(has)
	if now == nil {
		now = map[string]any{}
	}
	news := map[string]string{}
	for name, value := range values {
		if _, taken := has[name]; !taken {
			now[name], news[name] = value, value
		}
	}
	if len(news) > 0 {
		metadata[field] = now
	}
	return news
}

// removeAdded takes off what add put on. A value that has changed since is somebody else's.
func removeAdded(object map[string]any) {
	metadata, _ := object["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	text, noted := annotations[AnnotationAdded].(string)
	if !noted {
		return
	}
	var note added
	if json.Unmarshal([]byte(text), &note) != nil {
		return // not as we write it, so not ours
	}
	delete(annotations, AnnotationAdded)
	take(metadata, "labels", note.Labels)
	take(metadata, "annotations", note.Annotations)
}

// take removes from a map of the metadata the values that it still has, and the map once it
// is empty: the API server keeps no empty ones.
func take(metadata map[string]any, field string, values map[string]string) {
	has, ok := metadata[field].(map[string]any)
	if !ok {
		return
	}
	for name, value := range values {
		if has[name] == value {
			delete(has, name)
		}
	}
	if len(has) == 0 {
		delete(metadata, field)
	}
}
