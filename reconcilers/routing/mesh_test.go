package routing_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/reconcilers/routing"
	"switchyard.dev/reconcilers/routing/routingtest"
	"switchyard.dev/sidecars/inject"
)

// said is the Ready condition of a mesh route, and whether it has matched an owner's object.
type said struct {
	status, reason, message string
	matched                 bool
}

// conditions are those of such a route.
func (s *said) conditions() []crdv1.StatusCondition {
	return []crdv1.StatusCondition{{Type: crdv1.ConditionReady, Status: s.status, Reason: s.reason, Message: s.message}}
}

// routesSaying returns mesh routes for Service ns/base with these conditions; nil for a mesh that is
// off, and said{} for a missing mesh route.
func routesSaying(r routing.Routing, istio, gatewayAPI *said) routing.MeshRoutes {
	out := routing.MeshRoutes{}
	name := crdv1.ObjectName(crdv1.MaxObjectName, r.Config.Name, "ns", "base")
	if istio != nil {
		out.Begin(crdv1.KindIstioRoute)
		if istio.status != "" {
			o := &crdv1.IstioRoute{Status: crdv1.IstioRouteStatus{Conditions: istio.conditions()}}
			if istio.matched {
				o.Status.MatchedVirtualServices = []crdv1.VirtualServiceMatch{{Name: "v"}}
			}
			out[crdv1.KindIstioRoute][name] = o
		}
	}
	if gatewayAPI != nil {
		out.Begin(crdv1.KindGatewayAPIRoute)
		if gatewayAPI.status != "" {
			o := &crdv1.GatewayAPIRoute{Status: crdv1.GatewayAPIRouteStatus{Conditions: gatewayAPI.conditions()}}
			if gatewayAPI.matched {
				o.Status.MatchedObjects = []crdv1.MatchedObject{{Status: "Ignored"}, {Status: gatewayAPI.reason}}
			}
			out[crdv1.KindGatewayAPIRoute][name] = o
		}
	}
	return out
}

// kindOf returns a kind by its name.
func kindOf(t *testing.T, name string) crdv1.Kind {
	t.Helper()
	k, is := crdv1.KindCalled(name)
	if !is {
		t.Fatalf("there is no kind %s", name)
	}
	return k
}

func TestWantedMeshRoutes(t *testing.T) {
	c, w := routingtest.Keyed()
	c.Labels = map[string]string{crdv1.LabelSandbox: "sb", "of": "somebody"}
	all := routing.Of(c, []crdv1.Member{w}, nil).WantedMeshRoutes(kindOf(t, crdv1.KindIstioRoute))
	if len(all) != 1 {
		t.Fatalf("there are %d", len(all))
	}
	want := crdv1.IstioRouteSpec{RoutingKey: "k", Managed: crdv1.ManagedIstioRoute{
		Namespace: "ns", TargetService: "base",
		Baseline: crdv1.IstioRouteBaseline{
			WorkloadBaseline: crdv1.WorkloadBaseline{WorkloadID: "base", Generation: 1},
			WorkloadRef:      crdv1.WorkloadRef{Kind: "Deployment", Namespace: "ns", Name: "base"},
		},
		Mappings:          []crdv1.IstioPortMapping{{FromPort: 80, ToService: "forked", WorkloadPort: 8080}},
		SandboxedWorkload: crdv1.SandboxedWorkloadRef{Kind: crdv1.KindForkedWorkload, Namespace: "ns", Name: "f", SandboxName: "sb"},
	}}
	if diff := cmp.Diff(want, *all[0].Asked()); diff != "" {
		t.Error(diff)
	}
	if ref := all[0].GetOwnerReferences(); len(ref) != 1 || ref[0].UID != c.UID || !*ref[0].Controller {
		t.Errorf("its owners are %+v", ref)
	}
	if diff := cmp.Diff(map[string]string{crdv1.LabelSandbox: "sb"}, all[0].GetLabels()); diff != "" {
		t.Error(diff)
	}
	for name, change := range map[string]func(){
		"nothing was seen of the baseline":        func() { w.Status.Baseline = nil },
		"it is not known how the fork is reached": func() { w.Status.RoutingConfig = nil },
		"no port could be mapped":                 func() { w.Status.RoutingConfig.Services[0].To = "" },
	} {
		t.Run(name, func(t *testing.T) {
			_, fresh := routingtest.Keyed()
			*w = *fresh
			change()
			if got := routing.Of(c, []crdv1.Member{w}, nil).WantedMeshRoutes(kindOf(t, crdv1.KindIstioRoute)); len(got) > 0 {
				t.Errorf("there is %s", got[0].GetName())
			}
		})
	}
	v := &crdv1.VirtualWorkload{ObjectMeta: w.ObjectMeta, Spec: crdv1.VirtualWorkloadSpec{Baseline: w.Spec.Baseline}}
	_, fresh := routingtest.Keyed()
	v.Status.Baseline, v.Status.RoutingConfig = fresh.Status.Baseline, fresh.Status.RoutingConfig
	c.Spec.SandboxedWorkloads[0].Kind = crdv1.KindVirtualWorkload
	if got := routing.Of(c, []crdv1.Member{v}, nil).WantedMeshRoutes(kindOf(t, crdv1.KindIstioRoute)); len(got) > 0 {
		t.Errorf("a virtual workload has %s", got[0].GetName())
	}
	v.Status.RoutingConfig.DevMeshSidecarPresent = false // and it is recorded
	for reason, want := range map[string]int{baseline.ReasonSidecarAbsent: 1, baseline.ReasonSidecarNotReady: 0} {
		condition.Write(v, condition.Set{baseline.ConditionSidecarsReady: condition.False(reason, "")}, metav1.Time{})
		if got := routing.Of(c, []crdv1.Member{v}, nil).WantedMeshRoutes(kindOf(t, crdv1.KindIstioRoute)); len(got) != want {
			t.Errorf("a recorded virtual workload with %s has %d routes", reason, len(got))
		}
	}
}

func TestAWorkloadWithoutSidecarsIsRoutedByAMesh(t *testing.T) {
	ready, none := &said{status: "True", reason: "Ready"}, &said{}
	add := &said{status: "False", reason: "VirtualServicesNotFound", message: "Add one"}
	lost := &said{status: "False", reason: "HeaderMatched", message: "it matches baggage", matched: true}
	waits := &said{status: "False", reason: crdv1.ReasonPending}
	governed := &said{status: "False", reason: "GovernedByVirtualService", message: "one of the two", matched: true}
	for _, tt := range []struct {
		name string
		// reason is that of the member's SidecarsReady, which is False.
		reason            string
		istio, gatewayAPI *said
		// ready, reason and part of the message.
		want, wantReason, says string
	}{
		{"no mesh is on", baseline.ReasonSidecarAbsent, nil, nil, "False", baseline.ReasonSidecarAbsent, "annotate it"},
		{"its IstioRoute is not there yet", baseline.ReasonSidecarAbsent, none, nil, "Unknown", crdv1.ReasonPending, "The VirtualServices that route to Service ns/base are getting"},
		{"its IstioRoute is ready", baseline.ReasonSidecarAbsent, ready, nil, "True", "SidecarsReady",
			"VirtualServices route requests for Deployment ns/base to the sandbox."},
		{"its IstioRoute is not", baseline.ReasonSidecarAbsent, add, nil, "False", "VirtualServicesNotFound", "Add one"},
		{"its IstioRoute waits", baseline.ReasonSidecarAbsent, waits, nil, "Unknown", crdv1.ReasonPending, "are getting"},
		{"DevMesh routes it and a sidecar is not ready", baseline.ReasonSidecarNotReady, ready, nil, "False", baseline.ReasonSidecarNotReady, "annotate it"},
		{"its GatewayAPIRoute is not there yet", baseline.ReasonSidecarAbsent, nil, none, "Unknown", crdv1.ReasonPending,
			"The HTTPRoutes and GRPCRoutes that route to Service ns/base are getting"},
		{"its GatewayAPIRoute is ready", baseline.ReasonSidecarAbsent, nil, ready, "True", "SidecarsReady",
			"HTTPRoutes and GRPCRoutes route requests for Deployment ns/base to the sandbox."},
		{"one of two meshes routes to it", baseline.ReasonSidecarAbsent, add, ready, "True", "SidecarsReady", "HTTPRoutes and GRPCRoutes route requests"},
		{"one of two meshes may yet", baseline.ReasonSidecarAbsent, add, waits, "Unknown", crdv1.ReasonPending, "HTTPRoutes and GRPCRoutes that route"},
		{"a VirtualService leads to it, beside routes of which nothing is derived", baseline.ReasonSidecarAbsent, ready, governed, "True", "SidecarsReady",
			"VirtualServices route requests for Deployment ns/base to the sandbox. But HTTPRoutes or GRPCRoutes also forward to Service base: requests that they match reach the baseline."},
		{"neither does, and one has matched", baseline.ReasonSidecarAbsent, add, lost, "False", "HeaderMatched", "it matches baggage"},
		{"neither does, and a VirtualService governs", baseline.ReasonSidecarAbsent, lost, governed, "False", "HeaderMatched", "it matches baggage"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, w := routingtest.Keyed()
			w.Status.Conditions[0] = crdv1.StatusCondition{Type: baseline.ConditionSidecarsReady, Status: "False", Reason: tt.reason, Message: "annotate it"}
			r := routing.Of(c, []crdv1.Member{w}, nil)
			r.Mesh = routesSaying(r, tt.istio, tt.gatewayAPI)
			// As in the status of the RoutingConfig, which its owner reads.
			for kind := range r.Mesh {
				c.Status.Conditions = append(c.Status.Conditions, crdv1.StatusCondition{Type: routing.MeshCondition(kind)})
			}
			c.Status.ProcessedWorkloads = []crdv1.ProcessedWorkload{{Routes: &crdv1.ProcessedRoutes{Istio: r.IstioOf(w), GatewayAPI: r.GatewayAPIOf(w)}}}
			for _, r := range []routing.Routing{r, routing.Of(c, []crdv1.Member{w}, nil)} {
				got := r.Sidecars()
				if string(got.Status) != tt.want || got.Reason != tt.wantReason || !strings.Contains(got.Message, tt.says) {
					t.Errorf("it is %+v", got)
				}
			}
		})
	}
	t.Run("with sidecars it needs no mesh", func(t *testing.T) {
		c, w := routingtest.Keyed()
		r := routing.Of(c, []crdv1.Member{w}, nil)
		r.Mesh = routesSaying(r, add, ready)
		if got := r.Sidecars(); !got.IsTrue() {
			t.Errorf("it is %+v", got)
		}
		if got := r.MeshRoutesReady(crdv1.KindIstioRoute); !got.IsFalse() || got.Message != "Add one" {
			t.Errorf("the IstioRoutes are %+v", got)
		}
		if got := r.MeshRoutesReady(crdv1.KindGatewayAPIRoute); !got.IsTrue() {
			t.Errorf("the GatewayAPIRoutes are %+v", got)
		}
	})
}

// TestAMeshRoutesAWorkloadOnceEachServiceIsLed asks which workloads need no sidecar.
func TestAMeshRoutesAWorkloadOnceEachServiceIsLed(t *testing.T) {
	made := metav1.ObjectMeta{Generation: 2, OwnerReferences: []metav1.OwnerReference{{
		APIVersion: crdv1.APIVersion, Kind: crdv1.KindRoutingConfig, Name: "k", Controller: new(true)}}}
	asked := func(service string) crdv1.IstioRouteSpec {
		s := crdv1.IstioRouteSpec{RoutingKey: "k", Managed: crdv1.ManagedIstioRoute{Namespace: "shop", TargetService: service}}
		s.Managed.Baseline.WorkloadRef = crdv1.WorkloadRef{Kind: "Deployment", Namespace: "shop", Name: "customer"}
		return s
	}
	is := func(status string) []crdv1.StatusCondition {
		return []crdv1.StatusCondition{{Type: crdv1.ConditionReady, Status: status}}
	}
	istio := func(service, ready string, changes ...func(*crdv1.IstioRoute)) crdv1.MeshRoute {
		o := &crdv1.IstioRoute{ObjectMeta: *made.DeepCopy(), Spec: asked(service), Status: crdv1.IstioRouteStatus{ObservedGeneration: 2, Conditions: is(ready)}}
		for _, change := range changes {
			change(o)
		}
		return o
	}
	gatewayAPI := func(service, ready string, parents ...string) crdv1.MeshRoute {
		return &crdv1.GatewayAPIRoute{ObjectMeta: *made.DeepCopy(), Spec: asked(service), Status: crdv1.GatewayAPIRouteStatus{ObservedGeneration: 2, Conditions: is(ready),
			MatchedObjects: []crdv1.MatchedObject{{Status: "Ignored", ParentKinds: []string{"Service"}}, {Derived: &crdv1.RouteObject{}, ParentKinds: parents}}}}
	}
	for name, tt := range map[string]struct {
		all  []crdv1.MeshRoute
		want bool
	}{
		"none":                               {},
		"all are ready":                      {[]crdv1.MeshRoute{istio("a", "True"), istio("b", "True")}, true},
		"one is not ready":                   {[]crdv1.MeshRoute{istio("a", "False"), istio("b", "True")}, false},
		"the last is not ready":              {[]crdv1.MeshRoute{istio("a", "True"), istio("b", "False")}, false},
		"one says nothing":                   {[]crdv1.MeshRoute{istio("a", "True"), istio("b", "", func(o *crdv1.IstioRoute) { o.Status = crdv1.IstioRouteStatus{} })}, false},
		"one has changed":                    {[]crdv1.MeshRoute{istio("a", "True", func(o *crdv1.IstioRoute) { o.Generation++ })}, false},
		"made by hand":                       {[]crdv1.MeshRoute{istio("a", "True", func(o *crdv1.IstioRoute) { o.OwnerReferences = nil })}, false},
		"of another":                         {[]crdv1.MeshRoute{istio("a", "True"), istio("b", "", func(o *crdv1.IstioRoute) { o.Spec.Managed.Baseline.Name = "other" })}, true},
		"routes of a Service":                {[]crdv1.MeshRoute{gatewayAPI("a", "True", "Gateway", "Service")}, true},
		"routes of a Service, not ready":     {[]crdv1.MeshRoute{gatewayAPI("a", "False", "Service")}, false},
		"routes of Gateways alone":           {[]crdv1.MeshRoute{gatewayAPI("a", "True", "Gateway")}, false},
		"a mesh for each":                    {[]crdv1.MeshRoute{istio("a", "True"), gatewayAPI("a", "False", "Service"), istio("b", "False"), gatewayAPI("b", "True", "Service")}, true},
		"a mesh for one, and none for other": {[]crdv1.MeshRoute{istio("a", "True"), gatewayAPI("a", "False"), istio("b", "False"), gatewayAPI("b", "False")}, false},
	} {
		if got := routing.RoutedByMesh(tt.all)[inject.Workload{Kind: "Deployment", Namespace: "shop", Name: "customer"}]; got != tt.want {
			t.Errorf("%s: a mesh routes it: %t", name, got)
		}
	}
}

// TestAServiceOfTwoBaselinesRoutesToOneFork has two members replace two workloads of one Service, both
// without sidecars.
func TestAServiceOfTwoBaselinesRoutesToOneFork(t *testing.T) {
	c, second := routingtest.Keyed()
	_, first := routingtest.Keyed()
	first.Name, first.Spec.Baseline.Name = "g", "a-base"
	c.Spec.SandboxedWorkloads = append(c.Spec.SandboxedWorkloads, c.Spec.SandboxedWorkloads[0])
	c.Spec.SandboxedWorkloads[1].Name = "g"
	for _, w := range []*crdv1.ForkedWorkload{first, second} {
		w.Status.Conditions[0] = crdv1.StatusCondition{Type: baseline.ConditionSidecarsReady, Status: "False", Reason: baseline.ReasonSidecarAbsent}
	}
	r := routing.Of(c, []crdv1.Member{second, first}, nil)
	all := r.WantedMeshRoutes(kindOf(t, crdv1.KindIstioRoute))
	if len(all) != 1 || all[0].Asked().Managed.SandboxedWorkload.Name != "g" {
		t.Fatalf("the IstioRoutes are %+v", all)
	}
	r.Mesh = routesSaying(r, &said{status: "True", reason: "Ready"}, nil)
	const want = `Service ns/base selects pods of two workloads: its requests with the key reach ForkedWorkload ns/g of sandbox "sb", and none reaches ForkedWorkload ns/f of sandbox "sb".`
	for _, got := range []condition.Condition{r.MeshRoutesReady(crdv1.KindIstioRoute), r.Sidecars()} {
		if !got.IsFalse() || got.Reason != routing.ReasonRoutingConflict || !strings.HasPrefix(got.Message, want) {
			t.Errorf("it is %+v", got)
		}
	}
}
