package meshes

import (
	"fmt"
	"maps"
	"net"
	"testing"
	"time"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	routing "switchyard.dev/eventbus/event"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/reconcilers/meshes/istio"
)

// TestASandboxComes measures a sandbox in a VirtualService.
func TestASandboxComes(t *testing.T) {
	r := start(t)
	r.hook(r.adapt())
	measured := &inVirtualService
	r.Make(&unstructured.Unstructured{}, `
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: customer, namespace: app}
spec:
  hosts: [customer]
  http: [{timeout: 5s, retries: {attempts: 2}, route: [{destination: {host: customer}}]}]
`)
	alone := size(r)
	for i := range sandboxes {
		r.sandbox(i)
	}
	r.state(routing.Fact{Key: routing.Log, Data: &factv1.Complete{Reason: "bench"}})
	r.written(keyOf(sandboxes-1), true)
	r.led(customer, keyOf(sandboxes-1), forkOf(sandboxes-1))
	measured.bytes = size(r)
	measured.ofOne = (measured.bytes - alone) / sandboxes
	measured.told, measured.full = (istio.NearBytes-alone)/measured.ofOne, (istio.MaxBytes-alone)/measured.ofOne
	for i := range changes {
		came := sandboxes + i
		began := time.Now()
		r.sandbox(came)
		written := r.written(keyOf(came), true)
		measured.written = append(measured.written, written.Sub(began))
		measured.led = append(measured.led, r.led(customer, keyOf(came), forkOf(came)).Sub(written))
		r.withdraw(came) // 500 others stay.
		r.written(keyOf(came), false)
		r.led(customer, keyOf(came), customer)
	}
	annotate(r, byHand(r, measured), measured)
}

// byHand measures the same with an object of the same size that no adapter writes, and returns it.
func byHand(r *rig, measured *figuresOfOne) *unstructured.Unstructured {
	r.Echo(namespace, "byhand", net.IPv4(10, 77, 3, 2))
	o := r.virtualService()
	o = &unstructured.Unstructured{Object: map[string]any{"apiVersion": o.GetAPIVersion(), "kind": o.GetKind(), "spec": o.Object["spec"]}}
	o.SetNamespace(namespace)
	o.SetName("byhand")
	o.SetAnnotations(map[string]string{istio.AnnotationIgnore: "true"})
	r.Must(unstructured.SetNestedStringSlice(o.Object, []string{"byhand"}, "spec", "hosts"))
	routes, _, err := unstructured.NestedSlice(o.Object, "spec", "http")
	r.Must(err)
	for i, route := range routes {
		route.(map[string]any)["name"] = fmt.Sprintf("by-hand-to-the-sandbox-with-the-number-%d", i) // A name of the operator's would be taken out.
	}
	for i := range changes {
		came := sandboxes + i
		first := map[string]any{
			"match": []any{map[string]any{"headers": map[string]any{"baggage": map[string]any{"regex": ".*" + keyOf(came) + ".*"}}}},
			"route": []any{map[string]any{"destination": map[string]any{"host": forkOf(came)}}},
		}
		for _, list := range [][]any{append([]any{maps.Clone(first)}, routes...), routes} {
			r.Must(unstructured.SetNestedSlice(o.Object, list, "spec", "http"))
			took, ended := r.kubectl(o)
			if len(list) == len(routes) {
				r.led("byhand", keyOf(came), customer)
				continue
			}
			measured.applied = append(measured.applied, took)
			measured.ledByHand = append(measured.ledByHand, r.led("byhand", keyOf(came), forkOf(came)).Sub(ended))
		}
	}
	return o
}

// annotate measures the part of a write that every way of writing has: an annotation, without a
// webhook.
func annotate(r *rig, o *unstructured.Unstructured, measured *figuresOfOne) {
	r.Must(r.Client.Delete(r.Context(), &registrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
	for i := range changes {
		time.Sleep(150 * time.Millisecond) // As far apart as the writes of the adapter.
		began := time.Now()
		r.Must(r.Client.Patch(r.Context(), o, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{"change":"%d"}}}`, i))))
		measured.annotated = append(measured.annotated, time.Since(began))
	}
	if text, err := o.MarshalJSON(); err != nil || len(text) < measured.bytes*9/10 {
		r.Fatalf("what was written by hand has %d bytes, the adapter's %d: %v", len(text), measured.bytes, err)
	}
}

// size is how many bytes the object has, without who manages which field.
func size(r *rig) int {
	o := r.virtualService()
	o.SetManagedFields(nil)
	text, err := o.MarshalJSON()
	r.Must(err)
	return len(text)
}
