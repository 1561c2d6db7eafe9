// Package served contains the common parts of the conformance tests of the route server's APIs: a
// log with facts, and a route server that serves the resulting table.
package served

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/routeserver/server"
	"switchyard.dev/tests/background"
	"switchyard.dev/tools/wait"
)

// Log is a log and those who write to it.
type Log struct {
	eventbus.Log
	t testing.TB
}

// Begin begins a log.
func Begin(t testing.TB, log eventbus.Log) *Log {
	t.Helper()
	if _, err := log.Begin(t.Context(), event.Mark{}); err != nil {
		t.Fatal(err)
	}
	return &Log{log, t}
}

// State records facts as the newest of their keys and returns the place of the last.
func (l *Log) State(data ...proto.Message) event.Pos {
	l.t.Helper()
	return State(l.t, l.Log, data...)
}

// State records facts as the newest of their keys on a log and returns the place of the last.
func State(t testing.TB, log eventbus.Log, data ...proto.Message) (at event.Pos) {
	t.Helper()
	for _, d := range data {
		fact := event.Fact{Key: KeyOf(d), Time: time.Unix(1, 0), Data: d, Cause: event.Cause{Kind: "SignadotSandbox", Name: "sb", Manager: "test"}}
		newest, _, err := log.Newest(context.Background(), fact.Key)
		var mark event.Mark
		if err == nil {
			mark, err = log.Append(context.Background(), fact, newest.Pos.Seq)
		}
		if err != nil {
			t.Errorf("state %s: %v", fact.Key, err)
			return at
		}
		at = mark.Pos
	}
	return at
}

// End returns the place of the last event.
func (l *Log) End() event.Pos {
	l.t.Helper()
	tip, err := l.Tip(context.Background())
	if err != nil {
		l.t.Fatal(err)
	}
	return tip
}

// KeyOf returns the key of a fact.
func KeyOf(d proto.Message) event.Key {
	switch d := d.(type) {
	case *factv1.Floor:
		return event.LogFloor
	case *factv1.KeyHeadersDeclared:
		return event.KeyHeaders
	case interface{ GetRoutingKey() string }:
		return event.RoutingKey(d.GetRoutingKey())
	case interface{ GetWorkload() *factv1.ObjectRef }:
		return event.Workload(d.GetWorkload().GetKind(), d.GetWorkload().GetNamespace(), d.GetWorkload().GetName())
	default:
		return event.Log
	}
}

// Declare returns the fact that a routing key has members.
func Declare(routingKey string, members ...*factv1.Member) *factv1.RoutingDeclared {
	return &factv1.RoutingDeclared{RoutingKey: routingKey, Members: members}
}

// Member returns a forked workload of a sandbox as a member.
func Member(namespace, name, sandbox string) *factv1.Member {
	return &factv1.Member{Kind: "ForkedWorkload", Namespace: namespace, Name: name, Sandbox: sandbox}
}

// Observe returns the fact of a forked workload with one Service for each port.
func Observe(namespace, name, kind, baseline string, ports ...uint32) *factv1.WorkloadObserved {
	o := &factv1.WorkloadObserved{
		Workload: &factv1.ObjectRef{Kind: "ForkedWorkload", Namespace: namespace, Name: name, Uid: "uid-" + name},
		Created:  timestamppb.New(time.Unix(1, 0)),
		Baseline: &factv1.ObjectRef{Kind: kind, Namespace: namespace, Name: baseline},
		Ready:    true,
	}
	for i, port := range ports {
		o.Services = append(o.Services, &factv1.ServicePair{
			From: fmt.Sprintf("%s-%d", baseline, i), To: fmt.Sprintf("%s-%d", name, i), ClusterIp: "10.0.0.1",
			Ports: []*factv1.PortPair{{Port: 80, WorkloadPort: port}},
		})
	}
	return o
}

// Churn returns a random change to a small world, in which everything collides with
// everything. All workloads are ready.
func Churn(rng *rand.Rand) proto.Message {
	pick := func(values ...string) string { return values[rng.IntN(len(values))] }
	key, namespace, name := pick("k1", "k2", "k3"), pick("shop", "other"), pick("w1", "w2", "w3")
	switch rng.IntN(10) {
	case 0:
		return &factv1.RoutingWithdrawn{RoutingKey: key}
	case 1:
		return &factv1.WorkloadWithdrawn{Workload: &factv1.ObjectRef{Kind: "ForkedWorkload", Namespace: namespace, Name: name}}
	case 2, 3, 4, 5:
		members := make([]*factv1.Member, 1+rng.IntN(3))
		for i := range members {
			members[i] = Member(pick("shop", "other"), pick("w1", "w2", "w3"), pick("sb1", "sb2"))
		}
		return Declare(key, members...)
	default:
		ports := []uint32{8080, 9090}[:rng.IntN(3)]
		return Observe(namespace, name, pick("Deployment", "ArgoRollout"), pick("customer", "driver"), ports...)
	}
}

// AnyPort is a free port of loopback, the default address of a server.
const AnyPort = "127.0.0.1:0"

// Run runs a route server until the test ends or stop is called. It waits until its
// addresses are free.
func Run(t *testing.T, config server.Config) (m *server.Main, stop func()) {
	t.Helper()
	for _, address := range []*string{&config.GRPCAddress, &config.RESTAddress, &config.MetricsAddress} {
		if *address == "" {
			*address = AnyPort
		}
	}
	var err error
	wait.Holds(t, "the server listens", func() bool {
		m, err = server.New(config)
		return err == nil
	})
	return m, background.Run(t, m.Run)
}

// Settle waits until a route server has folded all that was stated.
func (l *Log) Settle(m *server.Main) {
	l.t.Helper()
	tip := l.End()
	wait.Holds(l.t, "the server folds the whole log", func() bool {
		now, _ := m.View().Current()
		return now.Pos() == tip
	})
}
