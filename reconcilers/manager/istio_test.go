package manager_test

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/reconcilers/meshes/adapter"
	"switchyard.dev/reconcilers/meshes/istio"
	"switchyard.dev/reconcilers/routing"
)

// TestASandboxIsRoutedByIstio goes the whole way, without a sidecar: the cluster has no Istio,
// then gets it, then a VirtualService, and then the sandbox goes.
func TestASandboxIsRoutedByIstio(t *testing.T) {
	const ns = "by-istio"
	c := ownCluster(t, ns)
	c.manage(manager.Config{Istio: adapter.Settings{Enabled: true, Labels: map[string]string{"in-use": "yes"}}})
	c.baseline(ns, "customer", "")
	s := c.sandbox("by-istio", forkOf("k7", ns, "customer"))
	_, fork := c.fork(ns)
	c.Available(fork)
	c.unroutable(s, "Install Istio")

	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "istio.io/api").Output()
	c.Must(err)
	_, err = envtest.InstallCRDs(c.Config, envtest.CRDInstallOptions{
		Paths: []string{filepath.Join(strings.TrimSpace(string(dir)), "kubernetes", "customresourcedefinitions.gen.yaml")}, MaxTime: patience,
	})
	c.Must(err)
	c.unroutable(s, "No VirtualService", "kind: VirtualService, metadata: {name: customer, namespace: "+ns+"}")

	v := &unstructured.Unstructured{}
	c.Make(v, `{apiVersion: networking.istio.io/v1, kind: VirtualService, metadata: {name: customer, namespace: `+ns+`},
  spec: {hosts: [customer], http: [{route: [{destination: {host: customer}}]}]}}`)
	c.Condition(s, crdv1.ConditionReady, "True", "Ready")
	c.Get(v)
	if n := len(routesOf(v)); n != 2 || v.GetLabels()["in-use"] != "yes" {
		t.Errorf("the VirtualService has %d routes, and labels %v", n, v.GetLabels())
	}
	var all crdv1.IstioRouteList
	c.List(&all)
	if len(all.Items) != 1 {
		t.Fatalf("there are %d IstioRoutes", len(all.Items))
	}
	route := &all.Items[0]
	c.Condition(route, crdv1.ConditionReady, "True", "Ready")
	if m := route.Status.MatchedVirtualServices; len(m) != 1 || m[0].Name != "customer" || m[0].Status != istio.StatusApplied {
		t.Errorf("it matches %+v", m)
	}
	config := &crdv1.RoutingConfig{}
	config.Name = "k7"
	c.Condition(config, routing.ConditionIstioRoutesReady, "True", routing.ConditionIstioRoutesReady)
	if w := config.Status.ProcessedWorkloads; len(w) != 1 || len(w[0].Routes.Istio) != 1 || w[0].Routes.Istio[0].Name != route.Name {
		t.Errorf("the RoutingConfig tells of %+v", w)
	}
	c.Get(s)
	if f := s.Status.ForkedWorkloads; len(f) != 1 || len(f[0].Routing.Istio) != 1 || len(f[0].Routing.Istio[0].MatchedVirtualServices) != 1 {
		t.Errorf("the sandbox tells of %+v", f)
	}

	c.Remove(v)
	c.unroutable(s, "No VirtualService")
	v = &unstructured.Unstructured{}
	c.Make(v, `{apiVersion: networking.istio.io/v1, kind: VirtualService, metadata: {name: customer, namespace: `+ns+`},
  spec: {hosts: [customer], http: [{route: [{destination: {host: customer}}]}]}}`)
	c.Condition(s, crdv1.ConditionReady, "True", "Ready")

	c.Remove(s)
	c.Eventually("the routes go before the fork's Service", func() error {
		err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(v), v)
		if err == nil && len(routesOf(v)) == 2 {
			if len(c.forks(ns)) == 0 {
				t.Fatal("the fork is gone, and the VirtualService still leads to it")
			}
			return errors.New("they are there")
		}
		return err
	})
	c.Gone(s)
	c.List(&all)
	if len(all.Items) > 0 || v.GetLabels() != nil || v.GetAnnotations() != nil {
		t.Errorf("left are %d IstioRoutes, labels %v and annotations %v", len(all.Items), v.GetLabels(), v.GetAnnotations())
	}
}

func TestVirtualServicesAreLeftAloneWhileIstioIsOff(t *testing.T) {
	c := start(t, "istio-off")
	c.baseline(c.ns, "customer", withSidecar)
	c.sandbox("istio-off", forkOf("k8", c.ns, "customer"))
	c.fork(c.ns)
	c.quiet()
	var all crdv1.IstioRouteList
	c.List(&all)
	for _, r := range all.Items {
		if r.Spec.RoutingKey == "k8" {
			t.Errorf("there is IstioRoute %s", r.Name)
		}
	}
	config := &crdv1.RoutingConfig{}
	config.Name = "k8"
	c.Get(config)
	if f := crdv1.FindCondition(config.Status.Conditions, routing.ConditionIstioRoutesReady); f != nil {
		t.Errorf("the RoutingConfig says %+v", f)
	}
}

// unroutable waits until a sandbox says that its requests do not reach it, with these words.
func (c *cluster) unroutable(s *crdv1.SignadotSandbox, parts ...string) {
	c.Helper()
	c.Eventually("the sandbox says what its routing lacks", func() error {
		message := c.Condition(s, crdv1.ConditionReady, "False", routing.ReasonNotReady)
		for _, part := range parts {
			if !strings.Contains(message, part) {
				return errors.New(message)
			}
		}
		return nil
	})
}

// routesOf are the HTTP routes of a VirtualService.
func routesOf(u *unstructured.Unstructured) []any {
	list, _, _ := unstructured.NestedSlice(u.Object, "spec", "http")
	return list
}
