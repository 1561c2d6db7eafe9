package pipeline

import (
	"fmt"
	"net/http"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/sidecars/traffic/override/policy"
	"switchyard.dev/tools/traffic"
)

// A request with the key of a route group passes the middlewares of the fork as one with the sandbox's key does, unless the group has
// its own.
func TestARouteGroupAtAForkWithMiddlewares(t *testing.T) {
	const key, of = "grouped", "release"
	w, token := newRecordingWorld(t)
	sandbox, group := w.sandbox(key), &crdv1.SignadotRouteGroup{}
	w.forkInPod(key, token)
	w.Make(group, "metadata: {name: "+of+"}\nspec: {routingKey: "+of+", sandboxNames: ["+key+"]}")
	w.Eventually("Ready", func() error { return isReady(w, sandbox) })
	w.middlewares(sandbox, crdv1.SandboxExternalWorkload{
		Name: "override-1", Tunnel: &crdv1.TunnelSpec{BaselineToLocals: []crdv1.TunnelPort{{BaselinePort: workloadPort, LocalAddress: "localhost:9999"}}},
	})
	w.workstation()

	caller := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}}
	defer caller.CloseIdleConnections()
	expect := func(baggage, body, skipped string) {
		t.Helper()
		w.Eventually(fmt.Sprintf("%s is answered by %s", baggage, body), func() error {
			a, err := traffic.Get(w.Context(), caller, w.sender.URL, [2]string{"Baggage", baggage})
			if err == nil && (a.Status != http.StatusOK || string(a.Body) != body || a.Header.Get(policy.SkippedHeader) != skipped) {
				err = fmt.Errorf("status %d: %.200s, %v", a.Status, a.Body, a.Header)
			}
			return err
		})
	}
	expect("sd-routing-key="+key, workstation, "")
	expect("sd-routing-key="+of, workstation, "")
	expect("sd-routing-key="+of+",sd-traffic=none", string(traffic.Fork), "sd-traffic")

	w.matches(group, crdv1.MiddlewareMatch{
		Workload: &crdv1.WorkloadRef{Kind: "Deployment", Namespace: namespace, Name: "cart"}, Instance: crdv1.MiddlewareInstance{Middleware: "trafficwatch"},
	})
	expect("sd-routing-key="+of, string(traffic.Fork), "")
	var captures crdv1.TrafficCaptureList
	w.Eventually("the requests of the group are recorded", func() error {
		if err := w.Client.List(w.Context(), &captures, client.InNamespace(namespace), client.HasLabels{crdv1.LabelRouteGroup}); err != nil {
			return err
		}
		if len(captures.Items) != 1 || len(captures.Items[0].Spec.RoutingKeys) != 1 || captures.Items[0].Spec.RoutingKeys[0] != of {
			return fmt.Errorf("%d TrafficCaptures", len(captures.Items))
		}
		return nil
	})
	w.Condition(&captures.Items[0], crdv1.ConditionReady, "True", "Recording")
	w.Condition(group, crdv1.ConditionReady, "True", "Ready")
	expect("sd-routing-key="+of, string(traffic.Fork), "")
	expect("sd-routing-key="+key, workstation, "")
	w.Eventually("one request is seen with the key of the group, and others without", func() error {
		if err := w.Look(&captures.Items[0]); err != nil {
			return err
		}
		if n := captures.Items[0].Status.Counts; n == nil || n.Stored == 0 || n.SampledOut == 0 {
			return fmt.Errorf("the counts are %+v", n)
		}
		return nil
	})

	w.matches(group)
	w.Gone(&captures.Items[0])
	expect("sd-routing-key="+of, workstation, "")
}

// matches gives a route group middlewares of its own.
func (w *path) matches(g *crdv1.SignadotRouteGroup, all ...crdv1.MiddlewareMatch) {
	w.Helper()
	w.Eventually("the route group is changed", func() error {
		if err := w.Look(g); err != nil {
			return err
		}
		g.Spec.TrafficManagerMatches = all
		return w.Client.Update(w.Context(), g)
	})
}
