package devmesh

import (
	"fmt"

	"google.golang.org/protobuf/types/known/timestamppb"

	"switchyard.dev/eventbus/event"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/routeserver/table"
)

// member is a sandbox's fork of one baseline, as it is observed.
type member struct {
	workload table.Workload
	sandbox  string
	// fork is the application that its Service leads to; noAddress for a headless
	// one.
	fork     int
	notReady bool
}

const (
	forkKind  = "ForkedWorkload"
	noAddress = -1
)

// name is the object's.
func (m member) name() string { return m.sandbox + "-" + m.workload.Name }

func (m member) eventKey() event.Key {
	return event.Workload(forkKind, m.workload.Namespace, m.name())
}

// observed is the fact that the member is there.
func (m member) observed() *factv1.WorkloadObserved {
	pair := &factv1.ServicePair{
		From: m.workload.Name, To: m.name(),
		Ports: []*factv1.PortPair{{Port: forkPort, WorkloadPort: workloadPort}},
	}
	if m.fork != noAddress {
		pair.ClusterIp = forkAddress(m.fork)
	}
	return &factv1.WorkloadObserved{
		Workload: &factv1.ObjectRef{Kind: forkKind, Namespace: m.workload.Namespace, Name: m.name(), Uid: "uid-" + m.name()},
		Created:  &timestamppb.Timestamp{Seconds: 1},
		Baseline: &factv1.ObjectRef{Kind: m.workload.Kind, Namespace: m.workload.Namespace, Name: m.workload.Name},
		Services: []*factv1.ServicePair{pair}, Ready: !m.notReady, DevMeshPresent: true,
	}
}

// gone is the fact that the member is not there any more.
func (m member) gone() *factv1.WorkloadWithdrawn {
	return &factv1.WorkloadWithdrawn{Workload: &factv1.ObjectRef{Kind: forkKind, Namespace: m.workload.Namespace, Name: m.name()}}
}

// declared is the fact that a key leads to the member.
func (m member) declared(key string) *factv1.RoutingDeclared {
	return &factv1.RoutingDeclared{
		RoutingKey: key, Owner: &factv1.ObjectRef{Kind: "SignadotSandbox", Name: m.sandbox},
		Members: []*factv1.Member{{Kind: forkKind, Namespace: m.workload.Namespace, Name: m.name(), Sandbox: m.sandbox}},
	}
}

// answer is who answers requests that belong to the member.
func (m member) answer() string {
	switch {
	case m.notReady:
		return refusedBy(m.sandbox, "sandbox-not-ready")
	case m.fork == noAddress:
		return refusedBy(m.sandbox, "sandbox-has-no-address")
	}
	return forkNumber(m.fork)
}

// refusedBy is the sidecar's answer for a sandbox that cannot serve.
func refusedBy(sandbox, reason string) string { return fmt.Sprintf("refused %s: %s", sandbox, reason) }

// observe and declare state the facts.
func (c *control) observe(m member) (event.Pos, error) { return c.state(m.eventKey(), m.observed()) }

func (c *control) remove(m member) (event.Pos, error) { return c.state(m.eventKey(), m.gone()) }

func (c *control) declare(key string, m member) (event.Pos, error) {
	return c.state(event.RoutingKey(key), m.declared(key))
}

func (c *control) withdraw(key string) (event.Pos, error) {
	return c.state(event.RoutingKey(key), &factv1.RoutingWithdrawn{RoutingKey: key})
}
