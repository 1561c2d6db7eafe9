package meshes

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/trust"
	"switchyard.dev/eventbus/trust/authority"
	crdv1 "switchyard.dev/protos/crd/v1"
	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
	forktraffic "switchyard.dev/reconcilers/fork/traffic"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/reconcilers/meshes/gatewayadapter"
	"switchyard.dev/reconcilers/meshes/istioadapter"
	"switchyard.dev/routeserver/door"
	"switchyard.dev/tests/background"
	"switchyard.dev/tools/traffic"
)

// The owner's objects for two Services, by either mesh.
const (
	virtualServicesOfTwo = `
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: customer, namespace: shop}
spec: {hosts: [customer], http: [{name: rest, route: [{destination: {host: customer}}]}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: driver, namespace: shop}
spec: {hosts: [driver], http: [{name: rest, route: [{destination: {host: driver}}]}]}
`
	routesOfTwo = `
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: customer, namespace: shop}
spec: {parentRefs: [{group: "", kind: Service, name: customer, port: 8081}], rules: [{backendRefs: [{name: customer, port: 8081}]}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: driver, namespace: shop}
spec: {parentRefs: [{group: "", kind: Service, name: driver, port: 8081}], rules: [{backendRefs: [{name: driver, port: 8081}]}]}
`
)

// Requests with the key of a virtual and of an external workload pass traffic-manager once while they are recorded, without a
// DevMesh sidecar, and reach the application once. Others do not pass it, and no request is lost when that begins or ends.
func TestRequestsAreRecordedUnderAMesh(t *testing.T) {
	t.Run("Istio", func(t *testing.T) {
		recorded(t, manager.Config{Istio: istioadapter.Settings{Enabled: true}}, virtualServicesOfTwo)
	})
	t.Run("GatewayAPI", func(t *testing.T) {
		recorded(t, manager.Config{GatewayAPI: gatewayadapter.Settings{Enabled: true, Istio: true}}, routesOfTwo)
	})
}

func recorded(t *testing.T, config manager.Config, owned string) {
	token := filepath.Join(t.TempDir(), "token")
	config.Trust = authority.NewRoots()
	config.Traffic = manager.Traffic{Manager: true, TokenFile: token, Container: forktraffic.Settings{Image: "traffic-sidecar:1"}}
	r := &recording{shop: openShop(t, config), client: Client(net.IPv4(127, 0, 0, 1))}
	background.Run(t, r.kubeProxy)
	conn, err := trust.Dial(r.runTrafficManager(token), managerHost, config.Trust, door.Show(token))
	r.Must(err)
	t.Cleanup(func() { _ = conn.Close() })
	r.reader = trafficv1.NewReadersClient(conn)
	r.pod(shopName, "customer", "default", net.IPv4(10, 77, 1, 250))
	r.kubectl(owned, "apply", "-f", "-")
	for _, name := range []string{"customer", "driver"} { // beside the ordinary one, without a route of the owner
		r.Make(&corev1.Service{}, `{metadata: {name: all-`+name+`, namespace: `+shopName+`}, spec: {clusterIP: None, selector: {app: `+name+`}, ports: [{name: http, port: 8081}, {name: admin, port: 9099}]}}`)
	}
	r.Make(&crdv1.SignadotSandbox{}, `
metadata: {name: recorded}
spec:
  id: recorded
  virtualWorkloads: [{name: watched, baseline: {apiVersion: apps/v1, kind: Deployment, namespace: shop, name: customer}}]
  externalWorkloads:
  - name: local
    baseline: {apiVersion: apps/v1, kind: Deployment, namespace: shop, name: driver}
    tunnel: {baselineToLocals: [{baselinePort: 8081, localAddress: "localhost:3000"}]}`)
	r.connect(workstation)
	r.Eventually("requests with the key reach the workstation", func() error { return r.send("sd-routing-key=recorded,id=0", workstation) })

	capture := &crdv1.TrafficCapture{}
	r.Make(capture, "{metadata: {name: record, namespace: shop}, spec: {sandbox: recorded}}")
	r.during("each request is recorded", func(keyed string) error {
		r.Must(r.Look(capture))
		if !crdv1.IsTrue(capture.Status.Conditions, crdv1.ConditionReady, capture.Generation) {
			return fmt.Errorf("%+v", capture.Status.Conditions)
		}
		return r.stored(keyed)
	})
	for _, name := range []string{"all-customer", "all-driver"} {
		if m := crdv1.FindCondition(capture.Status.Conditions, crdv1.ConditionReady).Message; !strings.Contains(m, "headless Service "+name) {
			r.Errorf("that requests to Service %s are not recorded is not stated: %s", name, m)
		}
	}
	service := &corev1.Service{}
	r.Must(r.Client.Get(r.Context(), client.ObjectKey{Namespace: shopName, Name: "customer"}, service))
	service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{Name: "late", Port: 9098})
	r.Must(r.Client.Update(r.Context(), service))
	named := func(string) error {
		r.Must(r.Look(capture))
		if c := crdv1.FindCondition(capture.Status.Conditions, crdv1.ConditionReady); c.Status != "True" || !strings.Contains(c.Message, "port 9098 of VirtualWorkload") {
			return fmt.Errorf("%+v", c)
		}
		return nil
	}
	r.during("a port that is added later is named", named)
	r.Synced()
	first := r.number + 1
	for range 50 {
		r.both()
	}
	r.both([2]string{"Sd-Return", "a"}) // has no effect
	last := r.number
	r.Must(named("")) // also when the mesh has had time for it
	for id := first; id <= last; id++ {
		r.Eventually("each of these is recorded", func() error { return r.stored(withKey(id)) })
	}
	r.Must(r.Client.Delete(r.Context(), capture))
	r.during("the capture is deleted", func(string) error {
		if err := r.Look(capture); !apierrors.IsNotFound(err) {
			return fmt.Errorf("%+v: %w", capture.Status.Conditions, err)
		}
		return nil
	})
	r.Synced()
	end := r.number + 1
	for range 20 {
		r.both()
	}
	t.Logf("the capture began within %d requests, %d to %d were to be recorded, and it ended before %d of %d", first-1, first, last, end, r.number)
	r.check(end)
	for label, left := range map[string]int{crdv1.LabelVirtualWorkload: 0, crdv1.LabelExternalWorkload: 2} {
		r.Eventually("the second Services are deleted", func() error {
			var all corev1.ServiceList
			if r.List(&all, client.InNamespace(shopName), client.HasLabels{label}); len(all.Items) != left {
				return fmt.Errorf("%d Services have the label %s", len(all.Items), label)
			}
			return nil
		})
	}
	one := &crdv1.TrafficCapture{}
	r.Make(one, fmt.Sprintf("{metadata: {name: one, namespace: shop}, spec: {sandbox: recorded, workload: watched, port: %d}}", Port))
	r.during("a capture of one of two ports is ready", func(string) error {
		r.Must(r.Look(one))
		if !crdv1.IsTrue(one.Status.Conditions, crdv1.ConditionReady, one.Generation) {
			return fmt.Errorf("%+v", one.Status.Conditions)
		}
		return nil
	})
}

const workstation = "workstation"

// recording is a shop with requests that are recorded.
type recording struct {
	*shop
	client *http.Client
	reader trafficv1.ReadersClient
	// number is how many requests with the key were sent, and as many without.
	number int
}

// withKey and without return the baggage of requests.
func withKey(id int) string { return "sd-routing-key=recorded," + without(id) }
func without(id int) string { return "id=" + strconv.Itoa(id) }

// send sends a request to customer, which has to answer after the other one.
func (r *recording) send(baggage, other string, headers ...[2]string) error {
	chain, err := traffic.Fetch(r.Context(), r.client, fmt.Sprintf("http://%s:%d/", serviceHost("customer"), Port), append(headers, [2]string{"Baggage", baggage})...)
	if want := "customer > " + other; err == nil && string(chain) != want {
		err = fmt.Errorf("%s serve %q, not %s", chain, baggage, want)
	}
	return err
}

// both sends a request with the key and one without, which must not fail.
func (r *recording) both(headers ...[2]string) {
	r.Helper()
	r.number++
	if err := errors.Join(r.send(withKey(r.number), workstation, headers...), r.send(without(r.number), "driver", headers...)); err != nil {
		r.Errorf("request %d: %v", r.number, err)
	}
}

// during sends requests until done returns nil for the last one with the key.
func (r *recording) during(what string, done func(keyed string) error) {
	r.Helper()
	r.Eventually(what, func() error {
		r.both()
		return done(withKey(r.number))
	})
}

// exchanges returns how often requests are stored, by the kind of the member that they were for and their baggage.
func (r *recording) exchanges() (map[string]int, error) {
	stream, err := r.reader.Read(r.Context(), &trafficv1.ReadRequest{CaptureNamespace: shopName, Capture: "record"})
	for all := map[string]int{}; err == nil; {
		var e *trafficv1.Entry
		if e, err = stream.Recv(); e.GetExchange() != nil {
			kind, _, _ := strings.Cut(e.GetExchange().GetMember(), "/")
			for _, h := range e.GetExchange().GetRequest().GetHeaders() {
				if strings.EqualFold(h.GetName(), "baggage") {
					all[kind+" "+h.GetValue()]++
				}
			}
		}
		if e.GetCurrent() || errors.Is(err, io.EOF) {
			return all, nil
		}
	}
	return nil, err
}

// stored returns an error unless a request is stored once for each member.
func (r *recording) stored(baggage string) error {
	all, err := r.exchanges()
	for _, kind := range []string{crdv1.KindVirtualWorkload, crdv1.KindExternalWorkload} {
		if n := all[kind+" "+baggage]; err == nil && n != 1 {
			err = fmt.Errorf("of %s request %q is stored %d times", kind, baggage, n)
		}
	}
	return err
}

// check fails the test unless each application has served each request once, and no request is stored twice, nor without the key, nor
// one from the end on.
func (r *recording) check(end int) {
	r.Helper()
	all, err := r.exchanges()
	r.Must(err)
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := 1; id <= r.number; id++ {
		for of, n := range map[string]int{
			"customer " + withKey(id): 1, workstation + " " + withKey(id): 1, "driver " + withKey(id): 0,
			"customer " + without(id): 1, workstation + " " + without(id): 0, "driver " + without(id): 1,
		} {
			if r.served[of] != n {
				r.Errorf("%s: served %d times, not %d", of, r.served[of], n)
			}
		}
		for _, kind := range []string{crdv1.KindVirtualWorkload, crdv1.KindExternalWorkload} {
			if n := all[kind+" "+withKey(id)]; n > 1 || n > 0 && id >= end {
				r.Errorf("%s: request %d is stored %d times, and the capture had ended before %d", kind, id, n, end)
			}
			if n := all[kind+" "+without(id)]; n > 0 {
				r.Errorf("%s: request %d without the key is stored", kind, id)
			}
		}
	}
}
