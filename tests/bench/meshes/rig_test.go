package meshes

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	routing "switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/logtest"
	"switchyard.dev/eventbus/memory"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/meshes/istioadapter"
	"switchyard.dev/reconcilers/optional"
	"switchyard.dev/routeserver/table"
	"switchyard.dev/tests/apiserver"
	"switchyard.dev/tests/background"
	"switchyard.dev/tests/meshes"
	"switchyard.dev/tests/world"
	"switchyard.dev/xds/xdstest"
)

const (
	namespace = "app"
	// customer is the Service that all sandboxes fork.
	customer = "customer"
	// manager is the user of the adapter.
	manager = "system:serviceaccount:signadot:signadot-controller-manager"
)

// sidecar asks through the sidecar of the mesh.
var sidecar = meshes.Client(net.IPv4(127, 0, 0, 1))

// rig is a mesh, an adapter beside it, and the log that it follows.
type rig struct {
	*meshes.Mesh
	log *memory.Log
	// answered has what the adapter's writes were answered with, and when.
	answered chan answer
}

type answer struct {
	at   time.Time
	body []byte
}

// start starts everything but an adapter, with no sandbox.
func start(t testing.TB) *rig {
	t.Helper()
	w := world.New(t, "service-cluster-ip-range=10.96.0.0/16") // room for the Services of 540 forks
	meshes.Install(w)
	r := &rig{Mesh: meshes.Start(w), log: memory.New(), answered: make(chan answer, 1000)}
	r.Namespaces(namespace)
	r.Echo(namespace, customer, net.IPv4(10, 77, 3, 1))
	for i := range sandboxes + changes {
		r.Echo(namespace, forkOf(i), net.IPv4(10, 77, byte(4+i/250), byte(1+i%250)))
	}
	r.Run(meshes.Proxy{Kind: meshes.Sidecar, Name: "client", Namespace: namespace, IP: net.IPv4(10, 77, 2, 1)})
	_, err := r.log.Begin(t.Context(), routing.Mark{})
	r.Must(err)
	return r
}

// access is how an adapter reaches the API server.
func (r *rig) access() *rest.Config {
	r.Helper()
	access := r.As(manager, "system:masters")
	access.QPS = -1
	access.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return world.RoundTrip(func(q *http.Request) (*http.Response, error) {
			response, err := next.RoundTrip(q)
			if err != nil || q.Method == http.MethodGet {
				return response, err
			}
			at := time.Now()
			body, err := io.ReadAll(response.Body)
			response.Body = io.NopCloser(bytes.NewReader(body))
			r.answered <- answer{at, body}
			return response, err
		})
	})
	return access
}

// adapt runs the adapter of VirtualServices, until the test ends.
func (r *rig) adapt() *istioadapter.Adapter {
	r.Helper()
	access := r.access()
	kinds, err := optional.New(optional.Config{REST: access, Logger: world.Quiet,
		Kinds: []optional.Kind{{GroupVersionKind: istioadapter.VirtualServices, Definition: istioadapter.Definition},
			{GroupVersionKind: istioadapter.DestinationRules, Definition: istioadapter.RulesDefinition},
			{GroupVersionKind: baseline.RolloutKind(), Definition: baseline.RolloutDefinition}}})
	r.Must(err)
	background.Run(r, kinds.Start)
	elected := make(chan struct{})
	close(elected)
	a, err := istioadapter.New(istioadapter.Config{
		Settings: istioadapter.Settings{Enabled: true}, Log: r.log, Kinds: kinds, Elected: elected, Again: r.drained(), Own: manager,
		Client: optional.Client{Client: r.cached(access), Kinds: kinds},
		Logger: slog.New(slog.DiscardHandler),
	})
	r.Must(err)
	background.Run(r, a.Start)
	return a
}

// drained returns a channel and drops its events: no controller reports on routes here.
func (r *rig) drained() chan<- event.GenericEvent {
	again, ctx := make(chan event.GenericEvent), r.Context()
	go func() {
		for {
			select {
			case <-again:
			case <-ctx.Done():
				return
			}
		}
	}()
	return again
}

// hook has the API server ask the adapter about VirtualServices, as the chart has it.
func (r *rig) hook(a *istioadapter.Adapter) {
	r.Helper()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(q.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		review.Response = a.Review(q.Context(), review.Request)
		review.Response.UID = review.Request.UID
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review) // The API server goes on without an answer.
	}))
	r.Cleanup(s.Close)
	r.Create(&registrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: namespace}, Webhooks: []registrationv1.MutatingWebhook{{
		Name: "virtualservices.signadot.com", AdmissionReviewVersions: []string{"v1"}, SideEffects: new(registrationv1.SideEffectClassNone),
		FailurePolicy: new(registrationv1.Ignore), TimeoutSeconds: new(int32(2)),
		ClientConfig: registrationv1.WebhookClientConfig{
			URL: new(s.URL + istioadapter.Path), CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}),
		},
		Rules: []registrationv1.RuleWithOperations{{
			Operations: []registrationv1.OperationType{registrationv1.Create, registrationv1.Update},
			Rule:       registrationv1.Rule{APIGroups: []string{"networking.istio.io"}, APIVersions: []string{"v1"}, Resources: []string{"virtualservices"}},
		}},
	}}})
}

// keyOf is the routing key of a sandbox, as long as those that are made of random letters, and
// forkOf its Service.
func keyOf(i int) string  { return fmt.Sprintf("k7q2m9x4v%04d", i) }
func forkOf(i int) string { return fmt.Sprintf("s%d-%s", i, customer) }

// state puts facts on the log.
func (r *rig) state(facts ...routing.Fact) {
	r.Helper()
	r.Must(logtest.Put(r.Context(), r.log, facts...))
}

// sandbox states the facts of a sandbox.
func (r *rig) sandbox(i int) {
	r.Helper()
	observed, declared := xdstest.Fork{
		Baseline: table.Workload{Kind: "Deployment", Namespace: namespace, Name: customer}, Key: keyOf(i), Sandbox: fmt.Sprintf("s%d", i),
		Port: meshes.TargetPort, Destination: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, 9}), meshes.Port),
	}.Facts()
	r.state(observed, declared)
}

// withdraw takes the sandbox's routing key off the log.
func (r *rig) withdraw(i int) {
	r.Helper()
	r.state(routing.Fact{Key: routing.RoutingKey(keyOf(i)), Data: &factv1.RoutingWithdrawn{RoutingKey: keyOf(i)}})
}

// written waits for the answer of a write of an object that has, or lacks, routes for a key, and
// returns when it came.
func (r *rig) written(key string, has bool) time.Time {
	r.Helper()
	patience := time.After(world.Patience)
	for {
		select {
		case a := <-r.answered:
			if bytes.Contains(a.body, []byte(key)) == has {
				return a.at
			}
		case <-patience:
			r.Fatalf("no write concerned routing key %s", key)
		}
	}
}

// led waits until a request to a Service with a key is answered by another, and returns when it
// was.
func (r *rig) led(service, key, by string) time.Time {
	r.Helper()
	var last error
	for end := time.Now().Add(world.Patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if last = r.served(service, key, by); last == nil {
			return time.Now()
		}
	}
	r.Fatal(last)
	return time.Time{}
}

func (r *rig) served(service, key, by string) error {
	q, err := http.NewRequestWithContext(r.Context(), http.MethodGet, fmt.Sprintf("http://%s.%s:%d/", service, namespace, meshes.Port), http.NoBody)
	if err != nil {
		return err
	}
	q.Header.Set("baggage", "sd-routing-key="+key)
	got, err := sidecar.Do(q)
	if err != nil {
		return err
	}
	if name := got.Header.Get(meshes.ServedBy); name != by {
		err = fmt.Errorf("a request with key %s is answered %d by %q, not by %q", key, got.StatusCode, name, by)
	}
	return errors.Join(err, got.Body.Close())
}

// kubectl applies an object as its owner does, and returns how long that took and when it ended.
func (r *rig) kubectl(o *unstructured.Unstructured) (took time.Duration, ended time.Time) {
	r.Helper()
	text, err := o.MarshalJSON()
	r.Must(err)
	cmd := exec.CommandContext(r.Context(), filepath.Join(apiserver.Binaries(), "kubectl"), "--kubeconfig", r.Kubeconfig, "apply", "--server-side", "-f", "-")
	cmd.Stdin = bytes.NewReader(text)
	began := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		r.Fatalf("kubectl apply: %v: %s", err, strings.TrimSpace(string(out)))
	}
	return time.Since(began), time.Now()
}

// virtualService reads the one that the adapter writes.
func (r *rig) virtualService() *unstructured.Unstructured {
	r.Helper()
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(istioadapter.VirtualServices)
	r.Must(r.Client.Get(r.Context(), client.ObjectKey{Namespace: namespace, Name: customer}, o))
	return o
}
