package gatewayadapter_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/meshes/gatewayadapter"
	"switchyard.dev/reconcilers/meshes/gatewayapi"
	"switchyard.dev/reconcilers/policies"
	"switchyard.dev/tests/world"
)

// tlsPolicy creates a BackendTLSPolicy for Service customer.
func (c *cluster) tlsPolicy(name string) *gatewayv1.BackendTLSPolicy {
	c.Helper()
	p := &gatewayv1.BackendTLSPolicy{}
	c.makeRoute(p, `{metadata: {name: `+name+`, namespace: `+c.ns+`}, spec: {targetRefs: [{group: "", kind: Service, name: customer}],
  validation: {hostname: customer.test, caCertificateRefs: [{group: "", kind: ConfigMap, name: ca}]}}}`)
	return p
}

// copies returns the BackendTLSPolicies that are derived for a key.
func (c *cluster) copies(key string) []gatewayv1.BackendTLSPolicy {
	c.Helper()
	var all gatewayv1.BackendTLSPolicyList
	c.Must(c.routes.List(c.Context(), &all, client.InNamespace(c.ns), client.MatchingLabels{gatewayapi.LabelRoutingKey: key}))
	return all.Items
}

// copied waits for the one copy of a BackendTLSPolicy of which something holds.
func (c *cluster) copied(key, what string, holds func(p *gatewayv1.BackendTLSPolicy) bool) *gatewayv1.BackendTLSPolicy {
	c.Helper()
	var out gatewayv1.BackendTLSPolicy
	c.Eventually("a BackendTLSPolicy is copied: "+what, func() error {
		all := c.copies(key)
		if len(all) != 1 || !holds(&all[0]) {
			return fmt.Errorf("there are %+v; the report is %+v", all, c.report(key))
		}
		out = all[0]
		return nil
	})
	return &out
}

// TestABackendTLSPolicyAppliesToTheServiceOfTheFork follows a policy of the baseline's Service from its
// creation to its end. Without a copy, requests with the key would be sent to the fork in plain text.
func TestABackendTLSPolicyAppliesToTheServiceOfTheFork(t *testing.T) {
	w := world.Shared(t)
	w.DefineGatewayAPI()
	c := start(t, w, gatewayadapter.Settings{})
	var mu sync.Mutex
	var order []string
	c.before = func(q *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		for _, resource := range []string{"/backendtlspolicies/", "/httproutes/"} {
			if strings.Contains(q.URL.Path, c.ns+resource) {
				order = append(order, q.Method+" "+resource)
			}
		}
	}
	written := func() string {
		mu.Lock()
		defer mu.Unlock()
		defer func() { order = nil }()
		return strings.Join(order, ", ")
	}
	c.httpRoute("shop", "customer")
	original := c.tlsPolicy("tls")
	fork := c.sandbox("k1")
	targets := func(p *gatewayv1.BackendTLSPolicy) bool {
		return len(p.Spec.TargetRefs) == 1 && string(p.Spec.TargetRefs[0].Name) == fork && p.Spec.Validation.Hostname == "customer.test"
	}
	p := c.copied("k1", "it targets the fork", targets)
	c.says("k1", "that the route is derived", isDerived)
	if o := p.OwnerReferences; len(o) != 1 || o[0].Kind != crdv1.KindGatewayAPIRoute {
		t.Errorf("its owners are %+v", o)
	}
	if got := written(); got != "PATCH /backendtlspolicies/, PATCH /httproutes/" {
		t.Errorf("written were %s", got)
	}

	c.Eventually("the owner changes the policy", func() error {
		c.Must(c.routes.Get(t.Context(), client.ObjectKeyFromObject(original), original))
		original.Spec.Validation.Hostname = "new.test"
		return c.routes.Update(t.Context(), original)
	})
	p = c.copied("k1", "it follows", func(p *gatewayv1.BackendTLSPolicy) bool { return p.Spec.Validation.Hostname == "new.test" })
	p.Spec.TargetRefs[0].Name = "customer"
	c.Must(c.routes.Update(t.Context(), p))
	c.copied("k1", "it is repaired", func(p *gatewayv1.BackendTLSPolicy) bool { return string(p.Spec.TargetRefs[0].Name) == fork })
	if c.main.Settled("k1") {
		t.Error("it is settled")
	}

	written()
	c.withdraw("k1")
	c.none("k1")
	if left := c.copies("k1"); len(left) > 0 {
		t.Errorf("left are %+v", left)
	}
	if got := written(); got != "DELETE /httproutes/, DELETE /backendtlspolicies/" {
		t.Errorf("at the end written were %s", got)
	}
}

// TestABackendTLSPolicyThatIsDeletedTakesItsCopy deletes the owner's policy while the sandbox stays.
func TestABackendTLSPolicyThatIsDeletedTakesItsCopy(t *testing.T) {
	w := world.Shared(t)
	w.DefineGatewayAPI()
	c := start(t, w, gatewayadapter.Settings{})
	c.httpRoute("shop", "customer")
	c.sandbox("k1")
	c.says("k1", "that the route is derived", isDerived)
	original := c.tlsPolicy("tls")
	c.copied("k1", "it is there", func(*gatewayv1.BackendTLSPolicy) bool { return true })
	c.Must(c.routes.Delete(t.Context(), original))
	c.Eventually("the copy is deleted", func() error {
		if left := c.copies("k1"); len(left) > 0 {
			return fmt.Errorf("left are %+v", left)
		}
		return nil
	})
	if len(c.derivedOf("k1")) != 1 {
		t.Error("the derived route was deleted with it")
	}
}

// TestBackendTLSPoliciesWithoutRights takes from the operator the right to read BackendTLSPolicies, and
// then the right to write them: routes are derived, and the report names the missing right.
func TestBackendTLSPoliciesWithoutRights(t *testing.T) {
	w := world.Shared(t)
	w.DefineGatewayAPI()
	const user = "without-tls"
	read := []string{"get", "list", "watch"}
	w.Grant(user, "", rbacv1.PolicyRule{APIGroups: []string{"", crdv1.Group, "apiextensions.k8s.io"}, Resources: []string{"*"}, Verbs: read},
		rbacv1.PolicyRule{APIGroups: []string{gatewayv1.GroupName}, Resources: []string{"httproutes", "grpcroutes", "referencegrants"}, Verbs: append([]string{"create", "patch", "delete"}, read...)},
		rbacv1.PolicyRule{APIGroups: []string{"argoproj.io"}, Resources: []string{"rollouts"}, Verbs: read})
	c := startAs(t, w, gatewayadapter.Settings{PolicyKinds: []policies.Kind{}}, user)
	c.httpRoute("shop", "customer")
	c.tlsPolicy("tls")
	c.sandbox("k7")
	c.says("k7", "that policies cannot be read", func(r gatewayadapter.Report) bool {
		return isDerived(r) && len(r.Notes) > 0 && strings.HasPrefix(r.Notes[0], "BackendTLSPolicies cannot be read, so they do not apply to requests with the key: ")
	})
	w.Grant(user, "", rbacv1.PolicyRule{APIGroups: []string{gatewayv1.GroupName}, Resources: []string{"backendtlspolicies"}, Verbs: read})
	c.says("k7", "that the copy cannot be written", func(r gatewayadapter.Report) bool {
		return r.Lost != nil && r.Lost.Reason == gatewayadapter.ReasonTLSNotDerived &&
			strings.HasPrefix(r.Lost.Message, "BackendTLSPolicy "+c.ns+"/tls does not apply to requests with the key, since its copy is not in place: BackendTLSPolicy "+c.ns+"/") && strings.Contains(r.Lost.Message, "forbidden")
	})
	w.Grant(user, c.ns, rbacv1.PolicyRule{APIGroups: []string{gatewayv1.GroupName}, Resources: []string{"backendtlspolicies"}, Verbs: []string{"create", "patch", "delete"}})
	c.copied("k7", "it is there", func(*gatewayv1.BackendTLSPolicy) bool { return true })
	c.says("k7", "that all is derived", isDerived)
}
