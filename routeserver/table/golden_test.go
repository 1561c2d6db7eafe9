package table

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/tests/golden"
)

// A sandbox key, a route group that matches two sandboxes of which both fork
// customer, a workload without a Service, one whose Services have several ways
// to the same port, and a member that nobody has observed.
func TestGoldenTable(t *testing.T) {
	route := observe("sb-b-route", "route")
	route.Ready = false
	route.Services = []*factv1.ServicePair{
		{From: "service-1", To: "sb-b-service-1", ClusterIp: "10.0.0.11", Ports: []*factv1.PortPair{{Port: 80, WorkloadPort: 8080}, {Port: 8000, WorkloadPort: 8080}}},
		{From: "service-2", To: "sb-b-service-2", Ports: []*factv1.PortPair{{Port: 1080, WorkloadPort: 8080}, {Port: 9090, WorkloadPort: 9090}}},
		{From: "service-3", Ports: []*factv1.PortPair{{Port: 80, WorkloadPort: 7070}}},
	}
	younger := observe("sb-b-customer", "customer")
	younger.Created = &timestamppb.Timestamp{Seconds: 2}
	driver := observe("sb-a-driver", "driver")
	driver.Services = nil
	table := Table{}.Apply(
		rec("e", 1, declare("4835rlwxwbwyl", "sb-a-customer", "sb-a-driver", "sb-a-gone")),
		rec("e", 2, declare("group", "sb-b-customer", "sb-a-customer", "sb-b-route")),
		rec("e", 3, observe("sb-a-customer", "customer")),
		rec("e", 4, younger), rec("e", 5, driver), rec("e", 6, route),
		rec("e", 7, &factv1.Complete{}),
	)
	golden.Compare(t, "testdata/hotrod.golden", describe(table))
}

func describe(t Table) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d rules at %d, whole %v\nhash %v\n", t.Len(), t.Pos().Seq, t.Whole(), t.Hash())
	for r := range t.All() {
		fmt.Fprintf(&b, "\n%s %s/%s, key %s -> sandbox %s (%s %s, ready %v), from facts %d and %d\n",
			r.Baseline.Kind, r.Baseline.Namespace, r.Baseline.Name, r.RoutingKey,
			r.Sandbox, r.Member.Kind, r.Member.Name, r.Ready, r.Declared, r.Observed)
		for _, m := range r.Mappings {
			for _, d := range m.Destinations {
				fmt.Fprintf(&b, "  %d -> %s:%d %s\n", m.WorkloadPort, d.Host, d.Port, d.Address)
			}
		}
	}
	for _, c := range t.Conflicts() {
		fmt.Fprintf(&b, "\nkey %s, %s/%s: %s lost to %s\n", c.RoutingKey, c.Baseline.Namespace, c.Baseline.Name, c.Loser.Name, c.Holder.Name)
	}
	return b.String()
}
