package frame

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"switchyard.dev/eventbus/event"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/routeserver/table"
)

const (
	namespace = "shop"
	forkKind  = "ForkedWorkload"
)

// Workloads is how many workloads a shop has that is spread.
const Workloads = 50

// Shop is so many workloads with one fork each, which sandboxes share in turn.
type Shop int

// Workload returns one of its workloads.
func (Shop) Workload(i int) table.Workload {
	return table.Workload{Kind: "Deployment", Namespace: namespace, Name: fmt.Sprintf("service-%d", i)}
}

// Present returns the facts of all forks and of so many sandboxes.
func (s Shop) Present(sandboxes int) (facts []event.Fact) {
	for i := range int(s) {
		w := s.Workload(i)
		facts = append(facts, event.Fact{Key: event.Workload(forkKind, namespace, w.Name), Time: time.Now(), Data: &factv1.WorkloadObserved{
			Workload: &factv1.ObjectRef{Kind: forkKind, Namespace: namespace, Name: w.Name, Uid: fmt.Sprintf("%08d-0000-4000-8000-000000000000", i)},
			Created:  timestamppb.New(time.Unix(int64(i), 0)),
			Baseline: &factv1.ObjectRef{Kind: w.Kind, Namespace: namespace, Name: w.Name},
			Services: []*factv1.ServicePair{{
				From: w.Name, To: fmt.Sprintf("feature-%s-%08x", w.Name, i), ClusterIp: fmt.Sprintf("10.0.0.%d", i),
				Ports: []*factv1.PortPair{{Port: 80, WorkloadPort: 8080}},
			}},
			Ready: true,
		}})
	}
	for i := range sandboxes {
		facts = append(facts, s.Declared(fmt.Sprintf("k%012d", i), i))
	}
	return append(facts, event.Fact{Key: event.Log, Time: time.Now(), Data: &factv1.Complete{Reason: "first"}})
}

// Declared returns the fact that routes a key to the fork of a sandbox.
func (s Shop) Declared(key string, sandbox int) event.Fact {
	return event.Fact{Key: event.RoutingKey(key), Time: time.Now(), Data: &factv1.RoutingDeclared{RoutingKey: key, Members: []*factv1.Member{{
		Kind: forkKind, Namespace: namespace, Name: s.Workload(sandbox % int(s)).Name, Sandbox: fmt.Sprintf("feature-%d", sandbox),
	}}}}
}

// Withdrawn returns the fact that a key is no longer in use.
func Withdrawn(key string) event.Fact {
	return event.Fact{Key: event.RoutingKey(key), Time: time.Now(), Data: &factv1.RoutingWithdrawn{RoutingKey: key}}
}
