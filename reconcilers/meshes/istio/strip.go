package istio

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"switchyard.dev/reconcilers/meshes/istio/marks"
	"switchyard.dev/reconcilers/meshes/istio/names"
)

const (
	// AnnotationIgnore, on a VirtualService, asks us to leave it alone when it is "true", as
	// does that of all routes (crdv1.AnnotationIgnore).
	AnnotationIgnore = "istio.signadot.com/ignore"
	// AnnotationGatewaysOnly, on a VirtualService, says when it is "true" that no workload of the
	// mesh calls the Services that it leads to: their requests come by gateways alone.
	AnnotationGatewaysOnly = "istio.signadot.com/gateways-only"
	// AnnotationAdded, on a VirtualService, holds the labels and annotations that we added.
	AnnotationAdded = marks.Annotation
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
			spec["http"] = slices.DeleteFunc(slices.Clone(routes), names.Derived)
			object["spec"] = spec
		}
	}
	object = runtime.DeepCopyJSON(object)
	metadata, _ := object["metadata"].(map[string]any)
	marks.Remove(metadata)
	return object
}
