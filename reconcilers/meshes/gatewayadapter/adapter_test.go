package gatewayadapter_test

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayv1beta1 "sigs.k8s.io/gateway-api/apis/v1beta1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/meshes"
	"switchyard.dev/reconcilers/meshes/gatewayadapter"
	"switchyard.dev/reconcilers/meshes/gatewayapi"
	"switchyard.dev/tests/world"
)

// leadsTo reports whether the first backend of the first rule is a Service.
func leadsTo(service string) func(r *gatewayv1.HTTPRoute) bool {
	return func(r *gatewayv1.HTTPRoute) bool { return string(r.Spec.Rules[0].BackendRefs[0].Name) == service }
}

func TestASandboxComesAndGoes(t *testing.T) {
	w := world.Shared(t)
	w.DefineGatewayAPI()
	c := start(t, w, gatewayadapter.Settings{PreservedLabels: []string{"te*"}})
	shop := c.httpRoute("shop", "customer")
	grpc := &gatewayv1.GRPCRoute{}
	c.makeRoute(grpc, `{metadata: {name: rpc, namespace: `+c.ns+`}, spec: {parentRefs: [{name: edge}], rules: [{backendRefs: [{name: customer, port: 8081}]}]}}`)
	fork := c.fork("k1")
	c.says("k1", "that nobody has asked yet", func(r gatewayadapter.Report) bool { return !r.Starting && !r.Synced })
	if n := len(c.derivedOf("k1")); n > 0 {
		t.Fatalf("%d routes are derived for a GatewayAPIRoute that is not there", n)
	}
	asked := c.ask("k1", fork)
	r := c.derives("k1", "it leads to the fork", leadsTo(fork))
	if o := r.OwnerReferences; len(o) != 1 || o[0].UID != asked.UID || o[0].Kind != crdv1.KindGatewayAPIRoute {
		t.Errorf("its owners are %+v", o)
	}
	if r.Labels["team"] != "shop" || r.Labels["app"] != "" || *r.Spec.Rules[0].Timeouts.Request != "3s" {
		t.Errorf("its labels are %v, its rule is %+v", r.Labels, r.Spec.Rules[0])
	}
	c.says("k1", "that both are derived", func(r gatewayadapter.Report) bool { return isDerived(r) && len(r.Matches) == 2 })
	if c.main.Settled("k1") {
		t.Error("the key counts as settled")
	}
	second := c.sandbox("k2")
	c.derives("k2", "it leads to the other fork", leadsTo(second))
	before := c.derives("k1", "it stays", nil).ResourceVersion
	c.withdraw("k2")
	c.none("k2")
	if after := c.derives("k1", "it stays", nil).ResourceVersion; after != before {
		t.Errorf("the route of one key was written for another: %s after %s", after, before)
	}
	c.withdraw("k1")
	c.none("k1")
	now := &gatewayv1.HTTPRoute{}
	c.Must(c.routes.Get(t.Context(), client.ObjectKeyFromObject(shop), now))
	if now.ResourceVersion != shop.ResourceVersion {
		t.Errorf("the owner's route was written: %+v", now)
	}
}

func TestADerivedRouteFollowsItsOriginalAndIsRepaired(t *testing.T) {
	w := world.Shared(t)
	w.DefineGatewayAPI()
	c := start(t, w, gatewayadapter.Settings{})
	shop := c.httpRoute("shop", "customer")
	fork := c.sandbox("k1")
	r := c.derives("k1", "it leads to the fork", leadsTo(fork))
	for name, change := range map[string]func(r *gatewayv1.HTTPRoute){
		"a backend":     func(r *gatewayv1.HTTPRoute) { r.Spec.Rules[0].BackendRefs[0].Name = "customer" },
		"a host name":   func(r *gatewayv1.HTTPRoute) { r.Spec.Hostnames = []gatewayv1.Hostname{"other.test"} },
		"its owners":    func(r *gatewayv1.HTTPRoute) { r.OwnerReferences = nil },
		"an annotation": func(r *gatewayv1.HTTPRoute) { r.Annotations[gatewayapi.AnnotationDerivedFrom] = "x" },
		"its key":       func(r *gatewayv1.HTTPRoute) { delete(r.Annotations, crdv1.AnnotationRoutingKey) },
		"its labels":    func(r *gatewayv1.HTTPRoute) { r.Labels = map[string]string{gatewayapi.LabelManagedBy: "theirs"} },
	} {
		t.Run("somebody changes "+name, func(t *testing.T) {
			c.Eventually("it is changed", func() error {
				all := c.derivedOf("k1")
				if len(all) != 1 {
					return errors.New("it is not there")
				}
				change(&all[0])
				return c.routes.Update(t.Context(), &all[0])
			})
			c.derives("k1", "it is repaired", func(now *gatewayv1.HTTPRoute) bool {
				return leadsTo(fork)(now) && gatewayapi.IsDerived(&metav1.ObjectMeta{Labels: now.Labels}) && len(now.OwnerReferences) == 1 && now.Spec.Hostnames[0] == "shop.test" && maps.Equal(now.Annotations, r.Annotations)
			})
		})
	}
	t.Run("somebody deletes it", func(t *testing.T) {
		c.Must(c.routes.Delete(t.Context(), c.derives("k1", "it is there", nil)))
		c.derives("k1", "it is made again", leadsTo(fork))
	})
	t.Run("the owner changes his", func(t *testing.T) {
		c.edit(shop, func(r *gatewayv1.HTTPRoute) {
			r.Spec.Hostnames = append(r.Spec.Hostnames, "www.shop.test")
			r.Spec.Rules = append(r.Spec.Rules, *r.Spec.Rules[0].DeepCopy())
			r.Spec.Rules[1].Matches[0].Path.Value = new("/other")
		})
		c.derives("k1", "it follows", func(r *gatewayv1.HTTPRoute) bool { return len(r.Spec.Hostnames) == 2 && len(r.Spec.Rules) == 2 })
		c.says("k1", "that it is derived", isDerived)
	})
	t.Run("the owner wants none", func(t *testing.T) {
		c.edit(shop, func(r *gatewayv1.HTTPRoute) { r.Annotations = map[string]string{crdv1.AnnotationIgnore: "true"} })
		c.Eventually("nothing is derived", func() error {
			if n := len(c.derivedOf("k1")); n > 0 {
				return fmt.Errorf("there are %d", n)
			}
			return nil
		})
		c.says("k1", "that it is left alone", func(r gatewayadapter.Report) bool {
			return len(r.Matches) == 1 && r.Matches[0].Status == gatewayapi.ReasonIgnored
		})
		c.edit(shop, func(r *gatewayv1.HTTPRoute) { r.Annotations = nil })
		c.derives("k1", "it is back", leadsTo(fork))
	})
	t.Run("the owner deletes his", func(t *testing.T) {
		c.Must(c.routes.Delete(t.Context(), shop))
		c.says("k1", "that no route refers to the Service", func(r gatewayadapter.Report) bool {
			return r.Lost != nil && r.Lost.Reason == gatewayapi.ReasonNoRoute && len(c.derivedOf("k1")) == 0
		})
	})
}

// TestARouteThatIsDeletedAsItIsRepairedIsMadeAgain takes a route's key out of it, and deletes it
// before the adapter can see that it has repaired it.
func TestARouteThatIsDeletedAsItIsRepairedIsMadeAgain(t *testing.T) {
	w := world.Shared(t)
	w.DefineGatewayAPI()
	c := start(t, w, gatewayadapter.Settings{})
	c.httpRoute("shop", "customer")
	fork := c.sandbox("k1")
	r := c.derives("k1", "it leads to the fork", leadsTo(fork))
	c.edit(r, func(r *gatewayv1.HTTPRoute) { r.Spec.Hostnames = []gatewayv1.Hostname{"other.test"} })
	c.derives("k1", "the adapter has seen it", func(r *gatewayv1.HTTPRoute) bool {
		return len(r.Spec.Hostnames) == 1 && r.Spec.Hostnames[0] != "other.test"
	})
	var once sync.Once
	first := r.UID
	deleted := r.DeepCopy()
	c.after = func(*http.Request) {
		once.Do(func() {
			if err := c.routes.Delete(t.Context(), deleted); err != nil {
				t.Error(err)
			}
		})
	}
	c.edit(r, func(r *gatewayv1.HTTPRoute) { delete(r.Annotations, crdv1.AnnotationRoutingKey) })
	c.derives("k1", "it is made again", func(now *gatewayv1.HTTPRoute) bool { return now.UID != first && leadsTo(fork)(now) })
}

func TestDefinitionsMayComeLate(t *testing.T) {
	c := start(t, world.New(t), gatewayadapter.Settings{})
	fork := c.sandbox("k1")
	c.says("k1", "that the API is not installed", func(r gatewayadapter.Report) bool {
		return r.Trouble != nil && r.Trouble.Reason == gatewayadapter.ReasonNotInstalled
	})
	if !c.main.Settled("k1") {
		t.Error("an end waits for routes that cannot be")
	}
	c.DefineGatewayAPI()
	c.says("k1", "that no route refers to the Service", func(r gatewayadapter.Report) bool {
		return r.Lost != nil && r.Lost.Reason == gatewayapi.ReasonNoRoute
	})
	c.httpRoute("shop", "customer")
	c.derives("k1", "it leads to the fork", leadsTo(fork))
	c.says("k1", "that it is derived", isDerived)
}

func TestAMissingRightIsReported(t *testing.T) {
	w := world.Shared(t)
	w.DefineGatewayAPI()
	const user = "reads-routes"
	read := []string{"get", "list", "watch"}
	w.Grant(user, "", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: read},
		rbacv1.PolicyRule{APIGroups: []string{"signadot.com"}, Resources: []string{"gatewayapiroutes"}, Verbs: read},
		rbacv1.PolicyRule{APIGroups: []string{"apiextensions.k8s.io"}, Resources: []string{"customresourcedefinitions"}, Verbs: read},
		rbacv1.PolicyRule{APIGroups: []string{"argoproj.io"}, Resources: []string{"rollouts"}, Verbs: read},
		rbacv1.PolicyRule{APIGroups: []string{gatewayv1.GroupName}, Resources: []string{"httproutes", "grpcroutes"}, Verbs: read})
	c := startAs(t, w, gatewayadapter.Settings{}, user)
	c.httpRoute("shop", "customer")
	fork := c.sandbox("k9")
	c.says("k9", "that grants cannot be read", func(r gatewayadapter.Report) bool {
		return r.Trouble != nil && r.Trouble.Reason == gatewayadapter.ReasonUnreadable && strings.Contains(r.Trouble.Message, "ReferenceGrants cannot be read")
	})
	w.Grant(user, "", rbacv1.PolicyRule{APIGroups: []string{gatewayv1.GroupName}, Resources: []string{"referencegrants"}, Verbs: read})
	c.says("k9", "that it cannot be written", func(r gatewayadapter.Report) bool {
		return len(r.Matches) == 1 && r.Matches[0].Status == meshes.StatusFailed && strings.Contains(r.Matches[0].Message, "forbidden")
	})
	w.Grant(user, c.ns, rbacv1.PolicyRule{APIGroups: []string{gatewayv1.GroupName}, Resources: []string{"httproutes", "grpcroutes"}, Verbs: []string{"create", "patch", "delete"}})
	c.derives("k9", "it leads to the fork", leadsTo(fork))
	c.says("k9", "that it is derived", isDerived)
	c.withdraw("k9")
	c.none("k9")
}

func TestAnInvalidBackendIsReported(t *testing.T) {
	w := world.Shared(t)
	w.DefineGatewayAPI()
	c := start(t, w, gatewayadapter.Settings{})
	r := &gatewayv1.HTTPRoute{}
	c.makeRoute(r, `{metadata: {name: shop, namespace: `+c.ns+`}, spec: {parentRefs: [{name: edge}], rules: [{backendRefs: [{name: customer, port: 9999}]}]}}`)
	c.sandbox("k1")
	c.says("k1", "that the Service has no such port", func(r gatewayadapter.Report) bool {
		return r.Lost != nil && r.Lost.Reason == gatewayapi.ReasonBackendNotFound && strings.Contains(r.Lost.Message, "port 9999 of Service "+c.ns+"/customer")
	})
	if n := len(c.derivedOf("k1")); n > 0 {
		t.Errorf("%d routes are derived all the same", n)
	}
}

// TestTheRouteOfAnotherIsNeverTaken has an owner create a route with the name of a derived one, earlier
// and at the same moment.
func TestTheRouteOfAnotherIsNeverTaken(t *testing.T) {
	w := world.Shared(t)
	w.DefineGatewayAPI()
	c := start(t, w, gatewayadapter.Settings{})
	c.httpRoute("shop", "customer")
	c.service("other")
	c.sandbox("k1")
	name := c.derives("k1", "to know its name", nil).Name
	c.withdraw("k1")
	c.none("k1")
	taken := func() {
		t.Helper()
		c.says("k1", "that the name is taken", func(r gatewayadapter.Report) bool {
			return r.Lost != nil && r.Lost.Reason == gatewayapi.ReasonNameTaken
		})
	}
	untouched := func(o *gatewayv1.HTTPRoute) {
		t.Helper()
		now := &gatewayv1.HTTPRoute{}
		c.Must(c.routes.Get(t.Context(), client.ObjectKeyFromObject(o), now))
		if now.ResourceVersion != o.ResourceVersion || now.UID != o.UID {
			t.Errorf("the owner's route has become %+v", now)
		}
	}
	o := c.httpRoute(name, "other")
	c.fork("k1")
	taken()
	untouched(o)
	c.Must(c.routes.Delete(t.Context(), o))
	c.derives("k1", "the name is free", nil)

	c.stop()
	for _, r := range c.derivedOf("k1") {
		c.Must(c.routes.Delete(t.Context(), &r))
	}
	made := false
	c.before = func(q *http.Request) {
		if !made && strings.HasSuffix(q.URL.Path, "/"+name) {
			made = true
			o = c.httpRoute(name, "other")
		}
	}
	c.run("admin", "system:masters")
	taken()
	if !made {
		t.Error("nobody was quicker")
	}
	untouched(o)
}

func TestTheStatusOfImplementationsCounts(t *testing.T) {
	w := world.Shared(t)
	w.DefineGatewayAPI()
	c := start(t, w, gatewayadapter.Settings{})
	shop := c.httpRoute("shop", "customer")
	stated := true // whether the implementation sets observedGeneration
	say := func(r *gatewayv1.HTTPRoute, accepted metav1.ConditionStatus) {
		t.Helper()
		generation := r.Generation
		if !stated {
			generation = 0
		}
		r.Status.Parents = []gatewayv1.RouteParentStatus{{ParentRef: r.Spec.ParentRefs[0], ControllerName: "test/implementation", Conditions: []metav1.Condition{{
			Type: string(gatewayv1.RouteConditionAccepted), Status: accepted, Reason: "Tested", Message: "as the test wants",
			ObservedGeneration: generation, LastTransitionTime: metav1.Now(),
		}}}}
		c.Must(c.routes.Status().Update(t.Context(), r))
	}
	say(shop, metav1.ConditionTrue)
	c.sandbox("k1")
	c.says("k1", "that the implementation has not said anything of it", func(r gatewayadapter.Report) bool {
		return len(r.Matches) == 1 && r.Matches[0].Derived != nil && r.Matches[0].Status == meshes.StatusPending && len(c.derivedOf("k1")) == 1
	})
	say(c.derives("k1", "it is there", nil), metav1.ConditionFalse)
	c.says("k1", "that it is not accepted", func(r gatewayadapter.Report) bool {
		return r.Lost != nil && r.Lost.Reason == gatewayadapter.ReasonNotAccepted && strings.Contains(r.Lost.Message, "as the test wants")
	})
	say(c.derives("k1", "it is there", nil), metav1.ConditionTrue)
	c.says("k1", "that it is derived", isDerived)
	stated = false
	say(c.derives("k1", "it is there", nil), metav1.ConditionFalse)
	c.says("k1", "that it is not accepted", func(r gatewayadapter.Report) bool { return r.Lost != nil })
	say(c.derives("k1", "it is there", nil), metav1.ConditionTrue)
	c.says("k1", "that it is derived", isDerived)
}

// TestARestartCatchesUp ends an adapter, lets sandboxes come and go, and starts another one.
func TestARestartCatchesUp(t *testing.T) {
	w := world.Shared(t)
	w.DefineGatewayAPI()
	c := start(t, w, gatewayadapter.Settings{})
	c.httpRoute("shop", "customer")
	c.sandbox("k1")
	c.derives("k1", "it is there", nil)
	c.stop()
	c.withdraw("k1")
	fork := c.sandbox("k2")
	c.run("admin", "system:masters")
	c.derives("k2", "it leads to the fork", leadsTo(fork))
	c.none("k1")
}

// TestAGrantThatIsMissingIsShown has a route in another namespace than its Service, with a grant
// for that Service alone.
func TestAGrantThatIsMissingIsShown(t *testing.T) {
	w := world.Shared(t)
	w.DefineGatewayAPI()
	c := start(t, w, gatewayadapter.Settings{})
	far := c.NewNamespace("far")
	r := &gatewayv1.HTTPRoute{}
	c.makeRoute(r, `{metadata: {name: shop, namespace: `+far+`}, spec: {parentRefs: [{name: edge}], rules: [{backendRefs: [{name: customer, namespace: `+c.ns+`, port: 8081}]}]}}`)
	grant := &gatewayv1beta1.ReferenceGrant{}
	c.makeRoute(grant, `{metadata: {name: shop, namespace: `+c.ns+`}, spec: {from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: `+far+`}], to: [{group: "", kind: Service, name: customer}]}}`)
	fork := c.sandbox("k1")
	c.says("k1", "which grant is missing", func(r gatewayadapter.Report) bool {
		return r.Lost != nil && r.Lost.Reason == gatewayapi.ReasonNotPermitted &&
			strings.Contains(r.Lost.Message, "kind: ReferenceGrant") && strings.Contains(r.Lost.Message, "name: "+fork)
	})
	grant.Spec.To[0].Name = nil
	c.Must(c.routes.Update(t.Context(), grant))
	c.says("k1", "that it is derived", isDerived)
}

// TestAVirtualServiceGoesBefore has Istio's adapter find one that routes to the Service, and none
// any more.
func TestAVirtualServiceGoesBefore(t *testing.T) {
	w := world.Shared(t)
	w.DefineGatewayAPI()
	c := start(t, w, gatewayadapter.Settings{})
	c.stop()
	c.virtualServices = true
	c.run("admin", "system:masters")
	shop := c.httpRoute("shop", "customer")
	asked := c.ask("k1", c.fork("k1"))
	c.says("k1", "that nobody knows yet", func(r gatewayadapter.Report) bool { return !r.Starting && !r.Synced })
	o := &crdv1.IstioRoute{ObjectMeta: metav1.ObjectMeta{Name: asked.Name, OwnerReferences: asked.OwnerReferences}, Spec: asked.Spec}
	c.Create(o)
	say := func(matched ...crdv1.VirtualServiceMatch) {
		t.Helper()
		o.Status.ObservedGeneration, o.Status.MatchedVirtualServices = o.Generation, matched
		c.Must(c.Client.Status().Update(t.Context(), o))
		c.main.Changed(o)
	}
	say(crdv1.VirtualServiceMatch{Namespace: c.ns, Name: "v", Status: "Applied"})
	c.says("k1", "that a VirtualService governs the Service", func(r gatewayadapter.Report) bool {
		return r.Lost != nil && r.Lost.Reason == gatewayapi.ReasonVirtualService && strings.Contains(r.Lost.Message, c.ns+"/v") && len(c.derivedOf("k1")) == 0
	})
	say()
	stays := c.derives("k1", "none does any more", nil)
	o.Spec.Managed.Baseline.Name = "of another generation" // An earlier status counts until it is replaced.
	c.Must(c.Client.Update(t.Context(), o))
	c.main.Changed(o)
	shop.Spec.Hostnames = append(shop.Spec.Hostnames, "follows.test")
	c.Must(c.routes.Update(t.Context(), shop))
	c.derives("k1", "it is still the same", func(r *gatewayv1.HTTPRoute) bool {
		return r.UID == stays.UID && slices.Contains(r.Spec.Hostnames, "follows.test")
	})
}

// TestAnUnreadableRouteIsReported has HTTPRoutes without a schema: one that is invalid, and one of a
// later version with a new field, which a copy would lack.
func TestAnUnreadableRouteIsReported(t *testing.T) {
	w := world.New(t)
	c := start(t, w, gatewayadapter.Settings{})
	c.Make(&unstructured.Unstructured{}, `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition,
  metadata: {name: httproutes.gateway.networking.k8s.io, annotations: {api-approved.kubernetes.io: "unapproved, for a test"}},
  spec: {group: gateway.networking.k8s.io, scope: Namespaced, names: {kind: HTTPRoute, listKind: HTTPRouteList, plural: httproutes, singular: httproute},
    versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}}`)
	made := func(name, rules string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{}
		c.Eventually("route "+name+" is there", func() error {
			c.Read(u, `{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {name: `+name+`, namespace: `+c.ns+`},
  spec: {parentRefs: [{name: edge}], rules: `+rules+`}, status: {later: true, parents: []}}`)
			return client.IgnoreAlreadyExists(c.Client.Create(t.Context(), u))
		})
		return u
	}
	odd := made("odd", "{first: {backendRefs: [{name: customer, port: 8081}]}}")
	c.httpRoute("shop", "customer")
	fork := c.sandbox("k1")
	c.derives("k1", "the other route is not kept from it", leadsTo(fork))
	unread := func(name, why string) {
		t.Helper()
		c.says("k1", "that "+name+" cannot be read", func(r gatewayadapter.Report) bool {
			return r.Lost != nil && r.Lost.Reason == gatewayadapter.ReasonRouteUnreadable &&
				strings.Contains(r.Lost.Message, "HTTPRoute "+c.ns+"/"+name+" cannot be read") && strings.Contains(r.Lost.Message, why)
		})
	}
	unread("odd", "cannot restore slice from map")
	c.Must(c.Client.Delete(t.Context(), odd))
	c.says("k1", "that all are derived", isDerived)
	later := made("later", "[{guard: {allow: nobody}, backendRefs: [{name: customer, port: 8081}]}]")
	unread("later", `unknown field "spec.rules[0].guard"`)
	c.derives("k1", "it is of the other route alone", leadsTo(fork))
	version := later.GetResourceVersion()
	if c.Get(later); later.GetResourceVersion() != version {
		t.Errorf("the owner's route was written: %v", later.GetManagedFields())
	}
}
