package manager_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/reconcilers/externalworkload"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/reconcilers/member"
)

// owned is an owner of whom nobody knows, so that an external workload belongs to
// somebody.
const owned = `ownerReferences: [{apiVersion: x.example/v1, kind: Owner, name: o, uid: o, controller: true}]`

// external makes an external workload that stands for Deployment a.
func (c *cluster) external(ns, name, meta string) *crdv1.SignadotExternalWorkload {
	c.Helper()
	w := &crdv1.SignadotExternalWorkload{}
	c.Make(w, `
metadata: {name: `+name+`, namespace: `+ns+`, annotations: {signadot.com/sandbox-name: sb, signadot.com/routing-key: key}, `+meta+`}
spec:
  name: local
  routingKey: ""
  workloadID: ""
  baseline: {apiVersion: apps/v1, kind: Deployment, name: a}
  tunnel: {baselineToLocals: [{baselinePort: 8080, localAddress: "localhost:3000"}]}`)
	return w
}

// reports writes status.tunnel as the controller of tunnels does: nothing else of the
// object, and without looking at it. The workstation was last checked, and last
// connected, that long ago.
func (c *cluster) reports(w *crdv1.SignadotExternalWorkload, address string, connected bool, checked, last time.Duration) {
	c.Helper()
	c.proxy(w.Namespace, "tunnel-proxy-"+address, address)
	c.tunnelAt(w, "tunnel-proxy-"+address, address, connected, checked, last)
}

// proxy makes sure that there is a pod of this name, with this address if that is one that
// pods may have.
func (c *cluster) proxy(ns, name, address string) {
	c.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
	pod.Spec.Containers = []corev1.Container{{Name: "proxy", Image: "none"}}
	if err := c.Client.Create(c.Context(), pod); client.IgnoreAlreadyExists(err) != nil {
		c.Fatal(err)
	}
	patch := []byte(`{"status": {"podIP": "` + address + `", "podIPs": [{"ip": "` + address + `"}]}}`)
	c.Must(c.Client.Status().Patch(c.Context(), pod, client.RawPatch(types.MergePatchType, patch)))
}

// tunnelAt writes status.tunnel with any pod and address.
func (c *cluster) tunnelAt(w *crdv1.SignadotExternalWorkload, pod, address string, connected bool, checked, last time.Duration) {
	c.Helper()
	when := func(ago time.Duration) *metav1.Time { return &metav1.Time{Time: time.Now().Add(-ago)} }
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"tunnel": crdv1.TunnelStatus{
		Health: &crdv1.TunnelHealth{Connected: connected, LastCheckTime: when(checked), LastConnectedTime: when(last)},
		Info: &crdv1.TunnelInfo{
			ControlPort: 7000, TunnelProxyPodIP: address, TunnelProxyPodName: pod,
			WorkloadPorts: []crdv1.TunnelWorkloadPort{{Baseline: 8080, Proxy: 31000}},
		},
	}}})
	c.Must(err)
	c.Must(c.Client.Status().Patch(c.Context(), w, client.RawPatch(types.MergePatchType, patch)))
}

// leads waits until connections to the Service beside a go to this address, and are
// accepted, and the log says so.
func (c *cluster) leads(ns, name, address string, accepted bool) {
	c.Helper()
	c.Eventually(fmt.Sprintf("requests for %s lead to %s: %t", name, address, accepted), func() error {
		var services corev1.ServiceList
		var slices discoveryv1.EndpointSliceList
		ours := []client.ListOption{client.InNamespace(ns), client.MatchingLabels{crdv1.LabelExternalWorkload: name}}
		if err := errors.Join(c.Client.List(c.Context(), &services, ours...), c.Client.List(c.Context(), &slices, ours...)); err != nil {
			return err
		}
		if len(services.Items) != 1 || len(services.Items[0].Spec.Selector) > 0 {
			return fmt.Errorf("the Services are %+v", services.Items)
		}
		fact, ok := c.log.fact(member.Key(crdv1.KindExternalWorkload, ns, name)).(*factv1.WorkloadObserved)
		if !ok || fact.Ready != accepted || fact.Tunnel.GetConnected() != accepted || fact.Tunnel.GetProxyIp() != address ||
			len(fact.Services) != 1 || fact.Services[0].ClusterIp != services.Items[0].Spec.ClusterIP || fact.Services[0].Ports[0].WorkloadPort != 8080 {
			return fmt.Errorf("the log says %v", fact)
		}
		if address == "" {
			if len(slices.Items) > 0 {
				return fmt.Errorf("%d EndpointSlices are left", len(slices.Items))
			}
			return nil
		}
		if len(slices.Items) != 1 {
			return fmt.Errorf("there are %d EndpointSlices", len(slices.Items))
		}
		s := slices.Items[0]
		if s.Endpoints[0].Addresses[0] != address || *s.Endpoints[0].Conditions.Ready != accepted || *s.Ports[0].Port != 31000 ||
			s.Labels[discoveryv1.LabelServiceName] != services.Items[0].Name || *s.Ports[0].Name != services.Items[0].Spec.Ports[0].Name {
			return fmt.Errorf("the EndpointSlice is %+v", s)
		}
		return nil
	})
}

// nothingLeads waits until nothing of an external workload is left.
func (c *cluster) nothingLeads(ns, name string) {
	c.Helper()
	c.Eventually("nothing is left of "+name, func() error {
		ours := []client.ListOption{client.InNamespace(ns), client.MatchingLabels{crdv1.LabelExternalWorkload: name}}
		var services corev1.ServiceList
		var slices discoveryv1.EndpointSliceList
		var endpoints corev1.EndpointsList //nolint:staticcheck // What is written for those who read nothing else.
		for _, list := range []client.ObjectList{&services, &slices, &endpoints} {
			if err := c.Client.List(c.Context(), list, ours...); err != nil {
				return err
			}
		}
		if n := len(services.Items) + len(slices.Items) + len(endpoints.Items); n > 0 {
			return fmt.Errorf("%d objects", n)
		}
		if _, gone := c.log.fact(member.Key(crdv1.KindExternalWorkload, ns, name)).(*factv1.WorkloadWithdrawn); !gone {
			return errors.New("it is on the log")
		}
		return nil
	})
}

func TestAnExternalWorkloadFollowsItsTunnel(t *testing.T) {
	const ns, name = "xw-tunnel", "sb-a"
	c := shared(t, ns)
	c.baseline(ns, "a", withSidecar)
	w := c.external(ns, name, owned)
	c.Says(c.Condition(w, crdv1.ConditionReady, "False", externalworkload.ReasonNoTunnel), "run `switchyard connect`")
	c.leads(ns, name, "", false)
	if len(w.Finalizers) > 0 {
		t.Errorf("it has finalizers: %v", w.Finalizers)
	}

	c.reports(w, "10.1.2.3", true, 0, 0)
	c.Condition(w, crdv1.ConditionReady, "True", "Ready")
	c.leads(ns, name, "10.1.2.3", true)
	if s := w.Status.RoutingConfig.Services; len(s) != 1 || s[0].From != "a" || s[0].To == "" || !w.Status.RoutingConfig.DevMeshSidecarPresent {
		t.Errorf("the status says %+v", w.Status.RoutingConfig)
	}

	// Checks that find what the one before has found are no reason to write anything.
	c.quiet()
	before := len(c.wrote())
	c.reports(w, "10.1.2.3", true, 0, 0)
	c.quiet()
	if wrote := c.wrote()[before:]; len(wrote) > 0 {
		t.Errorf("the controllers wrote %v", wrote)
	}

	// The workstation comes back to another pod.
	c.reports(w, "10.1.2.4", true, 0, 0)
	c.leads(ns, name, "10.1.2.4", true)
	c.reports(w, "10.1.2.4", false, 0, time.Minute)
	c.Condition(w, crdv1.ConditionReady, "False", externalworkload.ReasonTunnelDisconnected)
	c.leads(ns, name, "10.1.2.4", false)
	c.reports(w, "10.1.2.4", true, 2*time.Minute, 2*time.Minute)
	c.Condition(w, crdv1.ConditionTunnelConnected, "False", externalworkload.ReasonTunnelStale)
	c.leads(ns, name, "10.1.2.4", false)
	for _, refused := range []string{"127.0.0.1", c.apiServer()} {
		c.reports(w, refused, true, 0, 0)
		c.Condition(w, crdv1.ConditionReady, "False", externalworkload.ReasonTunnelAddressRefused)
		c.leads(ns, name, "", false)
	}

	// It was connected, and now that is long ago: the tunnel is forgotten, and the external
	// workload stays, as it belongs to somebody.
	c.reports(w, "10.1.2.4", true, 0, 0)
	c.Condition(w, crdv1.ConditionReady, "True", "Ready")
	c.reports(w, "10.1.2.4", false, 0, 11*time.Minute)
	c.Condition(w, crdv1.ConditionReady, "False", externalworkload.ReasonNoTunnel)
	c.leads(ns, name, "", false)
	if tunnel := w.Status.Tunnel; tunnel == nil || tunnel.Info != nil || tunnel.Health == nil {
		t.Errorf("the tunnel is %+v", tunnel)
	}
	c.reports(w, "10.1.2.5", true, 0, 0)
	c.leads(ns, name, "10.1.2.5", true)

	c.remove(w)
	c.nothingLeads(ns, name)
	c.Gone(w)
}

// Whoever may write the status of an external workload could once lead requests to any
// address: of other namespaces, outside of the cluster, and to the API server.
func TestATunnelEndsAtAPodThatMayHoldIt(t *testing.T) {
	const ns, other, name = "tunnel-holder", "tunnel-holder-others", "sb-a"
	c := shared(t, ns)
	c.Make(&corev1.Namespace{}, `{metadata: {name: `+other+`}}`)
	c.baseline(ns, "a", withSidecar)
	w := c.external(ns, name, owned)
	c.proxy(other, "theirs", "10.7.7.7")
	c.proxy(ns, "mine", "10.7.7.8")
	for _, told := range []struct{ pod, address string }{
		{"theirs", "10.7.7.7"}, {"mine", "8.8.8.8"}, {"mine", "10.7.7.7"}, {"nobody", "10.7.7.8"}, {"mine", c.clusterIP("default", "kubernetes")},
	} {
		c.tunnelAt(w, "mine", "10.7.7.8", true, 0, 0)
		c.leads(ns, name, "10.7.7.8", true)
		c.tunnelAt(w, told.pod, told.address, true, 0, 0)
		c.Condition(w, crdv1.ConditionReady, "False", externalworkload.ReasonTunnelAddressRefused)
		c.leads(ns, name, "", false)
	}
	// It is looked at again when the pod changes, comes and goes.
	c.tunnelAt(w, "mine", "10.7.7.8", true, 0, 0)
	c.leads(ns, name, "10.7.7.8", true)
	c.proxy(ns, "mine", "10.7.7.9")
	c.leads(ns, name, "", false)
	c.proxy(ns, "mine", "10.7.7.8")
	c.leads(ns, name, "10.7.7.8", true)
	c.remove(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "mine"}})
	c.leads(ns, name, "", false)
}

// clusterIP returns the address of a Service.
func (c *cluster) clusterIP(ns, name string) string {
	c.Helper()
	s := &corev1.Service{}
	c.Must(c.Client.Get(c.Context(), client.ObjectKey{Namespace: ns, Name: name}, s))
	return s.Spec.ClusterIP
}

// Nobody writes anything here while the tunnel turns stale and is collected.
func TestATunnelThatNobodyChecksEndsByTimeAlone(t *testing.T) {
	const ns, name = "tunnel-time", "sb-a"
	c := newCluster(t, ns)
	c.manage(manager.Config{ExternalWorkloads: externalworkload.Limits{Fresh: 3 * time.Second, Grace: 10 * time.Second}})
	c.baseline(ns, "a", withSidecar)
	w := c.external(ns, name, owned)
	c.reports(w, "10.1.2.3", true, 0, 0)
	c.Condition(w, crdv1.ConditionTunnelConnected, "False", externalworkload.ReasonTunnelStale)
	c.leads(ns, name, "10.1.2.3", false)
	c.Condition(w, crdv1.ConditionTunnelConnected, "Unknown", externalworkload.ReasonNoTunnel)
	c.leads(ns, name, "", false)
}

func TestAnExternalWorkloadOfNobodyGoesWithItsTunnel(t *testing.T) {
	const ns, name = "tunnel-nobody", "sb-a"
	c := shared(t, ns)
	c.baseline(ns, "a", withSidecar)
	w := c.external(ns, name, "")
	c.reports(w, "10.1.2.3", true, 0, 0)
	c.leads(ns, name, "10.1.2.3", true)
	c.Condition(w, crdv1.ConditionTunnelConnected, "True", "TunnelConnected")
	c.reports(w, "10.1.2.3", false, 0, 11*time.Minute)
	c.Gone(w)
	c.nothingLeads(ns, name)
}

func TestAnExternalWorkloadGoesWithTheManagerDown(t *testing.T) {
	const ns, name = "tunnel-down", "sb-a"
	c := newCluster(t, ns)
	stop := c.manage(manager.Config{})
	c.baseline(ns, "a", withSidecar)
	w := c.external(ns, name, owned)
	c.reports(w, "10.1.2.3", true, 0, 0)
	c.leads(ns, name, "10.1.2.3", true)
	stop()

	// What a namespace controller does: everything is deleted, and nothing may hold it.
	c.remove(w)
	if err := c.Client.Get(c.Context(), client.ObjectKeyFromObject(w), w); !apierrors.IsNotFound(err) {
		t.Errorf("it is held by %v (%v)", w.Finalizers, err)
	}
	ours := []client.ListOption{client.InNamespace(ns), client.MatchingLabels{crdv1.LabelExternalWorkload: name}}
	var services corev1.ServiceList
	var slices discoveryv1.EndpointSliceList
	if err := errors.Join(c.Client.List(c.Context(), &services, ours...), c.Client.List(c.Context(), &slices, ours...)); err != nil {
		t.Fatal(err)
	}
	if len(services.Items) != 1 || len(slices.Items) != 1 || len(services.Items[0].Finalizers)+len(slices.Items[0].Finalizers) > 0 {
		t.Errorf("%+v %+v", services.Items, slices.Items)
	}
	// A cluster without garbage collection is cleared by the next manager.
	c.manage(manager.Config{})
	c.nothingLeads(ns, name)
}

// apiServer returns the address that the API server tells of itself.
func (c *cluster) apiServer() string {
	c.Helper()
	var address string
	c.Eventually("the API server says where it is", func() error {
		var s discoveryv1.EndpointSlice
		if err := c.Client.Get(c.Context(), client.ObjectKey{Namespace: "default", Name: "kubernetes"}, &s); err != nil {
			return err
		}
		if len(s.Endpoints) == 0 {
			return errors.New("it has no address")
		}
		address = s.Endpoints[0].Addresses[0]
		return nil
	})
	return address
}

func TestATunnelWithoutBaselineIsReachedThroughAService(t *testing.T) {
	const ns, name = "tunnel-free", "sb-free"
	c := newCluster(t, ns)
	stop := c.manage(manager.Config{ExternalWorkloads: externalworkload.Limits{WriteEndpoints: true}})
	w := &crdv1.SignadotExternalWorkload{}
	c.Make(w, `
metadata: {name: `+name+`, namespace: `+ns+`, annotations: {signadot.com/sandbox-name: sb}, `+owned+`}
spec:
  name: local
  routingKey: ""
  workloadID: ""
  tunnel: {baselineToLocals: [{baselinePort: 8080, localAddress: "localhost:3000", appProtocol: kubernetes.io/h2c}]}`)
	c.reports(w, "10.1.2.3", true, 0, 0)
	c.Condition(w, crdv1.ConditionReady, "True", "Ready")
	service := &corev1.Service{}
	key := client.ObjectKey{Namespace: ns, Name: w.Status.RoutingConfig.Services[0].To}
	if err := c.Client.Get(c.Context(), key, service); err != nil {
		t.Fatal(err)
	}
	if p := service.Spec.Ports[0]; p.Port != 8080 || p.AppProtocol == nil || *p.AppProtocol != "kubernetes.io/h2c" {
		t.Errorf("the Service has %+v", service.Spec)
	}
	c.Says(c.Condition(w, crdv1.ConditionServicesReady, "True", "ServicesReady"), service.Name+"."+ns+".svc")
	c.Eventually("there are Endpoints for those who read nothing else", func() error {
		endpoints := &corev1.Endpoints{} //nolint:staticcheck // That is what they read.
		if err := c.Client.Get(c.Context(), key, endpoints); err != nil {
			return err
		}
		if len(endpoints.Subsets) != 1 || endpoints.Subsets[0].Addresses[0].IP != "10.1.2.3" || endpoints.Labels[discoveryv1.LabelSkipMirror] != "true" {
			return fmt.Errorf("%+v", endpoints)
		}
		return nil
	})
	if fact := c.log.fact(member.Key(crdv1.KindExternalWorkload, ns, name)); fact != nil {
		t.Errorf("it takes nobody's requests, and the log says %v", fact)
	}
	// Nobody asks for them any more. What others made stays.
	stop()
	foreign := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "foreign", Labels: map[string]string{crdv1.LabelExternalWorkload: name}}} //nolint:staticcheck // As above.
	c.Create(foreign)
	stop = c.manage(manager.Config{})
	endpoints := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: service.Name}} //nolint:staticcheck // As above.
	c.Gone(endpoints)
	if err := errors.Join(c.Client.Get(c.Context(), key, service), c.Client.Get(c.Context(), client.ObjectKeyFromObject(foreign), foreign)); err != nil {
		t.Error(err)
	}

	stop()
	c.manage(manager.Config{ExternalWorkloads: externalworkload.Limits{WriteEndpoints: true}})
	c.Eventually("they are there again", func() error { return c.Client.Get(c.Context(), key, endpoints) })
	c.remove(w)
	c.Gone(service)
	c.Gone(endpoints)
}
