package meshes_test

import (
	"testing"

	"switchyard.dev/eventbus/event"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/reconcilers/meshes"
	"switchyard.dev/routeserver/table"
)

// Requests of a virtual workload stay at the baseline, unless they are recorded and come back to no sidecar.
func TestARecordedVirtualWorkloadIsRouted(t *testing.T) {
	ports := []*factv1.PortPair{{Port: 80, WorkloadPort: 8080}}
	for name, c := range map[string]struct {
		second *factv1.ServicePair
		want   int
	}{
		"as it is":      {nil, 0},
		"by sidecars":   {&factv1.ServicePair{To: "traffic-cart", ClusterIp: "10.0.0.9", Ports: ports}, 0},
		"by the meshes": {&factv1.ServicePair{From: "cart", To: "traffic-cart", ClusterIp: "10.0.0.9", Ports: ports}, 1},
	} {
		fact := &factv1.WorkloadObserved{
			Workload: &factv1.ObjectRef{Kind: "VirtualWorkload", Namespace: "shop", Name: "v", Uid: "u"},
			Baseline: &factv1.ObjectRef{Kind: "Deployment", Namespace: "shop", Name: "cart"},
			Services: []*factv1.ServicePair{{From: "cart", Ports: ports}}, Ready: true,
		}
		if c.second != nil {
			fact.Services = append(fact.Services, c.second)
		}
		at := func(seq uint64, key event.Key, f event.Fact) event.Recorded {
			f.Key = key
			return event.Recorded{Pos: event.Pos{Epoch: "e", Seq: seq}, Fact: f}
		}
		all := table.Table{}.Apply(
			at(1, event.RoutingKey("k"), event.Fact{Data: &factv1.RoutingDeclared{RoutingKey: "k", Members: []*factv1.Member{{Kind: "VirtualWorkload", Namespace: "shop", Name: "v", Sandbox: "s"}}}}),
			at(2, event.Workload("VirtualWorkload", "shop", "v"), event.Fact{Data: fact}))
		got := meshes.AskedOf(all)["k"]
		if len(got) != c.want {
			t.Errorf("%s: %+v", name, got)
		}
		if len(got) > 0 && (got[0].Service != "cart" || got[0].Mappings[0].ToService != "traffic-cart") {
			t.Errorf("%s: %+v", name, got[0])
		}
	}
}
