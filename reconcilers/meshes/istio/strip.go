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
	// AnnotationIgnore with the value "true" excludes a VirtualService from derived routes, as does
	// crdv1.AnnotationIgnore.
	AnnotationIgnore = "istio.signadot.com/ignore"
	// AnnotationGatewaysOnly with the value "true" declares that no workload of the mesh calls the
	// Services that a VirtualService routes to: only gateways send requests to them.
	AnnotationGatewaysOnly = "istio.signadot.com/gateways-only"
	// AnnotationAdded records the labels and annotations that the operator added to a VirtualService.
	AnnotationAdded = marks.Annotation
)

// Strip returns a copy of a VirtualService without the routes, labels and annotations that the operator
// added.
func Strip(object *unstructured.Unstructured) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: strip(object.Object)}
}

func strip(object map[string]any) map[string]any {
	object = maps.Clone(object)
	if spec, ok := object["spec"].(map[string]any); ok {
		if routes, ok := spec["http"].([]any); ok { // Derived routes, which can be many, are not copied.
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
