package istioroute_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/reconcilers/istioroute"
	"switchyard.dev/reconcilers/meshes"
	"switchyard.dev/reconcilers/meshes/istio"
	"switchyard.dev/reconcilers/meshes/istioadapter"
)

var now = metav1.NewTime(time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC))

// route is an IstioRoute that a RoutingConfig has made.
func route() *crdv1.IstioRoute {
	yes := true
	return &crdv1.IstioRoute{
		ObjectMeta: metav1.ObjectMeta{Name: "k-shop-customer", Generation: 3, OwnerReferences: []metav1.OwnerReference{{
			APIVersion: crdv1.APIVersion, Kind: crdv1.KindRoutingConfig, Name: "k", UID: "uid", Controller: &yes,
		}}},
		Spec: crdv1.IstioRouteSpec{RoutingKey: "k", Managed: crdv1.ManagedIstioRoute{Namespace: "shop", TargetService: "customer"}},
	}
}

// byHand takes the owner from an IstioRoute.
func byHand(o *crdv1.IstioRoute) *crdv1.IstioRoute {
	o.OwnerReferences = nil
	return o
}

// match is a VirtualService that routes to the Service.
func match(name, status, message string) crdv1.VirtualServiceMatch {
	return crdv1.VirtualServiceMatch{Namespace: "shop", Name: name, Status: status, Message: message}
}

// leadingTo returns an IstioRoute that asks for a Service of a fork.
func leadingTo(service string) *crdv1.IstioRoute {
	r := route()
	r.Spec.Managed.Mappings = []crdv1.IstioPortMapping{{FromPort: 80, ToService: service, WorkloadPort: 8080}}
	return r
}

func TestConclude(t *testing.T) {
	forbidden := condition.False("Forbidden", "VirtualServices cannot be read")
	none := condition.False(istio.ReasonNoVirtualService, "Add this one")
	some := "VirtualService shop/a is exported to some namespaces only."
	headers := condition.False(istio.ReasonHeaderMatched, "a matches baggage")
	for _, tt := range []struct {
		name   string
		object *crdv1.IstioRoute
		known  *istioadapter.Report
		// ready, and reason and part of the message of Ready.
		ready        metav1.ConditionStatus
		reason, says string
	}{
		{"nothing is known yet", route(), &istioadapter.Report{}, "False", crdv1.ReasonPending, "shop/customer go is not on the routing log yet"},
		{"another fork was on the log", leadingTo("new"), &istioadapter.Report{Synced: true, Mappings: leadingTo("old").Spec.Managed.Mappings,
			Matches: []crdv1.VirtualServiceMatch{match("a", istio.StatusApplied, "")}}, "False", crdv1.ReasonPending, "not on the routing log yet"},
		{"Istio is off", route(), nil, "Unknown", istioroute.ReasonIstioDisabled, "istio.enabled is false"},
		{"a user wrote it by hand", byHand(route()), &istioadapter.Report{Synced: true}, "False", meshes.ReasonNoRoutingConfig, "no RoutingConfig has made it"},
		{"VirtualServices cannot be read", route(), &istioadapter.Report{Trouble: &forbidden, Synced: true}, "False", "Forbidden", "cannot be read"},
		{"no VirtualService routes to the Service", route(), &istioadapter.Report{Synced: true, Lost: &none}, "False", istio.ReasonNoVirtualService, "Add this one"},
		{"all have the routes", route(), &istioadapter.Report{Synced: true, Matches: []crdv1.VirtualServiceMatch{
			match("a", istio.StatusApplied, ""), match("b", istio.StatusIgnored, "")}}, "True", "Ready", "routed to the sandbox by VirtualServices: shop/a."},
		{"none has a route", route(), &istioadapter.Report{Synced: true, Matches: []crdv1.VirtualServiceMatch{
			match("a", istio.StatusSkipped, "None leads to a port.")}}, "False", meshes.ReasonNoRoutes, "reach the baseline. VirtualService shop/a: None leads to a port."},
		{"there is more to know", route(), &istioadapter.Report{Synced: true, Notes: []string{some, "b", "c", "d", "e"}, Matches: []crdv1.VirtualServiceMatch{
			match("a", istio.StatusApplied, "")}}, "True", "Ready", "by VirtualServices: shop/a. " + some + " b c And 2 more notes."},
		{"one cannot be written", route(), &istioadapter.Report{Synced: true, Matches: []crdv1.VirtualServiceMatch{
			match("a", istio.StatusApplied, ""), match("b", istioadapter.StatusFailed, "b cannot be written")}}, "False", istioroute.ReasonVirtualServiceFailed, "b cannot be written"},
		{"one is being written", route(), &istioadapter.Report{Synced: true, Matches: []crdv1.VirtualServiceMatch{
			match("a", istioadapter.StatusPending, ""), match("b", istio.StatusApplied, "")}}, "False", crdv1.ReasonPending, "getting their routes"},
		{"requests are lost", route(), &istioadapter.Report{Synced: true, Lost: &headers, Matches: []crdv1.VirtualServiceMatch{
			match("a", istio.StatusPartial, "")}}, "False", istio.ReasonHeaderMatched, "matches baggage"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			after := istioroute.Conclude(tt.object, tt.known, now)
			ready := crdv1.FindCondition(after.Status.Conditions, crdv1.ConditionReady)
			if ready == nil || ready.Status != string(tt.ready) || ready.Reason != tt.reason || !strings.Contains(ready.Message, tt.says) {
				t.Errorf("Ready is %+v", ready)
			}
			if after.Status.ObservedGeneration != 3 || len(after.Status.Conditions) != len(after.ConditionTypes()) {
				t.Errorf("the status is %+v", after.Status)
			}
			if len(tt.object.Status.Conditions) > 0 {
				t.Error("the object itself was changed")
			}
		})
	}
	t.Run("routes may be left where nobody changes VirtualServices any more", func(t *testing.T) {
		unreadable := condition.False(istioadapter.ReasonUnreadable, "VirtualServices cannot be read: forbidden. Retrying.")
		absent := condition.False(istioadapter.ReasonNoVirtualServices, "The cluster has none")
		for _, tt := range []struct {
			name         string
			known        *istioadapter.Report
			left         bool
			reason, says string
		}{
			{"Istio is off", nil, true, istioroute.ReasonRoutesLeft,
				`Routes for routing key "k" remain in VirtualServices because istio.enabled is false: shop/a. Set it to true until the sandbox is deleted, or apply each VirtualService again`},
			{"a right is missing", &istioadapter.Report{Trouble: &unreadable}, true, istioadapter.ReasonUnreadable, "Retrying. Until then routes for the key remain in VirtualServices: shop/a."},
			{"there are no VirtualServices any more", &istioadapter.Report{Trouble: &absent}, false, istioadapter.ReasonNoVirtualServices, "The cluster has none"},
		} {
			o := route()
			o.Status.MatchedVirtualServices = []crdv1.VirtualServiceMatch{match("a", istio.StatusApplied, ""), match("b", istio.StatusSkipped, ""), match("c", istio.StatusIgnored, "")}
			for range 2 { // It stays so.
				o = istioroute.Conclude(o, tt.known, now)
				ready := crdv1.FindCondition(o.Status.Conditions, crdv1.ConditionReady)
				if ready == nil || ready.Reason != tt.reason || !strings.Contains(ready.Message, tt.says) || strings.Count(ready.Message, "Until then") > 1 {
					t.Errorf("%s: Ready is %+v", tt.name, ready)
				}
				m := o.Status.MatchedVirtualServices
				if left := len(m) == 1 && m[0].Name == "a" && m[0].Status == istioadapter.StatusLeft; left != tt.left || !left && len(m) > 0 {
					t.Errorf("%s: it matches %+v", tt.name, m)
				}
			}
		}
		if unreadable.Message != "VirtualServices cannot be read: forbidden. Retrying." {
			t.Error("the report was changed")
		}
	})
	t.Run("the process has just been started", func(t *testing.T) {
		o := route()
		o.Status.ObservedGeneration = o.Generation
		if after := istioroute.Conclude(o, &istioadapter.Report{Starting: true}, now); after != o {
			t.Errorf("the status becomes %+v", after.Status)
		}
		o.Generation++
		if after := istioroute.Conclude(o, &istioadapter.Report{Starting: true}, now); after.Status.ObservedGeneration != o.Generation {
			t.Errorf("after a change of what is asked for the status is %+v", after.Status)
		}
	})
	t.Run("another program writes the status", func(t *testing.T) {
		o := route()
		o.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "another", Subresource: "status"}}
		if after := istioroute.Conclude(o, nil, now); after != o {
			t.Errorf("while Istio is off its status becomes %+v", after.Status)
		}
	})
}

// TestAStatusHasRoomForSome has more VirtualServices than a status lists, the last of which fails.
func TestAStatusHasRoomForSome(t *testing.T) {
	known := &istioadapter.Report{Synced: true}
	for i := range 40 {
		known.Matches = append(known.Matches, match(fmt.Sprintf("v%02d", i), istio.StatusApplied, ""))
	}
	known.Matches[39] = match("v39", istioadapter.StatusFailed, "v39 cannot be written")
	status := istioroute.Conclude(route(), known, now).Status
	if n := len(status.MatchedVirtualServices); n != 32 {
		t.Errorf("it lists %d", n)
	}
	for conditionType, says := range map[string]string{
		crdv1.ConditionVirtualServicesMatched: "shop/v00, shop/v01, shop/v02, and 37 more. The status lists the first 32 and leaves out 8.",
		crdv1.ConditionRoutesApplied:          "v39 cannot be written",
	} {
		if c := crdv1.FindCondition(status.Conditions, conditionType); c == nil || !strings.Contains(c.Message, says) {
			t.Errorf("%s is %+v, and does not say %q", conditionType, c, says)
		}
	}
}
