package adapter

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"switchyard.dev/eventbus/event"
	crdv1 "switchyard.dev/protos/crd/v1"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/reconcilers/meshes/istio"
	"switchyard.dev/routeserver/table"
	"switchyard.dev/xds/xdstest"
)

// TestAServiceOfTwoBaselinesLeadsToOneFork has a sandbox fork two workloads behind one Service.
func TestAServiceOfTwoBaselinesLeadsToOneFork(t *testing.T) {
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
	want := []istio.Sandbox{{Key: "k1", Author: "sandbox sb", Mappings: []crdv1.IstioPortMapping{{FromPort: 80, ToService: "sb-a", WorkloadPort: 8080}}}}
	if diff := cmp.Diff(want, got[types.NamespacedName{Namespace: "shop", Name: "both"}].Sandboxes); diff != "" {
		t.Error(diff)
	}
}
