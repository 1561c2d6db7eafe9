package manager_test

import (
	"testing"

	"switchyard.dev/eventbus/event"
	crdv1 "switchyard.dev/protos/crd/v1"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/reconcilers/routing"
	"switchyard.dev/reconcilers/routingconfig"
)

// `helm upgrade --set 'routing.customHeaders={x-key}'` begins with another manager. A
// sandbox that was Ready is so again once every proxy has acknowledged the list, and
// not while one goes on with the old one.
func TestASandboxIsReadyOnceProxiesKnowTheCustomHeaders(t *testing.T) {
	const ns = "headers"
	c, routes, _, stop := gated(t, ns)
	routes.proxy(ns, "a", "customer")
	b := routes.proxy(ns, "b", "customer")
	s, _, _ := c.ready("headers", "headers-key", ns, "customer")
	if _, stated, err := c.log.Newest(c.Context(), event.KeyHeaders); err != nil || stated {
		t.Errorf("headers were declared where none are configured: %v", err)
	}

	for _, names := range [][]string{{"x-key"}, {"x-key", "x-team"}, nil} {
		b.Hold()
		stop()
		stop = c.manage(manager.Config{RouteServer: routes.address, KeyHeaders: names})
		c.Condition(namedConfig("headers-key"), routing.ConditionProxiesCurrent, "False", routingconfig.ReasonProxiesBehind)
		c.Condition(s, crdv1.ConditionReady, "False", routing.ReasonNotReady)
		b.Release()
		c.Condition(s, crdv1.ConditionReady, "True", "Ready")
		newest, _, err := c.log.Newest(c.Context(), event.KeyHeaders)
		if declared, _ := newest.Fact.Data.(*factv1.KeyHeadersDeclared); err != nil || len(declared.GetNames()) != len(names) {
			t.Errorf("the log declares %v, want %v: %v", declared, names, err)
		}
	}
}

func namedConfig(name string) *crdv1.RoutingConfig {
	return &crdv1.RoutingConfig{ObjectMeta: named(name)}
}
