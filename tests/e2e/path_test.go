package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"switchyard.dev/tools/demo"
	"switchyard.dev/tools/traffic"
)

func TestEachOfAThousandRequestsReachesItsSide(t *testing.T) {
	w := newWorld(t)
	w.sandbox("e2e-thousand")
	ledger := w.customer.Count(t.Context(), 1000, 8, demo.Mix("e2e-thousand"))
	t.Log(ledger)
	if !ledger.Clean() || ledger.Sent != 1000 {
		t.Error("a request failed or was served by the wrong side")
	}
}

func TestNothingIsLeftOfADeletedSandbox(t *testing.T) {
	w := newWorld(t)
	w.sandbox("e2e-gone")
	w.kubectl("", "delete", "signadotsandbox", "e2e-gone", "--timeout=60s")
	w.eventually("the key reaches the baseline", 20*time.Second, func() error {
		return w.serves("e2e-gone", traffic.Baseline)
	})
	w.eventually("its objects are gone", 60*time.Second, func() error {
		left := w.kubectl("", "get", "signadot,deployments,services,pods", "-A", "-l", "signadot.com/sandbox=e2e-gone", "-o", "name")
		if left != "" {
			return fmt.Errorf("still there: %s", strings.Join(strings.Fields(left), ", "))
		}
		return nil
	})
}

func TestKillingAProgramLosesNoRequest(t *testing.T) {
	w := newWorld(t)
	w.sandbox("e2e-kill")
	for _, c := range []struct{ name, program, selector string }{
		{"controller manager", "/manager", "control-plane=controller-manager"},
		{"event bus", "/eventbus", "app=eventbus"},
		{"route server", "/routeserver", "app=routeserver"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			key := "e2e-after-" + strings.ReplaceAll(c.name, " ", "-")
			w.under("e2e-kill", func() {
				before := w.restarts(c.selector)
				killed := w.kill(c.program, c.selector)
				if killed == 0 {
					t.Fatalf("no process runs %s", c.program)
				}
				w.ready(c.selector, before+killed)
				// Caught up: a change made now takes effect.
				w.declare(key, "e2e-kill")
				w.eventually("a change after the kill takes effect", 60*time.Second, func() error {
					return w.serves(key, traffic.Fork)
				})
			})
		})
	}
}

func TestALostLogIsFilledAgainFromTheObjects(t *testing.T) {
	w := newWorld(t)
	w.sandbox("e2e-lost")
	epoch, rules, err := w.rules("e2e-lost")
	if err != nil || rules != 1 || epoch == "" {
		t.Fatalf("before: %d rules in epoch %q, %v", rules, epoch, err)
	}
	w.under("e2e-lost", func() {
		before := w.restarts("app=eventbus")
		for _, entry := range storeOf(w) {
			if err := os.RemoveAll(entry); err != nil {
				t.Fatal(err)
			}
		}
		w.ready("app=eventbus", before+w.kill("/eventbus", "app=eventbus"))
		w.eventually("a new epoch with the same rules", 60*time.Second, func() error {
			now, rules, err := w.rules("e2e-lost")
			if err != nil {
				return err
			}
			if rules != 1 {
				t.Errorf("epoch %q is served with %d rules", now, rules)
			}
			if now == epoch {
				return fmt.Errorf("still epoch %s", now)
			}
			return nil
		})
		w.declare("e2e-lost-after", "e2e-lost")
		w.eventually("a change in the new epoch takes effect", 60*time.Second, func() error {
			return w.serves("e2e-lost-after", traffic.Fork)
		})
	})
}

// storeOf lists what lies in the event bus's volume, which is a folder of the
// node.
func storeOf(w *world) []string {
	w.t.Helper()
	volume := w.kubectl("", "get", "pvc", "-n", "signadot", "-l", "app=eventbus", "-o", "jsonpath={.items[0].spec.volumeName}")
	path := w.kubectl("", "get", "pv", volume, "-o", "jsonpath={.spec.local.path}{.spec.hostPath.path}")
	entries, err := filepath.Glob(filepath.Join(path, "*"))
	if err != nil || path == "" || len(entries) == 0 {
		w.t.Fatalf("the store %q of volume %s: %v %v", path, volume, entries, err)
	}
	return entries
}

func TestABadSandboxNamesTheRemedyAndHarmsNoOther(t *testing.T) {
	w := newWorld(t)
	w.sandbox("e2e-neighbour")
	w.kubectl(sandboxManifest("e2e-bad", "nowhere"), "apply", "-f", "-")
	w.removeAfter("signadotsandbox", "e2e-bad")
	w.eventually("a condition that names the workload", 30*time.Second, func() error {
		conditions := w.kubectl("", "get", "signadotsandbox", "e2e-bad", "-o",
			`jsonpath={range .status.conditions[*]}{.type}={.status} {.reason}: {.message}{"\n"}{end}`)
		if !strings.Contains(conditions, "Ready=False") || !strings.Contains(conditions, "hotrod/nowhere") {
			return fmt.Errorf("conditions:\n%s", conditions)
		}
		return nil
	})
	if err := w.serves("e2e-neighbour", traffic.Fork); err != nil {
		t.Error(err)
	}
}
