package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"switchyard.dev/tools/traffic"
	"switchyard.dev/xds/routingkey"
)

// served sends a request with a key in one header to the customer service, as a client
// that sets the header itself, and returns which side served it.
func (w *world) served(header, value string) (string, error) {
	a, err := traffic.Get(w.t.Context(), traffic.NewClient(), w.customer.URL, [2]string{header, value}, [2]string{"sd-explain", "1"})
	return a.Header.Get("sd-routed"), err
}

// group applies a route group of one sandbox and takes it away when the test ends.
func (w *world) group(name, key, sandbox string) {
	w.t.Helper()
	w.kubectl(fmt.Sprintf(`{"apiVersion":"signadot.com/v1","kind":"SignadotRouteGroup","metadata":{"name":%q},
"spec":{"routingKey":%q,"sandboxNames":[%q]}}`, name, key, sandbox), "apply", "-f", "-")
	w.removeAfter("signadotroutegroup", name)
}

// A client that sends "baggage: sd-routing-key=a,b" sends two list members, and its
// request reaches the baseline. So such a key is refused, and one that only baggage cuts
// off is routed in the header that carries it.
func TestAKeyIsRoutedInTheHeadersThatCarryIt(t *testing.T) {
	w := newWorld(t)
	w.sandbox("e2e-keys")
	conditions := func(name string) string {
		return w.kubectl("", "get", "signadotroutegroup", name, "-o",
			`jsonpath={range .status.conditions[*]}{.type}={.status} {.reason}: {.message}{"\n"}{end}`)
	}

	w.group("e2e-keys-comma", "e2e,keys", "e2e-keys")
	w.eventually("a key with a comma is refused", 30*time.Second, func() error {
		got := conditions("e2e-keys-comma")
		if !strings.Contains(got, `Accepted=False InvalidSpec: spec.routingKey "e2e,keys" contains ",", which ends a value, so no header can carry it`) {
			return fmt.Errorf("conditions:\n%s", got)
		}
		return nil
	})

	w.group("e2e-keys-semicolon", "e2e;keys", "e2e-keys")
	w.kubectl("", "wait", "signadotroutegroup/e2e-keys-semicolon", "--for=condition=Ready", "--timeout=120s")
	if got := conditions("e2e-keys-semicolon"); !strings.Contains(got, "cannot carry it in baggage") {
		t.Errorf("conditions:\n%s", got)
	}
	member := routingkey.Member + "="
	for header, want := range map[string]string{routingkey.Tracestate: "sandbox=e2e-keys", routingkey.Baggage: "baseline"} {
		if got, err := w.served(header, member+"e2e;keys"); err != nil || got != want {
			t.Errorf("%s: served by %q, want %q: %v", header, got, want, err)
		}
	}
	if got, err := w.served(routingkey.Baggage, member+"e2e,keys"); err != nil || got != "baseline" {
		t.Errorf("a key with a comma: served by %q: %v", got, err)
	}
}
