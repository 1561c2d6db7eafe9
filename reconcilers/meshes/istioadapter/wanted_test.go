package istioadapter

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"switchyard.dev/eventbus/event"
	crdv1 "switchyard.dev/protos/crd/v1"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/reconcilers/meshes/istio"
	"switchyard.dev/reconcilers/routing"
	"switchyard.dev/routeserver/table"
	"switchyard.dev/xds/xdstest"
)

// TestAServiceOfTwoBaselinesRoutesToOneFork has a sandbox fork two workloads behind one Service.
func TestAServiceOfTwoBaselinesRoutesToOneFork(t *testing.T) {
	var facts []event.Fact
	declared := &factv1.RoutingDeclared{RoutingKey: "k1"}
	for _, name := range []string{"b", "a"} {
		observed, of := xdstest.Fork{Baseline: table.Workload{Kind: "Deployment", Namespace: "shop", Name: name}, Key: "k1", Sandbox: "sb",
			Port: 8080, Destination: netip.MustParseAddrPort("10.0.0.9:80")}.Facts()
		service := observed.Data.(*factv1.WorkloadObserved).GetServices()[0]
		service.From = "both"
		if name == "b" {
			service.Ports = append(service.Ports, &factv1.PortPair{Port: 81, WorkloadPort: 8081})
		}
		declared.Members = append(declared.Members, of.Data.(*factv1.RoutingDeclared).GetMembers()...)
		facts = append(facts, observed)
	}
	got := servicesOf(told(append(facts, event.Fact{Key: event.RoutingKey("k1"), Data: declared})...))
	want := []istio.Sandbox{{Key: "k1", Author: "routing key k1", Mappings: []crdv1.IstioPortMapping{{FromPort: 80, ToService: "sb-a", WorkloadPort: 8080}}}}
	if diff := cmp.Diff(want, got[types.NamespacedName{Namespace: "shop", Name: "both"}].Sandboxes); diff != "" {
		t.Error(diff)
	}
}

// TestTheOwnerOfAKeyIsCharged has several objects name Ada's sandbox: each key's routes count for
// the author of what the key belongs to.
func TestTheOwnerOfAKeyIsCharged(t *testing.T) {
	by := func(name, author string) metav1.ObjectMeta {
		m := metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Annotations: map[string]string{}}
		if author != "" {
			m.Annotations[crdv1.AnnotationAuthor] = crdv1.Author{User: author}.String()
		}
		return m
	}
	config := func(meta metav1.ObjectMeta, owner string) *crdv1.RoutingConfig {
		if owner != "" {
			meta.OwnerReferences = []metav1.OwnerReference{{Name: owner, UID: types.UID("uid-" + owner), Controller: new(true)}}
		}
		return &crdv1.RoutingConfig{ObjectMeta: meta}
	}
	rival := config(by("rival", "mallory"), "")
	rival.Annotations[crdv1.AnnotationRoutingKey] = "of-sandbox"
	first := config(by("of-sandbox", ""), "adas")
	first.Annotations[routing.AnnotationDeclaredKey] = "of-sandbox"
	scheme := runtime.NewScheme()
	if err := crdv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects([]client.Object{
		&crdv1.SignadotSandbox{ObjectMeta: by("adas", "ada")},
		&crdv1.SignadotRouteGroup{ObjectMeta: by("mallorys", "mallory")},
		&crdv1.SignadotRouteGroup{ObjectMeta: by("old", "")},
		first, rival,
		config(by("of-group", ""), "mallorys"),
		config(by("of-old-group", ""), "old"),
		config(by("by-hand", "mallory"), ""),
		config(by("claims-ada", "mallory"), "adas"),
		config(by("of-nobody", ""), ""),
	}...).Build()
	want := map[string]string{
		"of-sandbox": "user ada", "of-group": "user mallory", "of-old-group": "route group old", "by-hand": "user mallory",
		"claims-ada": "user mallory", "of-nobody": "RoutingConfig of-nobody", "gone": "routing key gone",
	}
	var facts []event.Fact
	for key := range want {
		observed, declared := xdstest.Fork{Baseline: table.Workload{Kind: "Deployment", Namespace: "shop", Name: "customer"}, Key: key, Sandbox: "adas",
			Port: 8080, Destination: netip.MustParseAddrPort("10.0.0.9:80")}.Facts()
		facts = append(facts, observed, declared)
	}
	services := servicesOf(told(facts...))
	if err := withAuthors(t.Context(), c, services); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, sandbox := range services[types.NamespacedName{Namespace: "shop", Name: "customer"}].Sandboxes {
		got[sandbox.Key] = sandbox.Author
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
