package routing_test

import (
	"strings"
	"testing"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/routing"
	"switchyard.dev/reconcilers/routing/routingtest"
)

// TestAForkOutsideOfTheMesh has a key with two forks: "caller", and "f" of baseline ns/base, which has no
// sidecars. A mesh routes requests in the proxy of the caller, so one without a proxy reaches the baseline.
func TestAForkOutsideOfTheMesh(t *testing.T) {
	absent := crdv1.StatusCondition{Type: baseline.ConditionSidecarsReady, Status: "False", Reason: baseline.ReasonSidecarAbsent, Message: "annotate it"}
	outside := crdv1.StatusCondition{Type: crdv1.ConditionInMesh, Status: "False", Reason: "NoMeshProxy"}
	ready, not := &said{status: "True", reason: "Ready"}, &said{status: "False", reason: "VirtualServicesNotFound", message: "Add one"}
	for name, tt := range map[string]struct {
		// of are further conditions of the caller, callee those of the other fork.
		of, callee        []crdv1.StatusCondition
		istio, gatewayAPI *said
		want              bool
	}{
		"a mesh routes the other":            {[]crdv1.StatusCondition{outside}, []crdv1.StatusCondition{absent}, ready, nil, true},
		"it has a proxy":                     {nil, []crdv1.StatusCondition{absent}, ready, nil, false},
		"DevMesh routes the other":           {[]crdv1.StatusCondition{outside}, nil, ready, nil, false},
		"no mesh routes the other":           {[]crdv1.StatusCondition{outside}, []crdv1.StatusCondition{absent}, not, nil, false},
		"no mesh is on":                      {[]crdv1.StatusCondition{outside}, []crdv1.StatusCondition{absent}, nil, nil, false},
		"routes of Gateways route the other": {[]crdv1.StatusCondition{outside}, []crdv1.StatusCondition{absent}, not, ready, false},
		"it is the other itself":             {nil, []crdv1.StatusCondition{absent, outside}, ready, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			c, w := routingtest.Keyed()
			if tt.callee != nil {
				w.Status.Conditions = append(w.Status.Conditions[1:], tt.callee...)
			}
			_, caller := routingtest.Keyed()
			caller.Name, caller.UID, caller.Spec.Baseline.Name = "caller", "caller", "front"
			caller.Status.RoutingConfig.Services[0] = crdv1.ServiceMapping{From: "front", To: "forked-front", Ports: []crdv1.MappedPort{{Port: 80, TargetPort: 8080}}}
			caller.Status.Conditions = append(caller.Status.Conditions, tt.of...)
			named := c.Spec.SandboxedWorkloads[0]
			named.Name = "caller"
			c.Spec.SandboxedWorkloads = append(c.Spec.SandboxedWorkloads, named)
			r := routing.Of(c, []crdv1.Member{w, caller}, nil)
			r.Mesh = routesSaying(r, tt.istio, tt.gatewayAPI)
			got := r.OutsideMesh()
			if !tt.want {
				if len(got) > 0 {
					t.Errorf("it is %q", got)
				}
				return
			}
			const want = "The fork of Deployment ns/front has no proxy of a mesh, so requests with the key that it sends to Deployment ns/base reach the baseline; "
			if len(got) != 1 || !strings.HasPrefix(got[0], want) {
				t.Fatalf("it is %q", got)
			}
			if sidecars := r.Sidecars(); !sidecars.IsTrue() || !strings.Contains(sidecars.Message, want) {
				t.Errorf("SidecarsReady is %+v", sidecars)
			}
		})
	}
}
