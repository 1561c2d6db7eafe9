package gatewayapiroute_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/reconcilers/gatewayapiroute"
	"switchyard.dev/reconcilers/meshes"
	"switchyard.dev/reconcilers/meshes/gatewayadapter"
	"switchyard.dev/reconcilers/meshes/gatewayapi"
)

var now = metav1.NewTime(time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC))

// route is a GatewayAPIRoute that a RoutingConfig has made.
func route() *crdv1.GatewayAPIRoute {
	return &crdv1.GatewayAPIRoute{
		ObjectMeta: metav1.ObjectMeta{Name: "k-shop-customer", Generation: 3, OwnerReferences: []metav1.OwnerReference{{
			APIVersion: crdv1.APIVersion, Kind: crdv1.KindRoutingConfig, Name: "k", UID: "uid", Controller: new(true),
		}}},
		Spec: crdv1.IstioRouteSpec{RoutingKey: "k", Managed: crdv1.ManagedIstioRoute{Namespace: "shop", TargetService: "customer"}},
	}
}

// match is an HTTPRoute that refers to the Service.
func match(name, status, message string) crdv1.MatchedObject {
	return crdv1.MatchedObject{Baseline: crdv1.RouteObject{Kind: "HTTPRoute", Namespace: "shop", Name: name}, Status: status, Message: message}
}

// some are matches.
func some(all ...crdv1.MatchedObject) []crdv1.MatchedObject { return all }

func TestConclude(t *testing.T) {
	trouble := condition.False(gatewayadapter.ReasonUnreadable, "HTTPRoutes cannot be read")
	none := condition.False(gatewayapi.ReasonNoRoute, "Add one")
	lost := condition.False(gatewayapi.ReasonRequestsLost, "Requests such as GET /api are answered by another")
	byHand := route()
	byHand.OwnerReferences = nil
	for _, tt := range []struct {
		name   string
		object *crdv1.GatewayAPIRoute
		known  *gatewayadapter.Report
		// ready, and reason and part of the message of Ready.
		ready, reason, says string
	}{
		{"the Gateway API is off", route(), nil, "Unknown", gatewayapiroute.ReasonGatewayAPIDisabled, "neither istio.gatewayAPI.enabled nor linkerd.gatewayAPI.enabled is true"},
		{"nothing is known yet", route(), &gatewayadapter.Report{}, "False", crdv1.ReasonPending, "Where requests for Service shop/customer go is not on the routing log yet"},
		{"a user wrote it by hand", byHand, &gatewayadapter.Report{Synced: true}, "False", meshes.ReasonNoRoutingConfig, "no RoutingConfig has made it"},
		{"routes cannot be read", route(), &gatewayadapter.Report{Synced: true, Trouble: &trouble}, "False", gatewayadapter.ReasonUnreadable, "cannot be read"},
		{"no route refers to the Service", route(), &gatewayadapter.Report{Synced: true, Lost: &none}, "False", gatewayapi.ReasonNoRoute, "Add one"},
		{"all are derived", route(), &gatewayadapter.Report{Synced: true, Notes: []string{"A note."}, Matches: some(
			match("a", gatewayapi.StatusDerived, ""), match("a", gatewayapi.StatusDerived, ""), match("b", gatewayapi.StatusDerived, ""))},
			"True", "Ready", "routed to the sandbox by HTTPRoutes and GRPCRoutes: HTTPRoute shop/a, HTTPRoute shop/b. A note."},
		{"its owner wants none", route(), &gatewayadapter.Report{Synced: true, Matches: some(match("a", gatewayapi.ReasonIgnored, "It has the annotation."))},
			"False", meshes.ReasonNoRoutes, "reach the baseline. HTTPRoute shop/a: It has the annotation."},
		{"one cannot be written", route(), &gatewayadapter.Report{Synced: true, Matches: some(match("a", gatewayapi.StatusDerived, ""), match("b", meshes.StatusFailed, "b is forbidden"))},
			"False", gatewayapiroute.ReasonRouteFailed, "b is forbidden"},
		{"one is not accepted yet", route(), &gatewayadapter.Report{Synced: true, Matches: some(match("a", meshes.StatusPending, ""))}, "False", crdv1.ReasonPending, "getting their routes"},
		{"requests are lost", route(), &gatewayadapter.Report{Synced: true, Lost: &lost, Matches: some(match("a", gatewayapi.ReasonRequestsLost, ""))},
			"False", gatewayapi.ReasonRequestsLost, "GET /api"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			after := gatewayapiroute.Conclude(tt.object, tt.known, now)
			ready := crdv1.FindCondition(after.Status.Conditions, crdv1.ConditionReady)
			if ready == nil || ready.Status != tt.ready || ready.Reason != tt.reason || !strings.Contains(ready.Message, tt.says) {
				t.Errorf("Ready is %+v", ready)
			}
			if after.Status.ObservedGeneration != 3 || len(after.Status.Conditions) != len(after.ConditionTypes()) {
				t.Errorf("the status is %+v", after.Status)
			}
			if want := tt.known != nil && tt.object != byHand; want && len(after.Status.MatchedObjects) != len(tt.known.Matches) {
				t.Errorf("it tells of %+v", after.Status.MatchedObjects)
			}
			if len(tt.object.Status.Conditions) > 0 {
				t.Error("the object itself was changed")
			}
		})
	}
}
