package istioadapter

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"switchyard.dev/eventbus/lists"
	"switchyard.dev/reconcilers/meshes/istio"
	"switchyard.dev/reconcilers/meshes/istio/names"
	"switchyard.dev/reconcilers/meshes/istioadapter/managedfields"
	"switchyard.dev/reconcilers/meshes/istioadapter/rewrites"
)

// AnnotationRoutes, on a VirtualService, is a digest of its routes while it has some of the operator's.
// Writing it makes the webhook add the operator's routes.
const AnnotationRoutes = "istio.signadot.com/routes"

// render returns the rendering of a VirtualService. before is the object before the write under review;
// nil if it does not matter.
func render(m *istio.Mesh, o, before *unstructured.Unstructured) *istio.Rendering {
	original, fault := read(o, m.ClusterDomain())
	if fault == nil && before != nil {
		original.Keep(before)
	}
	r, _ := renderAgain(m, o, original, fault, nil)
	return r
}

// renderAgain returns the rendering of a VirtualService, with the digest of its routes. made is false
// if it is before, which may be nil and is reused while it is current. Changed is set if the result
// differs from have, or if the operator owns a part of the spec, which a partly failed write leaves.
//
// A VirtualService on which this code panics is left unchanged, so that the others get their routes.
func renderAgain(m *istio.Mesh, have *unstructured.Unstructured, original *istio.Original, fault error, before *istio.Rendering) (r *istio.Rendering, made bool) {
	defer func() {
		if fault := recover(); fault != nil {
			r, made = m.Unrendered(have, fmt.Errorf("an error of the operator: %v", fault)), true
		}
	}()
	if fault != nil {
		return m.Unrendered(have, fault), true
	}
	if r, made = m.RenderAgain(original, before); !made {
		return r, false
	}
	if names.HasRoutes(r.Object) {
		annotate(r.Object, AnnotationRoutes, digest(r.Object))
	} else {
		annotate(r.Object, rewrites.Annotation, "")
	}
	r.Changed = !same(have, r.Object) || slices.ContainsFunc(have.GetManagedFields(), managedfields.OwnsSpec)
	return r, true
}

// withoutDigest returns a VirtualService without AnnotationRoutes.
func withoutDigest(o *unstructured.Unstructured) *unstructured.Unstructured {
	metadata, _ := o.Object["metadata"].(map[string]any)
	o = &unstructured.Unstructured{Object: maps.Clone(o.Object)}
	if metadata != nil {
		o.Object["metadata"] = maps.Clone(metadata)
	}
	annotate(o, AnnotationRoutes, "")
	return o
}

// annotate sets an annotation; an empty value removes it.
func annotate(o *unstructured.Unstructured, name, value string) {
	annotations := lists.Merged(o.GetAnnotations())
	if _, has := annotations[name]; !has && value == "" {
		return
	}
	if annotations[name] = value; value == "" {
		delete(annotations, name)
	}
	if len(annotations) == 0 {
		unstructured.RemoveNestedField(o.Object, "metadata", "annotations")
		return
	}
	o.SetAnnotations(annotations)
}

// routesOf returns the HTTP routes of a VirtualService as they stand in it; nil for none.
func routesOf(o *unstructured.Unstructured) any {
	spec, _ := o.Object["spec"].(map[string]any)
	return spec["http"]
}

// digest returns a hash of the routes of a VirtualService, as 16 hexadecimal digits.
func digest(o *unstructured.Unstructured) string {
	text, err := json.Marshal(routesOf(o))
	if err != nil {
		return "" // Never: JSON came in.
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// same reports whether two copies of a VirtualService have the same routes, labels and annotations, the
// only fields that the operator writes.
func same(a, b *unstructured.Unstructured) bool {
	return names.Equal(routesOf(a), routesOf(b)) && maps.Equal(a.GetLabels(), b.GetLabels()) && maps.Equal(a.GetAnnotations(), b.GetAnnotations())
}
