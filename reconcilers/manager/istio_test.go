package manager_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/drain"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/reconcilers/meshes/istio"
	"switchyard.dev/reconcilers/meshes/istioadapter"
	"switchyard.dev/reconcilers/routing"
	"switchyard.dev/tests/world"
)

// TestASandboxIsRoutedByIstio goes the whole way, without a sidecar: the cluster has no Istio,
// then gets it, then a VirtualService, and then the sandbox goes.
func TestASandboxIsRoutedByIstio(t *testing.T) {
	t.Parallel()
	const ns = "by-istio"
	c := ownCluster(t, ns)
	writes := &door{came: make(chan struct{}), open: make(chan struct{})}
	access := c.As("")
	access.Wrap(writes.wrap)
	c.manage(manager.Config{REST: access, Istio: istioadapter.Settings{Enabled: true, Labels: map[string]string{"in-use": "yes"}}})
	c.baseline(ns, "customer", "")
	s := c.sandbox("by-istio", forkOf("k7", ns, "customer"))
	_, fork := c.fork(ns)
	c.Available(fork)
	c.unroutable(s, "Install Istio")

	c.DefineIstio()
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

	ended := c.deleted(&crdv1.ForkedWorkloadList{}, client.InNamespace(ns))
	writes.shut.Store(true)
	c.Remove(s)
	<-writes.came
	c.quiet()
	select {
	case <-ended:
		t.Error("the fork is gone, and the VirtualService still leads to it")
	default:
	}
	close(writes.open)
	<-ended
	if c.Get(v); len(routesOf(v)) != 1 {
		t.Errorf("the fork is gone, and the VirtualService has %d routes", len(routesOf(v)))
	}
	c.Gone(s)
	c.untouched(v)
	c.List(&all)
	if len(all.Items) > 0 {
		t.Errorf("left are %d IstioRoutes", len(all.Items))
	}

	s = c.sandbox("by-istio", forkOf("k7", ns, "customer"))
	_, fork = c.fork(ns)
	c.Available(fork)
	c.Condition(s, crdv1.ConditionReady, "True", "Ready")
	var told bytes.Buffer
	c.Must(drain.Run(t.Context(), drain.Config{Client: c.program(), Wait: patience, Logger: slog.New(slog.NewTextHandler(&told, nil))}))
	if strings.Contains(told.String(), "level=WARN") {
		t.Errorf("something was forced:\n%s", &told)
	}
	c.untouched(v)
}

func TestVirtualServicesAreLeftAloneWhileIstioIsOff(t *testing.T) {
	c := newCluster(t, "istio-off")
	c.DefineIstio()
	c.manage(manager.Config{})
	c.baseline(c.ns, "customer", withSidecar)
	v := &unstructured.Unstructured{}
	c.Make(v, `{apiVersion: networking.istio.io/v1, kind: VirtualService, metadata: {name: customer, namespace: `+c.ns+`},
  spec: {hosts: [customer], http: [{route: [{destination: {host: customer}}]}]}}`)
	c.sandbox("istio-off", forkOf("k8", c.ns, "customer"))
	c.fork(c.ns)
	config := &crdv1.RoutingConfig{}
	config.Name = "k8"
	c.Condition(config, "Published", "True", "Published")
	c.quiet()
	var all crdv1.IstioRouteList
	c.List(&all)
	for _, r := range all.Items {
		if r.Spec.RoutingKey == "k8" {
			t.Errorf("there is IstioRoute %s", r.Name)
		}
	}
	var gatewayAPI crdv1.GatewayAPIRouteList
	c.List(&gatewayAPI)
	for _, r := range gatewayAPI.Items {
		if r.Spec.RoutingKey == "k8" {
			t.Errorf("there is GatewayAPIRoute %s", r.Name)
		}
	}
	c.Get(config)
	if f := crdv1.FindCondition(config.Status.Conditions, routing.ConditionIstioRoutesReady); f != nil {
		t.Errorf("the RoutingConfig says %+v", f)
	}
	before := v.GetResourceVersion()
	if c.untouched(v); v.GetResourceVersion() != before {
		t.Errorf("the VirtualService was written: %v", v.GetManagedFields())
	}
}

// door keeps writes of VirtualServices waiting once it is shut, until it is open again. It tells
// when the first one came.
type door struct {
	shut       atomic.Bool
	came, open chan struct{}
	once       sync.Once
}

func (d *door) wrap(next http.RoundTripper) http.RoundTripper {
	return world.RoundTrip(func(q *http.Request) (*http.Response, error) {
		if d.shut.Load() && q.Method == http.MethodPatch && strings.Contains(q.URL.Path, "/virtualservices/") {
			d.once.Do(func() { close(d.came) })
			<-d.open
		}
		return next.RoundTrip(q)
	})
}

// untouched reads a VirtualService, and fails unless it has its one route, and nothing of ours.
func (c *cluster) untouched(v *unstructured.Unstructured) {
	c.Helper()
	c.Get(v)
	if len(routesOf(v)) != 1 || v.GetLabels() != nil || v.GetAnnotations() != nil {
		c.Errorf("it has %d routes, labels %v and annotations %v", len(routesOf(v)), v.GetLabels(), v.GetAnnotations())
	}
}

// deleted returns a channel that is closed once one of the objects of a list is gone.
func (c *cluster) deleted(of client.ObjectList, options ...client.ListOption) <-chan struct{} {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), patience)
	w, err := c.Client.Watch(ctx, of, options...)
	c.Must(err)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		defer cancel()
		for e := range w.ResultChan() {
			if e.Type == watch.Deleted {
				return
			}
		}
		c.Errorf("none of %T has gone", of)
	}()
	return gone
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
