package istioadapter_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/reconcilers/meshes"
	"switchyard.dev/reconcilers/meshes/destinationrules"
	"switchyard.dev/reconcilers/meshes/istio/names"
	"switchyard.dev/reconcilers/meshes/istioadapter"
	"switchyard.dev/tests/world"
)

// forkHost is the name of the Service to which c.sandbox routes.
func (c *cluster) forkHost() string {
	c.Helper()
	routes, _, _ := unstructured.NestedSlice(c.virtualService().Object, "spec", "http")
	for _, one := range routes {
		if names.OfOurs(one) != "" {
			to, _, _ := unstructured.NestedSlice(one.(map[string]any), "route")
			host, _, _ := unstructured.NestedString(to[0].(map[string]any), "destination", "host")
			return host
		}
	}
	return ""
}

// routed waits until the VirtualService has routes for a key.
func (c *cluster) routed(key string) {
	c.Helper()
	c.Eventually("it has routes for "+key, func() error {
		if n := len(names.RoutesOf(c.virtualService(), key)); n != 2 {
			return fmt.Errorf("there are %d", n)
		}
		return nil
	})
}

// rule creates a DestinationRule of the owner's for the baseline's host.
func (c *cluster) rule(policy string) *unstructured.Unstructured {
	c.Helper()
	o := &unstructured.Unstructured{}
	c.Read(o, `{apiVersion: networking.istio.io/v1, kind: DestinationRule, metadata: {name: customer, namespace: `+c.ns+`},
  spec: {host: customer, trafficPolicy: `+policy+`}}`)
	c.Create(o)
	return o
}

// copies returns the derived DestinationRules.
func (c *cluster) copies() []unstructured.Unstructured {
	c.Helper()
	all := &unstructured.UnstructuredList{}
	all.SetGroupVersionKind(istioadapter.DestinationRules.GroupVersion().WithKind("DestinationRuleList"))
	c.List(all, client.InNamespace(c.ns), client.HasLabels{destinationrules.LabelDerived})
	return all.Items
}

// TestCopiesOfRulesComeBeforeRoutes records in which order routes and copies of DestinationRules
// are written, while a sandbox comes and ends.
func TestCopiesOfRulesComeBeforeRoutes(t *testing.T) {
	c := started(t)
	c.owner("create")
	c.sandbox("k1")
	c.routed("k1")
	host := c.forkHost()
	c.withdraw("k1")
	c.has("api", "rest")
	name, _, _ := strings.Cut(host, ".")
	fork := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: c.ns, Name: name}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 8081}}}}
	c.Create(fork)
	original := c.rule("{loadBalancer: {simple: RANDOM}}")

	c.stop()
	var mu sync.Mutex
	var order []string
	c.before = func(q *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		for _, kind := range []string{"destinationrules", "virtualservices"} {
			if what := q.Method + " " + kind; strings.Contains(q.URL.Path, kind) && !slices.Contains(order, what) {
				order = append(order, what)
			}
		}
	}
	c.run(own, "system:masters")
	c.sandbox("k1")
	c.routed("k1")
	c.Eventually("there is a copy", func() error {
		all := c.copies()
		if len(all) != 1 || destinationrules.HostOf(&all[0]) != host {
			return fmt.Errorf("there are %v", all)
		}
		if refs := all[0].GetOwnerReferences(); len(refs) != 1 || refs[0].UID != fork.UID {
			return fmt.Errorf("its owners are %v", refs)
		}
		return nil
	})
	c.Must(c.Client.Delete(t.Context(), &c.copies()[0]))
	c.Eventually("a copy that is deleted is written again", func() error {
		if n := len(c.copies()); n != 1 {
			return fmt.Errorf("there are %d", n)
		}
		return nil
	})
	none := func(what string) {
		t.Helper()
		c.Eventually(what, func() error {
			if n := len(c.copies()); n > 0 {
				return fmt.Errorf("there are %d", n)
			}
			return nil
		})
	}
	c.Must(c.Client.Delete(t.Context(), original))
	none("the copy is deleted with its original, while the sandbox is there")
	c.routed("k1")
	original = c.rule("{loadBalancer: {simple: RANDOM}}")
	c.Eventually("it is copied again", func() error {
		if n := len(c.copies()); n != 1 {
			return fmt.Errorf("there are %d", n)
		}
		return nil
	})
	c.withdraw("k1")
	c.has("api", "rest")
	none("the copy is deleted with the sandbox")
	mu.Lock()
	if want := []string{"PATCH destinationrules", "PATCH virtualservices", "DELETE destinationrules"}; !slices.Equal(order, want) {
		t.Errorf("the order is %q", order)
	}
	mu.Unlock()
	c.Must(c.Client.Delete(t.Context(), original))
}

// TestCopiesThatAnotherProgramChanges has one change a copy each time that the adapter has written it.
func TestCopiesThatAnotherProgramChanges(t *testing.T) {
	c := started(t)
	c.owner("create")
	c.stop()
	var mu sync.Mutex
	var writes []time.Time
	c.before = func(q *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if q.Method == http.MethodPatch && strings.Contains(q.URL.Path, "destinationrules") {
			writes = append(writes, time.Now())
		}
	}
	c.run(own, "system:masters")
	c.sandbox("k1")
	c.routed("k1")
	name, _, _ := strings.Cut(c.forkHost(), ".")
	c.Create(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: c.ns, Name: name}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 8081}}}})
	original := c.rule("{loadBalancer: {simple: RANDOM}}")
	copied := func(balancer string) unstructured.Unstructured {
		t.Helper()
		var one unstructured.Unstructured
		c.Eventually("the copy is written", func() error {
			all := c.copies()
			if len(all) != 1 {
				return fmt.Errorf("there are %d", len(all))
			}
			one = all[0]
			if has, _, _ := unstructured.NestedString(one.Object, "spec", "trafficPolicy", "loadBalancer", "simple"); has != balancer {
				return fmt.Errorf("it has %s", has)
			}
			return nil
		})
		return one
	}
	const changes = 5
	for range changes {
		one := copied("RANDOM")
		c.Must(unstructured.SetNestedField(one.Object, "ROUND_ROBIN", "spec", "trafficPolicy", "loadBalancer", "simple"))
		c.Must(c.Client.Update(t.Context(), &one, client.FieldOwner("another")))
	}
	copied("RANDOM")
	mu.Lock()
	last := writes[len(writes)-1].Sub(writes[len(writes)-2])
	mu.Unlock()
	// Each pause is twice as long as the one before it. The first change has none if it comes before the adapter sees its copy.
	if least := meshes.FirstPause << (changes - 2); last < least {
		t.Errorf("after %d changes the pause is %s", changes, last)
	}
	c.Must(unstructured.SetNestedField(original.Object, "LEAST_REQUEST", "spec", "trafficPolicy", "loadBalancer", "simple"))
	c.Must(c.Client.Update(t.Context(), original))
	copied("LEAST_REQUEST")
}

// TestRightsOnDestinationRulesAreMissing has an adapter that cannot read DestinationRules, then one
// that cannot write them.
func TestRightsOnDestinationRulesAreMissing(t *testing.T) {
	w := world.Shared(t)
	define(w)
	const user = "no-rules"
	w.Grant(user, "", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: []string{"get", "list", "watch"}},
		rbacv1.PolicyRule{APIGroups: []string{"signadot.com"}, Resources: []string{"istioroutes", "routingconfigs", "signadotroutegroups", "signadotsandboxes"}, Verbs: []string{"list", "watch"}},
		rbacv1.PolicyRule{APIGroups: []string{"apiextensions.k8s.io"}, Resources: []string{"customresourcedefinitions"}, Verbs: []string{"get", "list", "watch"}},
		rbacv1.PolicyRule{APIGroups: []string{"argoproj.io"}, Resources: []string{"rollouts"}, Verbs: []string{"get", "list", "watch"}},
		rbacv1.PolicyRule{APIGroups: []string{"networking.istio.io"}, Resources: []string{"virtualservices"}, Verbs: []string{"get", "list", "watch", "patch"}})
	c := startAs(t, w, istioadapter.Settings{}, user)
	c.owner("create")
	c.sandbox("k8")
	c.routed("k8")
	name, _, _ := strings.Cut(c.forkHost(), ".")
	c.Create(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: c.ns, Name: name}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 8081}}}})
	c.rule("{tls: {mode: DISABLE}}")
	target := istioadapter.Target{Key: "k8", Namespace: c.ns, Service: "customer"}
	c.Eventually("a note reports that they cannot be read", func() error {
		if r := c.main.Report(target); r.Lost != nil || !strings.Contains(strings.Join(r.Notes, "\n"), "DestinationRules cannot be read") {
			return fmt.Errorf("it is %+v", r)
		}
		return nil
	})
	w.Grant(user, "", rbacv1.PolicyRule{APIGroups: []string{"networking.istio.io"}, Resources: []string{"destinationrules"}, Verbs: []string{"get", "list", "watch"}})
	c.Eventually("the report names the rule that cannot be copied", func() error {
		if r := c.main.Report(target); r.Lost == nil || r.Lost.Reason != destinationrules.ReasonNotDerived || !strings.Contains(r.Lost.Message, "DestinationRule "+c.ns+"/customer for the host of Service") {
			return fmt.Errorf("it is %+v", r)
		}
		return nil
	})
	w.Grant(user, c.ns, rbacv1.PolicyRule{APIGroups: []string{"networking.istio.io"}, Resources: []string{"destinationrules"}, Verbs: []string{"create", "patch", "delete"}})
	c.Eventually("nothing is reported once it is copied", func() error {
		if r := c.main.Report(target); r.Lost != nil || len(r.Notes) > 0 || len(c.copies()) != 1 {
			return fmt.Errorf("it is %+v", r)
		}
		return nil
	})
}
