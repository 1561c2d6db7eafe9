package istioadapter_test

import (
	"errors"
	"fmt"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"switchyard.dev/reconcilers/meshes/istio"
	"switchyard.dev/reconcilers/meshes/istioadapter"
	"switchyard.dev/tests/world"
)

// TestAMissingRightIsReported has an adapter that may read VirtualServices and not write them.
func TestAMissingRightIsReported(t *testing.T) {
	w := world.Shared(t)
	define(w)
	const user = "no-writer"
	w.Grant(user, "", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: []string{"get", "list", "watch"}},
		rbacv1.PolicyRule{APIGroups: []string{"signadot.com"}, Resources: []string{"istioroutes", "routingconfigs", "signadotroutegroups", "signadotsandboxes"}, Verbs: []string{"list", "watch"}},
		rbacv1.PolicyRule{APIGroups: []string{"apiextensions.k8s.io"}, Resources: []string{"customresourcedefinitions"}, Verbs: []string{"get", "list", "watch"}},
		rbacv1.PolicyRule{APIGroups: []string{"argoproj.io"}, Resources: []string{"rollouts"}, Verbs: []string{"get", "list", "watch"}},
		rbacv1.PolicyRule{APIGroups: []string{"networking.istio.io"}, Resources: []string{"virtualservices"}, Verbs: []string{"get", "list", "watch"}})
	c := startAs(t, w, istioadapter.Settings{}, user)
	c.owner("create")
	c.sandbox("k9") // No other test's: what those leave it may not write either.
	target := istioadapter.Target{Key: "k9", Namespace: c.ns, Service: "customer"}
	c.Eventually("the report says that it cannot be written", func() error {
		r := c.main.Report(target)
		if len(r.Matches) != 1 || r.Matches[0].Status != istioadapter.StatusFailed {
			return fmt.Errorf("it is %+v", r)
		}
		return nil
	})
	if c.main.Settled("k9") {
		t.Error("it counts as settled")
	}
	c.Says(c.main.Report(target).Matches[0].Message, "VirtualService "+c.ns+"/customer cannot be written", "forbidden")
	w.Grant(user, c.ns, rbacv1.PolicyRule{APIGroups: []string{"networking.istio.io"}, Resources: []string{"virtualservices"}, Verbs: []string{"patch"}})
	c.has("ours k9", "api", "ours k9", "rest")
	c.Eventually("the report says that it was written", func() error {
		if r := c.main.Report(target); len(r.Matches) != 1 || r.Matches[0].Status != istio.StatusApplied || r.Lost != nil {
			return fmt.Errorf("it is %+v", r)
		}
		return nil
	})
	c.withdraw("k9")
	c.Eventually("the end is settled", func() error {
		if !c.main.Settled("k9") {
			return errors.New("it is not")
		}
		return nil
	})
	c.has("api", "rest")
}

// TestARestartCatchesUp ends an adapter, lets sandboxes come and go, and starts another one.
func TestARestartCatchesUp(t *testing.T) {
	c := started(t)
	c.owner("create")
	c.sandbox("k1")
	c.has("ours k1", "api", "ours k1", "rest")
	c.stop()
	c.withdraw("k1")
	c.sandbox("k2")
	c.run(own, "system:masters")
	c.has("ours k2", "api", "ours k2", "rest")
}
