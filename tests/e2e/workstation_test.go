package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"switchyard.dev/tools/demo"
	"switchyard.dev/tools/demo/local"
)

// A developer's machine, which reaches the API server alone, connects to the tunnels as they are
// installed. Requests with the sandbox's key reach its process while it is connected, and are
// refused with a reason before and after; none of them reaches the baseline.
func TestRequestsReachAProcessOfAWorkstation(t *testing.T) {
	w := newWorld(t)
	dora := w.desk("dora", 0)
	file := dora.applies()
	dora.until("no workstation is connected, and a request with the key is refused", refused)

	stop := dora.watches(t)
	dora.starts(local.Program("customer"))
	disconnect := dora.connects("--sandbox", local.Sandbox, "-f", file)
	dora.until("a request with the key reaches the workstation's process", local.Answer.Local)
	// The way in: a name of the cluster, and the sandbox's key, which connect adds.
	if got := dora.runs("curl", "-sS", "--max-time", "30", "--proxy", "http://127.0.0.1:8118", "http://customer.hotrod:8081/customer?customer=900"); !strings.Contains(got, "(fork)") {
		t.Errorf("through the HTTP proxy of the workstation its own process is to answer, and it was %s", got)
	}
	if got := dora.runs("curl", "-sS", "--max-time", "30", "--socks5-hostname", "127.0.0.1:1080", "http://customer.hotrod:8081/customer?customer=900"); !strings.Contains(got, "invalid customer ID") {
		t.Errorf("through the SOCKS proxy of the workstation, without a key, the baseline is to answer, and it was %s", got)
	}
	disconnect()
	t.Logf("after it has disconnected a request with the key is answered %s", dora.until("the workstation has disconnected, and a request with the key is refused", refused))
	// The operator takes its address out, and requests go on to be refused.
	dora.until("the operator knows that it has disconnected", func(a local.Answer) bool { return refused(a) && a.Reason == "sandbox-not-ready" })
	if c := stop(); c.KeyedBaseline > 0 || c.PlainWrong > 0 || c.KeyedLocal == 0 || c.KeyedRefused == 0 || c.Plain == 0 {
		t.Errorf("of requests all the while: %+v", c)
	}
}

// The author of a sandbox names a local address of every workstation that serves it. A workstation
// opens the address only if its user allows that: otherwise no request reaches the loopback service.
func TestAWorkstationOpensOnlyAllowedAddresses(t *testing.T) {
	w := newWorld(t)
	dora, bob := w.desk("dora", 0), w.desk("bob", 1)
	bob.applies()
	dora.until("the cluster knows the sandbox, and refuses a request with its key", refused)
	dora.starts(local.Program("customer")) // the loopback service
	stop := dora.watches(t)
	disconnect := dora.connects()
	if got := dora.runs(local.Program("switchyard"), "connect", "status", "--wait", "sandboxes", "--wait-timeout", "50s"); !strings.HasSuffix(got, "(<nil>)") || strings.Contains(got, local.Sandbox+"/customer") {
		t.Errorf("plain connect of a user other than the author reports %s", got)
	}
	dora.always("plain connect of a user other than the author", refused)
	disconnect()
	disconnect = dora.connects("--sandbox", local.Sandbox)
	dora.reports("connect --sandbox " + local.Sandbox + " --allow localhost:8081")
	dora.always("the user has not allowed the address", refused)
	disconnect()
	if c := stop(); c.KeyedLocal > 0 || c.KeyedBaseline > 0 || c.KeyedRefused == 0 {
		t.Errorf("before the user allows the address: %+v", c)
	}
	dora.connects("--sandbox", local.Sandbox, "--allow", "localhost:8081")
	dora.until("the user allows the address, and a request reaches the service", local.Answer.Local)
	dora.reports("to localhost:8081, with routing key")
}

// A tunnel that another user's workstation holds is not taken without --take. With it the former
// holder and an event of the sandbox name the user who took it.
func TestAWorkstationTakesNoTunnelUnasked(t *testing.T) {
	w := newWorld(t)
	dora, bob := w.desk("dora", 0), w.desk("bob", 1)
	bob.applies() // plain connect serves the sandboxes of their author
	stopService := dora.starts(local.Program("customer"))
	dora.connects("--sandbox", local.Sandbox, "--allow", "localhost:8081")
	dora.until("a request reaches the process of the first user", local.Answer.Local)

	disconnect := bob.connects() // no process runs on this machine
	bob.reports("is held by " + dora.user)
	dora.always("another user has connected", local.Answer.Local)
	disconnect()

	bob.starts(local.Program("customer"))
	bob.connects("--take", local.Sandbox)
	bob.reports("to localhost:8081, with routing key")
	dora.reports("was taken over by " + bob.user)
	stopService()
	bob.until("only the process of the second user can answer", local.Answer.Local)
	bob.always("the tunnel was taken", local.Answer.Local)
	w.eventually("an event of the sandbox names who took the tunnel", time.Minute, func() error {
		got := w.kubectl("", "get", "events", "-n", "default", "--field-selector", "reason=TunnelTaken,involvedObject.kind=SignadotSandbox,involvedObject.name="+local.Sandbox, "-o", "jsonpath={.items[*].message}")
		if !strings.Contains(got, bob.user+" took the tunnel") || !strings.Contains(got, "from "+dora.user) {
			return fmt.Errorf("the events are %q", got)
		}
		return nil
	})
}

// prepareWorkstation makes the programs that run there.
func prepareWorkstation(ctx context.Context, c demo.Config) error {
	c.Step("programs of a workstation")
	return local.Build(ctx, c.Root)
}
