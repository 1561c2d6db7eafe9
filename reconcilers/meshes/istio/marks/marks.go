// Package marks adds labels and annotations of the installation to VirtualServices, and removes them.
package marks

import (
	"encoding/json"

	"switchyard.dev/eventbus/lists"
)

// Annotation records the labels and annotations that were added, as JSON.
const Annotation = "istio.signadot.com/added"

// added is the content of Annotation.
type added struct {
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Add adds labels and annotations to the metadata of an object where it has none of their names, and
// records which in Annotation.
func Add(metadata map[string]any, labels, annotations map[string]string) {
	if metadata == nil {
		return
	}
	note := added{put(metadata, "labels", labels), put(metadata, "annotations", annotations)}
	if len(note.Labels)+len(note.Annotations) == 0 {
		return
	}
	if text, err := json.Marshal(note); err == nil {
		put(metadata, "annotations", map[string]string{Annotation: string(text)})
	}
}

// put adds the values to a map of the metadata where it has none of the name, and returns those added.
func put(metadata map[string]any, field string, values map[string]string) map[string]string {
	has, _ := metadata[field].(map[string]any)
	now := lists.Merged(has)
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

// Remove removes the labels and annotations that Add added. A value that has changed since is the owner's.
func Remove(metadata map[string]any) {
	annotations, _ := metadata["annotations"].(map[string]any)
	text, noted := annotations[Annotation].(string)
	if !noted {
		return
	}
	var note added
	if json.Unmarshal([]byte(text), &note) != nil {
		return // the operator writes no such value
	}
	delete(annotations, Annotation)
	take(metadata, "labels", note.Labels)
	take(metadata, "annotations", note.Annotations)
}

// take removes the values from a map of the metadata unless they have changed, and the map itself if it
// becomes empty, as the API server does not store empty maps.
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
