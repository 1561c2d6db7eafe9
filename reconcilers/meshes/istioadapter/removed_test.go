package istioadapter

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"switchyard.dev/reconcilers/meshes"
	"switchyard.dev/reconcilers/meshes/destinationrules"
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

// TestACopyWithinItsPauseIsQueuedBeforeRoutes writes routes to a host while the copied DestinationRule
// was written a moment ago and the cache does not have it.
func TestACopyWithinItsPauseIsQueuedBeforeRoutes(t *testing.T) {
	id, service := types.NamespacedName{Namespace: "shop", Name: "copy"}, types.NamespacedName{Namespace: "shop", Name: "customer"}
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"host": "customer-k1.shop"}}}
	a := &Adapter{ruleQueue: workqueue.NewTypedRateLimitingQueue(meshes.NewPauses[types.NamespacedName]()), state: &state{rules: rules{
		wanted:  map[types.NamespacedName]*unstructured.Unstructured{id: object},
		derived: map[types.NamespacedName]*destinationrules.Rule{id: {Object: object, Of: []destinationrules.Of{{Key: "k1", Service: service}}}},
	}}}
	t.Cleanup(a.ruleQueue.ShutDown)
	a.ruleWrites.Wrote(id, nil, object, time.Now())
	for range 2 {
		a.rulesFirst(t.Context(), map[types.NamespacedName]bool{service: true})
	}
	if n := a.ruleQueue.NumRequeues(id); n != 1 {
		t.Errorf("it is queued %d times, not once", n)
	}
}
