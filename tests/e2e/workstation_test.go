package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"switchyard.dev/tests/traffic"
	"switchyard.dev/tools/demo"
	"switchyard.dev/tools/demo/local"
)

// A developer's machine, which reaches the API server alone, connects to the tunnels as they are
// installed. Requests with the sandbox's key reach its process while it is connected, and are
// refused with a reason before and after; none of them reaches the baseline.
func TestRequestsReachAProcessOfAWorkstation(t *testing.T) {
	w := newWorld(t)
	customer := w.url("hotrod", "customer", 8081)
	at, err := local.NewWorkstation(t.Context())
	t.Cleanup(func() {
		if err := at.Remove(); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	file, _, err := at.Sandbox()
	if err != nil {
		t.Fatal(err)
	}
	says := func(argv ...string) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		out, err := at.Command(ctx, argv...).CombinedOutput()
		return fmt.Sprintf("%s (%v)", strings.TrimSpace(string(out)), err)
	}
	starts := func(argv ...string) (stop func()) {
		t.Helper()
		// What is stopped ends as Ctrl-C has it end, and not by the context.
		p, err := at.Start(context.WithoutCancel(t.Context()), "said", argv...)
		if err != nil {
			t.Fatal(err)
		}
		stop = sync.OnceFunc(func() {
			said, err := p.Stop()
			if t.Logf("the workstation said:\n%s", said); err != nil {
				t.Error(err)
			}
		})
		t.Cleanup(stop)
		return stop
	}
	t.Log(says(local.Program("switchyard"), "sandbox", "apply", "-f", file, "--wait=false"))
	w.removeAfter("signadotsandbox", local.Sandbox)
	client := traffic.NewClient()
	until := func(what string, right func(local.Answer) bool) local.Answer {
		t.Helper()
		var a local.Answer
		w.eventually(what, 30*time.Second, func() (err error) {
			if a, err = local.Ask(t.Context(), client, customer, local.Sandbox); err == nil && !right(a) {
				err = fmt.Errorf("it is answered %s", a)
			}
			return err
		})
		return a
	}
	refused := func(a local.Answer) bool { return a.Status == http.StatusServiceUnavailable && a.Reason != "" }
	until("nobody is connected, and a request with the key is refused", refused)

	watch := local.NewWatcher(customer, local.Sandbox)
	watching, stop := context.WithCancel(t.Context())
	watched := make(chan struct{})
	go func() { defer close(watched); watch.Run(watching) }()
	starts(local.Program("customer"))
	disconnect := starts(local.Program("switchyard"), "connect", "--sandbox", local.Sandbox, "-f", file)
	until("a request with the key reaches the workstation's process", local.Answer.Local)
	// The way in: a name of the cluster, and the sandbox's key, which connect adds.
	if got := says("curl", "-sS", "--max-time", "30", "--proxy", "http://127.0.0.1:8118", "http://customer.hotrod:8081/customer?customer=900"); !strings.Contains(got, "(fork)") {
		t.Errorf("through the HTTP proxy of the workstation its own process is to answer, and it was %s", got)
	}
	if got := says("curl", "-sS", "--max-time", "30", "--socks5-hostname", "127.0.0.1:1080", "http://customer.hotrod:8081/customer?customer=900"); !strings.Contains(got, "invalid customer ID") {
		t.Errorf("through the SOCKS proxy of the workstation, without a key, the baseline is to answer, and it was %s", got)
	}
	disconnect()
	t.Logf("after it has disconnected a request with the key is answered %s", until("the workstation has disconnected, and a request with the key is refused", refused))
	// The operator takes its address out, and requests go on to be refused.
	until("the operator knows that it has disconnected", func(a local.Answer) bool { return refused(a) && a.Reason == "sandbox-not-ready" })
	stop()
	<-watched
	c := watch.Counts()
	t.Logf("%+v", c)
	if c.KeyedBaseline > 0 || c.PlainWrong > 0 || c.KeyedLocal == 0 || c.KeyedRefused == 0 || c.Plain == 0 {
		t.Errorf("of requests all the while: %+v", c)
	}
}

// prepareWorkstation makes the programs that run there.
func prepareWorkstation(ctx context.Context, c demo.Config) error {
	c.Step("programs of a workstation")
	return local.Build(ctx, c.Root)
}
