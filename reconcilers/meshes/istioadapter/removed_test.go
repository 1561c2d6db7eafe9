package istioadapter

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"switchyard.dev/reconcilers/meshes/istio"
	"switchyard.dev/reconcilers/meshes/istio/names"
	"switchyard.dev/reconcilers/meshes/istioadapter/rewrites"
)

// TestARewriteCountsThatComesBeforeTheOwnWriteIsRead has each sync find a VirtualService without routes,
// which the adapter has written with routes since the sync before.
func TestARewriteCountsThatComesBeforeTheOwnWriteIsRead(t *testing.T) {
	id := types.NamespacedName{Namespace: "shop", Name: "customer"}
	version := 0
	object := func(route string) *unstructured.Unstructured {
		version++
		o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"http": []any{map[string]any{"name": route}}}}}
		o.SetNamespace(id.Namespace)
		o.SetName(id.Name)
		o.SetUID("u")
		o.SetResourceVersion(fmt.Sprint(version))
		return o
	}
	own := names.Of("k1", "customer", 80, "rest")
	a := &Adapter{}
	of := func(have *unstructured.Unstructured) *state {
		return &state{objects: map[types.NamespacedName]*kept{id: {have: have, rendering: &istio.Rendering{Object: object(own)}}}}
	}
	before := of(object("rest"))
	for i := range 9 {
		wrote := map[types.NamespacedName]written{id: {got: object(own)}}
		now := of(object("rest"))
		a.markRewritten(before, now, wrote)
		if marked := now.objects[id].rendering.Object.GetAnnotations()[rewrites.Annotation] != ""; marked != (i == 8) {
			t.Fatalf("after %d writes it is marked: %t", i+1, marked)
		}
		a.markRewritten(now, of(now.objects[id].have), nil) // A sync that finds the same counts nothing.
		before = now
	}
}
