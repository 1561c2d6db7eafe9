package devmesh

import (
	"fmt"
	"net/netip"

	"switchyard.dev/eventbus/event"
	"switchyard.dev/routeserver/table"
	"switchyard.dev/tests/devmesh/control"
	"switchyard.dev/xds/xdstest"
)

// member is a sandbox's fork of one baseline, as it is observed.
type member struct {
	workload table.Workload
	sandbox  string
	// fork is the application behind its Service; noAddress for a headless one.
	fork     int
	notReady bool
}

const (
	forkKind  = "ForkedWorkload"
	noAddress = -1
)

// facts are the facts that the member exists, and that a key is routed to it.
func (m member) facts(key string) (observed, declared event.Fact) {
	f := xdstest.Fork{Baseline: m.workload, Key: key, Sandbox: m.sandbox, Port: workloadPort, NotReady: m.notReady}
	if m.fork != noAddress {
		f.Destination = netip.AddrPortFrom(netip.MustParseAddr(forkAddress(m.fork)), forkPort)
	}
	return f.Facts()
}

// answer is the workload that serves requests for the member.
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

// observe states that a member exists, remove that it does not exist any more, and declare that a
// key is routed to it.
func observe(c *control.Plane, m member) (event.Pos, error) {
	observed, _ := m.facts("")
	return c.State(observed.Key, observed.Data)
}

func remove(c *control.Plane, m member) (event.Pos, error) {
	observed, _ := m.facts("")
	return end(c, observed.Key)
}

func declare(c *control.Plane, key string, m member) (event.Pos, error) {
	_, declared := m.facts(key)
	return c.State(declared.Key, declared.Data)
}

func end(c *control.Plane, key event.Key) (event.Pos, error) {
	data, _ := event.Withdrawal(key) // These two kinds of keys have one.
	return c.State(key, data)
}
