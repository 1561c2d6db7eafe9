package xdstest

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/memory"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/routeserver/table"
	"switchyard.dev/routeserver/view"
)

// Board states facts, as the reconcilers do. Its View has the table that
// follows from them when the method that stated them returns, if it is whole.
type Board struct {
	View *view.View

	t   *testing.T
	log *memory.Log
}

// NewBoard gives a board with an empty log and a view that is cold until
// Complete. Both end with the test.
func NewBoard(t *testing.T) *Board {
	t.Helper()
	log := memory.New()
	if _, err := log.Begin(t.Context(), event.Mark{}); err != nil {
		t.Fatal(err)
	}
	v, err := view.New(view.Config{Log: log})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := v.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() { stop(); <-ended })
	return &Board{View: v, t: t, log: log}
}

// Complete states that the log is whole and waits until the view shows it.
func (b *Board) Complete() {
	b.t.Helper()
	b.state(event.Log, &factv1.Complete{Reason: "test"})
	ctx, cancel := context.WithTimeout(b.t.Context(), 10*time.Second)
	defer cancel()
	if _, err := b.View.WaitWhole(ctx); err != nil {
		b.t.Fatal(err)
	}
}

// Fork is a sandbox's fork of a workload, as a test describes it.
type Fork struct {
	Baseline table.Workload
	// Key is the routing key and Sandbox the sandbox's name.
	Key, Sandbox string
	// Port is the port of the baseline that a Service leads to.
	Port uint32
	// Destination is the cluster address of the fork's Service. The zero value
	// is a headless one.
	Destination netip.AddrPort
	// NotReady: the fork cannot serve.
	NotReady bool
	// Kept: it is no fork but a virtual workload, whose requests stay.
	Kept bool
}

// Facts gives the two facts that make the fork's rule: what was observed of its
// workload, and the declaration of its key.
func (f Fork) Facts() []proto.Message {
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
	return []proto.Message{
		&factv1.WorkloadObserved{
			Workload: &factv1.ObjectRef{Kind: f.kind(), Namespace: f.Baseline.Namespace, Name: f.name(), Uid: "uid-" + f.name()},
			Created:  &timestamppb.Timestamp{Seconds: 1},
			Baseline: &factv1.ObjectRef{Kind: f.Baseline.Kind, Namespace: f.Baseline.Namespace, Name: f.Baseline.Name},
			Services: []*factv1.ServicePair{service},
			Ready:    !f.NotReady,
		},
		&factv1.RoutingDeclared{
			RoutingKey: f.Key,
			Members: []*factv1.Member{{
				Kind: f.kind(), Namespace: f.Baseline.Namespace, Name: f.name(), Sandbox: f.Sandbox,
			}},
		},
	}
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
	facts := f.Facts()
	b.state(event.Workload(f.kind(), f.Baseline.Namespace, f.name()), facts[0])
	b.state(event.RoutingKey(f.Key), facts[1])
}

// Withdraw states that a routing key is no longer in use.
func (b *Board) Withdraw(key string) {
	b.t.Helper()
	b.state(event.RoutingKey(key), &factv1.RoutingWithdrawn{RoutingKey: key})
}

// KeyHeaders states which custom headers carry routing keys.
func (b *Board) KeyHeaders(names ...string) {
	b.t.Helper()
	b.state(event.KeyHeaders, &factv1.KeyHeadersDeclared{Names: names})
}

func (b *Board) state(key event.Key, data proto.Message) {
	b.t.Helper()
	newest, _, err := b.log.Newest(b.t.Context(), key)
	if err != nil {
		b.t.Fatal(err)
	}
	pos, err := b.log.Append(b.t.Context(), event.Fact{Key: key, Time: time.Unix(1, 0), Data: data}, newest.Pos.Seq)
	if err != nil {
		b.t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		shown, _ := b.View.Current()
		if !shown.Whole() || shown.Pos().Seq >= pos.Seq {
			return
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("the view is at %v and not at %v", shown.Pos(), pos)
		}
	}
}
