package meshes

import (
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	kubernetesscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	routing "switchyard.dev/eventbus/event"
	crdv1 "switchyard.dev/protos/crd/v1"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/meshes"
	"switchyard.dev/reconcilers/meshes/gatewayadapter"
	"switchyard.dev/reconcilers/meshes/gatewayapi"
	"switchyard.dev/reconcilers/optional"
	"switchyard.dev/reconcilers/policies"
	"switchyard.dev/tests/background"
	"switchyard.dev/tests/world"
)

// TestASandboxComesBesideDerivedRoutes measures a sandbox that has an HTTPRoute of its own.
func TestASandboxComesBesideDerivedRoutes(t *testing.T) {
	r := start(t)
	stop := r.derive()
	r.Make(&unstructured.Unstructured{}, `
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: customer, namespace: app}
spec:
  parentRefs: [{group: "", kind: Service, name: customer, port: 8081}]
  rules: [{timeouts: {request: 5s}, backendRefs: [{name: customer, port: 8081}]}]
`)
	for i := range sandboxes + changes {
		r.ask(i)
	}
	for i := range sandboxes {
		r.sandbox(i)
	}
	r.state(routing.Fact{Key: routing.Log, Data: &factv1.Complete{Reason: "bench"}})
	all := &unstructured.UnstructuredList{}
	all.SetGroupVersionKind(gatewayadapter.HTTPRoutes)
	r.Eventually("all sandboxes have routes", func() error {
		r.List(all, client.InNamespace(namespace), client.HasLabels{gatewayapi.LabelRoutingKey})
		if n := len(all.Items); n < sandboxes {
			return fmt.Errorf("%d of %d have", n, sandboxes)
		}
		return nil
	})
	for i := range all.Items {
		all.Items[i].SetManagedFields(nil)
		text, err := all.Items[i].MarshalJSON()
		r.Must(err)
		derived.bytes += len(text)
	}
	derived.ofOne = derived.bytes / sandboxes
	r.led(customer, keyOf(sandboxes-1), forkOf(sandboxes-1))
	for i := range changes {
		came := sandboxes + i
		began := time.Now()
		r.sandbox(came)
		written := r.written(keyOf(came), true)
		derived.written = append(derived.written, written.Sub(began))
		derived.led = append(derived.led, r.led(customer, keyOf(came), forkOf(came)).Sub(written))
		r.withdraw(came) // 500 others stay.
		r.led(customer, keyOf(came), customer)
	}
	stop()
	derivedByHand(r, all.Items[0])
}

// derivedByHand measures the same with a route that is written directly: the copy of a derived
// one, for another key.
func derivedByHand(r *rig, like unstructured.Unstructured) {
	r.Helper()
	for i := range changes {
		came := sandboxes + i
		o := &unstructured.Unstructured{}
		r.Read(o, fmt.Sprintf(`
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: by-hand-%[1]s, namespace: app}
spec:
  rules:
  - matches: [{path: {type: PathPrefix, value: /}, headers: [{name: baggage, type: RegularExpression, value: ".*%[1]s.*"}]}]
    timeouts: {request: 5s}
    backendRefs: [{name: %[2]s, port: 8081}]
`, keyOf(came), forkOf(came)))
		parents, _, err := unstructured.NestedSlice(like.Object, "spec", "parentRefs")
		r.Must(err)
		r.Must(unstructured.SetNestedSlice(o.Object, parents, "spec", "parentRefs"))
		took, ended := r.kubectl(o)
		derived.applied = append(derived.applied, took)
		derived.ledByHand = append(derived.ledByHand, r.led(customer, keyOf(came), forkOf(came)).Sub(ended))
		r.Must(r.Client.Delete(r.Context(), o))
		r.led(customer, keyOf(came), customer)
	}
}

// derive runs the adapter of the Gateway API, until stop is called or the test ends.
func (r *rig) derive() (stop func()) {
	r.Helper()
	access := r.access()
	var read []optional.Kind
	for kind, definition := range gatewayadapter.Definitions {
		read = append(read, optional.Kind{GroupVersionKind: kind, Definition: definition})
	}
	read = append(read, optional.Kind{GroupVersionKind: baseline.RolloutKind(), Definition: baseline.RolloutDefinition})
	kinds, err := optional.New(optional.Config{REST: access, Logger: world.Quiet, Kinds: read})
	r.Must(err)
	background.Run(r, kinds.Start)
	elected := make(chan struct{})
	close(elected)
	a, err := gatewayadapter.New(gatewayadapter.Config{
		Config: meshes.Config{
			Log: r.log, Kinds: kinds, Elected: elected, Again: r.drained(), Logger: slog.New(slog.DiscardHandler),
			Client: optional.Client{Kinds: kinds, Client: r.cached(access)},
		},
		Settings: gatewayadapter.Settings{Enabled: true, Istio: true, PolicyKinds: []policies.Kind{}},
	})
	r.Must(err)
	return background.Run(r, a.Start)
}

// cached returns a client that reads from caches, as that of the manager does: a sync reads the
// ports of all forks' Services.
func (r *rig) cached(access *rest.Config) client.Client {
	r.Helper()
	s := runtime.NewScheme()
	r.Must(errors.Join(kubernetesscheme.AddToScheme(s), crdv1.AddToScheme(s)))
	from, err := cache.New(access, cache.Options{Scheme: s})
	r.Must(err)
	background.Run(r, from.Start)
	c, err := client.New(access, client.Options{Scheme: s, Cache: &client.CacheOptions{Reader: from}})
	r.Must(err)
	return c
}

// ask asks for the routes of a sandbox as a RoutingConfig does, which does so before the fact.
func (r *rig) ask(i int) {
	r.Helper()
	r.Create(&crdv1.GatewayAPIRoute{
		ObjectMeta: metav1.ObjectMeta{Name: keyOf(i), OwnerReferences: []metav1.OwnerReference{{
			APIVersion: crdv1.APIVersion, Kind: crdv1.KindRoutingConfig, Name: keyOf(i), UID: "of-nobody", Controller: new(true),
		}}},
		Spec: crdv1.IstioRouteSpec{RoutingKey: keyOf(i), Managed: crdv1.ManagedIstioRoute{
			Namespace: namespace, TargetService: customer,
			Baseline:          crdv1.IstioRouteBaseline{WorkloadBaseline: crdv1.WorkloadBaseline{WorkloadID: "u"}, WorkloadRef: crdv1.WorkloadRef{Kind: "Deployment", Namespace: namespace, Name: customer}},
			Mappings:          []crdv1.IstioPortMapping{},
			SandboxedWorkload: crdv1.SandboxedWorkloadRef{Kind: crdv1.KindForkedWorkload, Namespace: namespace, Name: forkOf(i)},
		}},
	})
}
