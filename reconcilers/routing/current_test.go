package routing_test

import (
	"testing"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/reconcilers/routing"
	"switchyard.dev/reconcilers/routing/routingtest"
)

func TestTheDigestIsOfWhatTheLogSays(t *testing.T) {
	c, w := routingtest.Keyed()
	same := routing.Of(c, []crdv1.Member{w}, nil).ToAcknowledge()
	for _, tt := range []struct {
		name    string
		change  func(c *crdv1.RoutingConfig, w *crdv1.ForkedWorkload)
		differs bool
	}{
		{"nothing", func(*crdv1.RoutingConfig, *crdv1.ForkedWorkload) {}, false},
		{"notes and conditions of the RoutingConfig", func(c *crdv1.RoutingConfig, _ *crdv1.ForkedWorkload) {
			c.Annotations = map[string]string{routing.AnnotationAcknowledged: "x", "signadot.com/declared-key": "k"}
			c.Generation, c.ResourceVersion = 4, "9"
			c.Status.Conditions = []crdv1.StatusCondition{{Type: routing.ConditionProxiesCurrent}}
		}, false},
		{"a baseline that is rolled out, with pods that have no sidecar yet", func(_ *crdv1.RoutingConfig, w *crdv1.ForkedWorkload) {
			w.Status.Baseline.Generation = 2
			w.Status.RoutingConfig.DevMeshSidecarPresent = false
			w.Status.Conditions[0].Status = "False"
		}, false},
		{"another key", func(c *crdv1.RoutingConfig, _ *crdv1.ForkedWorkload) {
			c.Annotations = map[string]string{crdv1.AnnotationRoutingKey: "other"}
		}, true},
		{"another member", func(c *crdv1.RoutingConfig, _ *crdv1.ForkedWorkload) {
			m := c.Spec.SandboxedWorkloads[0]
			m.Name = "g"
			c.Spec.SandboxedWorkloads = append(c.Spec.SandboxedWorkloads, m)
		}, true},
		{"a fork that can no longer serve", func(_ *crdv1.RoutingConfig, w *crdv1.ForkedWorkload) { w.Status.Conditions[1].Status = "False" }, true},
		{"another Service", func(_ *crdv1.RoutingConfig, w *crdv1.ForkedWorkload) { w.Status.RoutingConfig.Services[0].To = "other" }, true},
		{"another port", func(_ *crdv1.RoutingConfig, w *crdv1.ForkedWorkload) {
			w.Status.RoutingConfig.Services[0].Ports[0].TargetPort = 9
		}, true},
		{"a fork that was made anew", func(_ *crdv1.RoutingConfig, w *crdv1.ForkedWorkload) { w.UID = "again" }, true},
		{"a baseline that was made anew", func(_ *crdv1.RoutingConfig, w *crdv1.ForkedWorkload) { w.Status.Baseline.WorkloadID = "again" }, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, w := routingtest.Keyed()
			tt.change(c, w)
			if got := routing.Of(c, []crdv1.Member{nil, w}, nil).ToAcknowledge(); (got != same) != tt.differs {
				t.Errorf("it is %s, and was %s", got, same)
			}
		})
	}
}

func TestWhetherProxiesAreCurrent(t *testing.T) {
	headers := []string{"x-key"}
	says := func(status, reason string) func(*crdv1.RoutingConfig, *crdv1.ForkedWorkload) {
		return func(c *crdv1.RoutingConfig, _ *crdv1.ForkedWorkload) {
			c.Status.Conditions = []crdv1.StatusCondition{{Type: routing.ConditionProxiesCurrent, Status: status, Reason: reason, Message: "told"}}
		}
	}
	for _, tt := range []struct {
		name           string
		change         func(c *crdv1.RoutingConfig, w *crdv1.ForkedWorkload)
		noted          bool
		status, reason string
	}{
		{"nothing is known yet", func(*crdv1.RoutingConfig, *crdv1.ForkedWorkload) {}, false, "Unknown", "Pending"},
		{"all know it", says("True", "ProxiesCurrent"), true, "True", "ProxiesCurrent"},
		{"all know it, and the condition is about to say so", says("Unknown", "Pending"), true, "True", "Pending"},
		{"all knew what it was before", says("True", "ProxiesCurrent"), false, "Unknown", "Pending"},
		{"some are behind", says("False", "ProxiesBehind"), false, "False", "ProxiesBehind"},
		{"the route server is away", says("Unknown", "RouteServerUnavailable"), false, "Unknown", "RouteServerUnavailable"},
		{"nobody asks", says("True", "NotAwaited"), false, "True", "NotAwaited"},
		{"there is nothing to reach", func(c *crdv1.RoutingConfig, w *crdv1.ForkedWorkload) {
			says("True", "ProxiesCurrent")(c, w)
			c.Spec.SandboxedWorkloads = nil
		}, false, "True", "ProxiesCurrent"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, w := routingtest.Keyed()
			tt.change(c, w)
			if tt.noted {
				c.Annotations = map[string]string{routing.AnnotationAcknowledged: routing.Of(c, []crdv1.Member{w}, headers).ToAcknowledge()}
			}
			got := routing.Of(c, []crdv1.Member{w}, headers).ProxiesCurrent()
			if string(got.Status) != tt.status || got.Reason != tt.reason || got.Message == "" {
				t.Errorf("it is %+v", got)
			}
			w.Status.Conditions[1].Status = "False"
			if changed := routing.Of(c, []crdv1.Member{w}, headers).ProxiesCurrent(); tt.noted && changed.IsTrue() {
				t.Errorf("once the fork cannot serve: %+v", changed)
			}
			w.Status.Conditions[1].Status = "True"
			if changed := routing.Of(c, []crdv1.Member{w}, []string{"x-other"}).ProxiesCurrent(); tt.noted && changed.IsTrue() {
				t.Errorf("once another header carries keys: %+v", changed)
			}
		})
	}
}

func TestASidecarThatStartsIsNamedAlthoughItCountsForNothing(t *testing.T) {
	c, w := routingtest.Keyed()
	w.Status.Conditions = []crdv1.StatusCondition{{Type: baseline.ConditionSidecarsReady, Status: "False", Reason: baseline.ReasonSidecarNotReady, Message: "one starts"}}
	got := routing.Of(c, []crdv1.Member{w}, nil).SidecarsReady(condition.True("AllProxiesKnow", ""))
	if want := "Every pod of every baseline has a ready DevMesh Sidecar. But currently: one starts"; !got.IsTrue() || got.Message != want {
		t.Errorf("%+v", got)
	}
}
