package xdstest

import (
	"net/netip"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	"switchyard.dev/eventbus/event"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/routeserver/table"
	"switchyard.dev/routeserver/view"
)

// Board states facts for a test, which fails when one cannot be stated.
type Board struct {
	View *view.View

	t     *testing.T
	facts *Facts
}

// NewBoard returns a board with an empty log and a view that is cold until
// Complete. Both end with the test.
func NewBoard(t *testing.T) *Board {
	t.Helper()
	facts, err := OpenFacts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := facts.Close(); err != nil {
			t.Error(err)
		}
	})
	return &Board{View: facts.View, t: t, facts: facts}
}

func (b *Board) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// Complete states that the log is whole and waits until the view shows it.
func (b *Board) Complete() {
	b.t.Helper()
	b.must(b.facts.Complete(b.t.Context()))
}

// Fork is a sandbox's fork of a workload, as a test describes it.
type Fork struct {
	Baseline table.Workload
	// Key is the routing key and Sandbox the sandbox's name.
	Key, Sandbox string
	// Port is the port of the baseline that a Service targets.
	Port uint32
	// Destination is the cluster address of the fork's Service. The zero value
	// is a headless one.
	Destination netip.AddrPort
	// NotReady: the fork cannot serve.
	NotReady bool
	// Kept: it is a virtual workload, not a fork; its requests stay at the baseline.
	Kept bool
}

// Facts returns the two facts that make the fork's rule: the observation of its workload, and
// the declaration of its key.
func (f Fork) Facts() (observed, declared event.Fact) {
	service := &factv1.ServicePair{
		From: f.Baseline.Name, To: f.name(),
		Ports: []*factv1.PortPair{{Port: uint32(f.Destination.Port()), WorkloadPort: f.Port}},
	}
	if f.Destination.IsValid() {
		service.ClusterIp = f.Destination.Addr().String()
	} else {
		service.Ports[0].Port = f.Port
	}
	if f.Kept {
		service.To = ""
	}
	observed.Key, declared.Key = event.Workload(f.kind(), f.Baseline.Namespace, f.name()), event.RoutingKey(f.Key)
	observed.Data = &factv1.WorkloadObserved{
		Workload: &factv1.ObjectRef{Kind: f.kind(), Namespace: f.Baseline.Namespace, Name: f.name(), Uid: "uid-" + f.name()},
		Created:  &timestamppb.Timestamp{Seconds: 1},
		Baseline: &factv1.ObjectRef{Kind: f.Baseline.Kind, Namespace: f.Baseline.Namespace, Name: f.Baseline.Name},
		Services: []*factv1.ServicePair{service},
		Ready:    !f.NotReady,
	}
	declared.Data = &factv1.RoutingDeclared{
		RoutingKey: f.Key,
		Members: []*factv1.Member{{
			Kind: f.kind(), Namespace: f.Baseline.Namespace, Name: f.name(), Sandbox: f.Sandbox,
		}},
	}
	return observed, declared
}

func (f Fork) kind() string {
	if f.Kept {
		return "VirtualWorkload"
	}
	return "ForkedWorkload"
}

func (f Fork) name() string { return f.Sandbox + "-" + f.Baseline.Name }

// Declare states the facts of a fork.
func (b *Board) Declare(f Fork) {
	b.t.Helper()
	b.must(b.facts.Declare(b.t.Context(), f))
}

// Withdraw states that a routing key is no longer in use.
func (b *Board) Withdraw(key string) {
	b.t.Helper()
	b.must(b.facts.Withdraw(b.t.Context(), key))
}

// KeyHeaders states which custom headers carry routing keys.
func (b *Board) KeyHeaders(names ...string) {
	b.t.Helper()
	b.must(b.facts.KeyHeaders(b.t.Context(), names...))
}
