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

// said is what an IstioRoute says of itself.
func said(status, reason, message string) crdv1.IstioRouteStatus {
	return crdv1.IstioRouteStatus{Conditions: []crdv1.StatusCondition{{Type: crdv1.ConditionReady, Status: status, Reason: reason, Message: message}}}
}

func TestWantedIstioRoutes(t *testing.T) {
	c, w := routingtest.Keyed()
	c.Labels = map[string]string{crdv1.LabelSandbox: "sb", "of": "somebody"}
	all := routing.Of(c, []crdv1.Member{w}, nil).WantedIstioRoutes()
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
	if diff := cmp.Diff(want, all[0].Spec); diff != "" {
		t.Error(diff)
	}
	if ref := all[0].OwnerReferences; len(ref) != 1 || ref[0].UID != c.UID || !*ref[0].Controller {
		t.Errorf("its owners are %+v", ref)
	}
	if diff := cmp.Diff(map[string]string{crdv1.LabelSandbox: "sb"}, all[0].Labels); diff != "" {
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
			if got := routing.Of(c, []crdv1.Member{w}, nil).WantedIstioRoutes(); len(got) > 0 {
				t.Errorf("there is %s", got[0].Name)
			}
		})
	}
	v := &crdv1.VirtualWorkload{ObjectMeta: w.ObjectMeta, Spec: crdv1.VirtualWorkloadSpec{Baseline: w.Spec.Baseline}}
	_, fresh := routingtest.Keyed()
	v.Status.Baseline, v.Status.RoutingConfig = fresh.Status.Baseline, fresh.Status.RoutingConfig
	c.Spec.SandboxedWorkloads[0].Kind = crdv1.KindVirtualWorkload
	if got := routing.Of(c, []crdv1.Member{v}, nil).WantedIstioRoutes(); len(got) > 0 {
		t.Errorf("a virtual workload has %s", got[0].Name)
	}
}

func TestAWorkloadWithoutSidecarsIsRoutedByIstio(t *testing.T) {
	const name = "k-ns-base"
	for _, tt := range []struct {
		name string
		// reason is that of SidecarsReady of the member, whose status is False.
		reason string
		istio  routing.IstioRoutes
		// ready, reason and part of the message.
		want, wantReason, says string
	}{
		{"Istio is off", baseline.ReasonSidecarAbsent, nil, "False", baseline.ReasonSidecarAbsent, "annotate it"},
		{"its IstioRoute is not there yet", baseline.ReasonSidecarAbsent, routing.IstioRoutes{}, "Unknown", crdv1.ReasonPending, "Service ns/base are getting"},
		{"its IstioRoute is ready", baseline.ReasonSidecarAbsent, routing.IstioRoutes{name: said("True", "Ready", "")}, "True", "SidecarsReady",
			"VirtualServices lead requests for Deployment ns/base to the sandbox."},
		{"its IstioRoute is not", baseline.ReasonSidecarAbsent, routing.IstioRoutes{name: said("False", "VirtualServicesNotFound", "Add one")}, "False", "VirtualServicesNotFound", "Add one"},
		{"its IstioRoute waits", baseline.ReasonSidecarAbsent, routing.IstioRoutes{name: said("False", crdv1.ReasonPending, "")}, "Unknown", crdv1.ReasonPending, "are getting"},
		{"DevMesh routes it and a sidecar is not ready", baseline.ReasonSidecarNotReady, routing.IstioRoutes{name: said("True", "Ready", "")}, "False", baseline.ReasonSidecarNotReady, "annotate it"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, w := routingtest.Keyed()
			w.Status.Conditions[0] = crdv1.StatusCondition{Type: baseline.ConditionSidecarsReady, Status: "False", Reason: tt.reason, Message: "annotate it"}
			r := routing.Of(c, []crdv1.Member{w}, nil)
			// As the RoutingConfig tells its owner of it.
			if r.Istio = tt.istio; tt.istio != nil {
				if all := r.WantedIstioRoutes(); !strings.HasPrefix(all[0].Name, name) {
					t.Fatal(all[0].Name)
				} else if status, ok := tt.istio[name]; ok {
					r.Istio = routing.IstioRoutes{all[0].Name: status}
				}
				c.Status.Conditions = []crdv1.StatusCondition{{Type: routing.ConditionIstioRoutesReady}}
				c.Status.ProcessedWorkloads = []crdv1.ProcessedWorkload{{Routes: &crdv1.ProcessedRoutes{Istio: r.IstioOf(w)}}}
			}
			for _, r := range []routing.Routing{r, routing.Of(c, []crdv1.Member{w}, nil)} {
				got := r.Sidecars()
				if string(got.Status) != tt.want || got.Reason != tt.wantReason || !strings.Contains(got.Message, tt.says) {
					t.Errorf("it is %+v", got)
				}
			}
		})
	}
	t.Run("with sidecars it needs no VirtualService", func(t *testing.T) {
		c, w := routingtest.Keyed()
		r := routing.Of(c, []crdv1.Member{w}, nil)
		r.Istio = routing.IstioRoutes{r.WantedIstioRoutes()[0].Name: said("False", "VirtualServicesNotFound", "Add one")}
		if got := r.Sidecars(); !got.IsTrue() {
			t.Errorf("it is %+v", got)
		}
		if got := r.IstioRoutesReady(); !got.IsFalse() || got.Message != "Add one" {
			t.Errorf("the IstioRoutes are %+v", got)
		}
	})
}

// TestAServiceOfTwoBaselinesLeadsToOneFork has two members stand for two workloads behind one
// Service, of which neither has sidecars.
func TestAServiceOfTwoBaselinesLeadsToOneFork(t *testing.T) {
	c, second := routingtest.Keyed()
	_, first := routingtest.Keyed()
	first.Name, first.Spec.Baseline.Name = "g", "a-base"
	c.Spec.SandboxedWorkloads = append(c.Spec.SandboxedWorkloads, c.Spec.SandboxedWorkloads[0])
	c.Spec.SandboxedWorkloads[1].Name = "g"
	for _, w := range []*crdv1.ForkedWorkload{first, second} {
		w.Status.Conditions[0] = crdv1.StatusCondition{Type: baseline.ConditionSidecarsReady, Status: "False", Reason: baseline.ReasonSidecarAbsent}
	}
	r := routing.Of(c, []crdv1.Member{second, first}, nil)
	all := r.WantedIstioRoutes()
	if len(all) != 1 || all[0].Spec.Managed.SandboxedWorkload.Name != "g" {
		t.Fatalf("the IstioRoutes are %+v", all)
	}
	r.Istio = routing.IstioRoutes{all[0].Name: said("True", "Ready", "")}
	const want = `Service ns/base leads to pods of two workloads: VirtualServices lead its requests with the key to ForkedWorkload ns/g of sandbox "sb", and none to ForkedWorkload ns/f of sandbox "sb".`
	for _, got := range []condition.Condition{r.IstioRoutesReady(), r.Sidecars()} {
		if !got.IsFalse() || got.Reason != routing.ReasonRoutingConflict || !strings.HasPrefix(got.Message, want) {
			t.Errorf("it is %+v", got)
		}
	}
}

// TestIstioRoutesAWorkloadOnceAllItsRoutesAreReady asks which workloads need no sidecar.
func TestIstioRoutesAWorkloadOnceAllItsRoutesAreReady(t *testing.T) {
	route := func(change func(*crdv1.IstioRoute)) crdv1.IstioRoute {
		yes := true
		o := crdv1.IstioRoute{ObjectMeta: metav1.ObjectMeta{Generation: 2, OwnerReferences: []metav1.OwnerReference{{
			APIVersion: crdv1.APIVersion, Kind: crdv1.KindRoutingConfig, Name: "k", Controller: &yes}}}}
		o.Spec.Managed.Baseline.WorkloadRef = crdv1.WorkloadRef{Kind: "Deployment", Namespace: "shop", Name: "customer"}
		o.Status = crdv1.IstioRouteStatus{ObservedGeneration: 2, Conditions: []crdv1.StatusCondition{{Type: crdv1.ConditionReady, Status: "True"}}}
		change(&o)
		return o
	}
	ready := route(func(*crdv1.IstioRoute) {})
	for name, tt := range map[string]struct {
		all  []crdv1.IstioRoute
		want bool
	}{
		"none":             {},
		"all are ready":    {[]crdv1.IstioRoute{ready, ready}, true},
		"one is not ready": {[]crdv1.IstioRoute{route(func(o *crdv1.IstioRoute) { o.Status.Conditions[0].Status = "False" }), ready}, false},
		"one says nothing": {[]crdv1.IstioRoute{ready, route(func(o *crdv1.IstioRoute) { o.Status = crdv1.IstioRouteStatus{} })}, false},
		"one has changed":  {[]crdv1.IstioRoute{route(func(o *crdv1.IstioRoute) { o.Generation++ })}, false},
		"made by hand":     {[]crdv1.IstioRoute{route(func(o *crdv1.IstioRoute) { o.OwnerReferences = nil })}, false},
		"of another": {[]crdv1.IstioRoute{ready, route(func(o *crdv1.IstioRoute) {
			o.Spec.Managed.Baseline.WorkloadRef.Name, o.Status = "other", crdv1.IstioRouteStatus{}
		})}, true},
	} {
		if got := routing.RoutedByIstio(tt.all)[inject.Workload{Kind: "Deployment", Namespace: "shop", Name: "customer"}]; got != tt.want {
			t.Errorf("%s: it is routed by Istio: %t", name, got)
		}
	}
}
