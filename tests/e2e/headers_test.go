package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"switchyard.dev/tools/demo"
)

const (
	customHeader = "x-e2e-key"
	noHeaders    = "customHeaders: []"
)

// setHeaders does to the cluster what `helm upgrade --set 'routing.customHeaders=…'`
// does: it changes the operator's configuration and rolls the manager.
func setHeaders(ctx context.Context, from, to string) error {
	config, err := demo.Kubectl(ctx, "", "get", "configmap", "cluster-config", "-n", "signadot", "-o", "json")
	if err != nil {
		return err
	}
	if !strings.Contains(config, from) {
		return fmt.Errorf("the operator's configuration has no %q", from)
	}
	if _, err := demo.Kubectl(ctx, strings.Replace(config, from, to, 1), "replace", "-f", "-"); err != nil {
		return err
	}
	const manager = "deployment/signadot-controller-manager"
	if _, err := demo.Kubectl(ctx, "", "rollout", "restart", "-n", "signadot", manager); err != nil {
		return err
	}
	_, err = demo.Kubectl(ctx, "", "rollout", "status", "-n", "signadot", manager, "--timeout=120s")
	return err
}

// A team names its own header after the baselines were injected. Their pods go on
// running, and take the key from the new header too.
func TestANewCustomHeaderReachesRunningPods(t *testing.T) {
	w := newWorld(t)
	w.sandbox("e2e-headers")
	pods := func() string {
		return w.kubectl("", "get", "pods", "-n", "hotrod", "-l", "app=customer", "-o",
			`jsonpath={range .items[*]}{.metadata.name} {.metadata.uid} {.status.initContainerStatuses[*].restartCount}{"\n"}{end}`)
	}
	served := func(want string) func() error {
		return func() error {
			got, err := w.served(customHeader, "e2e-headers")
			if err == nil && got != want {
				err = fmt.Errorf("served by %s, not by %s", got, want)
			}
			return err
		}
	}
	if err := served("baseline")(); err != nil {
		t.Fatalf("before the header is named: %v", err)
	}
	before, named := pods(), `customHeaders: [`+customHeader+`]`
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		defer cancel()
		if err := setHeaders(ctx, named, noHeaders); err != nil {
			t.Error(err)
		}
	})
	w.under("e2e-headers", func() {
		if err := setHeaders(t.Context(), noHeaders, named); err != nil {
			t.Fatal(err)
		}
		rolled := time.Now()
		w.eventually("the header carries keys", time.Minute, served("sandbox=e2e-headers"))
		t.Logf("the header carried keys %s after the manager was rolled", time.Since(rolled).Round(time.Millisecond))
	})
	if after := pods(); after != before {
		t.Errorf("the baseline's pods are\n%s and were\n%s", after, before)
	}
	w.kubectl("", "wait", "signadotsandbox/e2e-headers", "--for=condition=Ready", "--timeout=60s")
}
