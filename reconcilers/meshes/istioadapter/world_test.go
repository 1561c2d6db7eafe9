package istioadapter_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	kubernetesscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"

	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/logtest"
	"switchyard.dev/eventbus/memory"
	crdv1 "switchyard.dev/protos/crd/v1"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/meshes/istio/names"
	"switchyard.dev/reconcilers/meshes/istioadapter"
	"switchyard.dev/reconcilers/optional"
	"switchyard.dev/reconcilers/policies"
	"switchyard.dev/reconcilers/policyreader"
	"switchyard.dev/routeserver/table"
	"switchyard.dev/tests/apiserver"
	"switchyard.dev/tests/background"
	"switchyard.dev/tests/world"
	"switchyard.dev/xds/xdstest"
)

func TestMain(m *testing.M) { world.Main(m) }

const own = "system:serviceaccount:signadot:signadot-controller-manager"

// cluster is an API server with VirtualServices, an elected adapter, and its webhook.
type cluster struct {
	*world.World
	ns   string
	log  *memory.Log
	main *istioadapter.Adapter
	// parts is the configuration of the adapter.
	parts istioadapter.Config
	// hooked answers in place of it, if not nil.
	hooked *istioadapter.Adapter
	// settings are its settings, and stop ends it.
	settings istioadapter.Settings
	stop     func()
	// away: the webhook does not answer; asked is how often it was.
	away  atomic.Bool
	asked atomic.Int64
	// writes counts the adapter's writes, failures its warnings.
	writes, failures atomic.Int64
	// failAt is after how many of its writes one fails, zero for none; before is called before
	// each, if not nil.
	failAt atomic.Int64
	// fails: all of them fail.
	fails atomic.Bool
	// refuses reports whether one fails, with a conflict if conflicts is set, and answered is called
	// after each, if they are not nil.
	refuses   func(*http.Request) bool
	conflicts bool
	answered  func()
	before    func(*http.Request)
	// meddles: the webhook takes routes out.
	meddles atomic.Bool
	// policies are the kinds that are read, and refusesPolicies whether they are a reason to derive
	// nothing.
	policies        []policies.Kind
	refusesPolicies bool
}

// define makes the API server serve VirtualServices.
func define(w *world.World) {
	w.Helper()
	w.DefineIstio()
}

func kinds() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	return s, func() error {
		if err := kubernetesscheme.AddToScheme(s); err != nil {
			return err
		}
		return crdv1.AddToScheme(s)
	}()
}

// start runs an adapter for VirtualServices of a namespace of the test's own.
func start(t testing.TB, w *world.World, settings istioadapter.Settings) *cluster {
	t.Helper()
	return startAs(t, w, settings, own, "system:masters")
}

// started starts an adapter with the defaults.
func started(t testing.TB) *cluster {
	t.Helper()
	w := world.Shared(t)
	define(w)
	return start(t, w, istioadapter.Settings{})
}

// startAs starts it as a user in these groups.
func startAs(t testing.TB, w *world.World, settings istioadapter.Settings, user string, groups ...string) *cluster {
	t.Helper()
	c := &cluster{World: w.In(t), log: memory.New(), settings: settings}
	c.settings.Enabled = true
	c.ns = c.NewNamespace("mesh")
	_, err := c.log.Begin(t.Context(), event.Mark{})
	c.Must(err)
	c.Create(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: c.ns, Name: "customer"},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 8081}}}})
	c.run(user, groups...)
	return c
}

// run runs an adapter until stop is called or the test ends.
func (c *cluster) run(user string, groups ...string) {
	c.Helper()
	access := c.As(user, groups...)
	access.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return world.RoundTrip(func(q *http.Request) (*http.Response, error) {
			if q.Method == http.MethodGet || !strings.Contains(q.URL.Path, "/"+c.ns+"/") { // Other tests leave routes, too.
				return next.RoundTrip(q)
			}
			c.writes.Add(1)
			if c.before != nil {
				c.before(q)
			}
			if c.fails.Load() || c.refuses != nil && !c.conflicts && c.refuses(q) || c.failAt.Load() > 0 && c.failAt.Add(-1) == 0 {
				return nil, errors.New("the test fails this request")
			}
			if c.refuses != nil && c.conflicts && c.refuses(q) {
				return &http.Response{StatusCode: http.StatusConflict, Header: http.Header{"Content-Type": {"application/json"}}, Request: q,
					Body: io.NopCloser(strings.NewReader(`{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Conflict", "code": 409}`))}, nil
			}
			began := time.Now()
			answer, err := next.RoundTrip(q)
			if err == nil {
				c.Logf("we wrote %s within %s: %s", q.Header.Get("Content-Type"), time.Since(began), answer.Status)
			}
			if c.answered != nil {
				c.answered()
			}
			return answer, err
		})
	})
	all, err := optional.New(optional.Config{REST: access, Logger: world.Quiet,
		Kinds: append(policyreader.Optional(c.policies), optional.Kind{GroupVersionKind: istioadapter.VirtualServices, Definition: istioadapter.Definition},
			optional.Kind{GroupVersionKind: istioadapter.DestinationRules, Definition: istioadapter.RulesDefinition},
			optional.Kind{GroupVersionKind: baseline.RolloutKind(), Definition: baseline.RolloutDefinition})})
	c.Must(err)
	background.Run(c, all.Start)
	elected, again := make(chan struct{}), make(chan ctrlevent.GenericEvent)
	close(elected)
	c.parts = istioadapter.Config{
		Settings: c.settings, Log: c.log, Client: optional.Client{Client: c.ClientWith(access, kinds), Kinds: all}, Kinds: all,
		Elected: elected, Again: again, Own: own, Policies: c.policies, RefusePolicies: c.refusesPolicies, Logger: slog.New(counting{slog.DiscardHandler, &c.failures}),
	}
	ctx := c.Context()
	go func() {
		for {
			select {
			case <-again:
			case <-ctx.Done():
				return
			}
		}
	}()
	c.main, err = istioadapter.New(c.parts)
	c.Must(err)
	c.stop = background.Run(c, c.main.Start)
}

// hook registers the webhook for the namespace of the test.
func (c *cluster) hook() {
	c.Helper()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.asked.Add(1)
		var review admissionv1.AdmissionReview
		if c.away.Load() || json.NewDecoder(r.Body).Decode(&review) != nil {
			http.Error(w, "away", http.StatusServiceUnavailable)
			return
		}
		review.Response = cmp.Or(c.hooked, c.main).Review(r.Context(), review.Request)
		if c.meddles.Load() {
			review.Response = c.meddled(review.Request)
		}
		review.Response.UID = review.Request.UID
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(review); err != nil {
			c.Error(err)
		}
	}))
	c.Cleanup(s.Close)
	registration := &registrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: c.ns}, Webhooks: []registrationv1.MutatingWebhook{{
		Name: "virtualservices.signadot.com", AdmissionReviewVersions: []string{"v1"}, SideEffects: new(registrationv1.SideEffectClassNone),
		FailurePolicy: new(registrationv1.Ignore), TimeoutSeconds: new(int32(2)),
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: c.ns}},
		ClientConfig: registrationv1.WebhookClientConfig{
			URL: new(s.URL + istioadapter.Path), CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}),
		},
		Rules: []registrationv1.RuleWithOperations{{
			Operations: []registrationv1.OperationType{registrationv1.Create, registrationv1.Update},
			Rule:       registrationv1.Rule{APIGroups: []string{"networking.istio.io"}, APIVersions: []string{"v1"}, Resources: []string{"virtualservices"}},
		}},
	}}}
	c.Create(registration)
	c.Cleanup(func() {
		if err := c.Client.Delete(context.Background(), registration); err != nil {
			c.Error(err)
		}
	})
	// The API server takes a moment to hear of it.
	c.Eventually("the webhook is asked", func() error {
		u := &unstructured.Unstructured{}
		c.Read(u, c.file("1s"))
		if err := c.Client.Create(c.Context(), u, client.DryRunAll); err != nil {
			return err
		}
		if c.asked.Load() == 0 {
			return errors.New("it was not")
		}
		return nil
	})
}

// meddled answers without any routes of the operator.
func (c *cluster) meddled(q *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	u := &unstructured.Unstructured{}
	c.Must(u.UnmarshalJSON(q.Object.Raw))
	text, err := json.Marshal([]map[string]any{{"op": "add", "path": "/spec/http", "value": bare(u)}})
	c.Must(err)
	return &admissionv1.AdmissionResponse{Allowed: true, Patch: text, PatchType: new(admissionv1.PatchTypeJSONPatch)}
}

// counting counts the warnings of a log.
type counting struct {
	slog.Handler
	n *atomic.Int64
}

func (counting) Enabled(context.Context, slog.Level) bool { return true }

func (h counting) Handle(_ context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn {
		h.n.Add(1)
	}
	return nil
}

// state puts facts on the log.
func (c *cluster) state(facts ...event.Fact) {
	c.Helper()
	c.Must(logtest.Put(c.Context(), c.log, facts...))
}

// sandbox creates a sandbox with a routing key for Service customer.
func (c *cluster) sandbox(key string) {
	c.Helper()
	observed, declared := xdstest.Fork{
		Baseline: table.Workload{Kind: "Deployment", Namespace: c.ns, Name: "customer"}, Key: key, Sandbox: "of-" + key,
		Port: 8080, Destination: netip.MustParseAddrPort("10.0.0.9:8081"),
	}.Facts()
	c.state(observed, declared, event.Fact{Key: event.Log, Data: &factv1.Complete{Reason: "test"}})
}

// withdraw takes it back.
func (c *cluster) withdraw(key string) {
	c.Helper()
	c.state(event.Fact{Key: event.RoutingKey(key), Data: &factv1.RoutingWithdrawn{RoutingKey: key}})
}

// file is a VirtualService as its owner has it in a file, with a timeout.
func (c *cluster) file(timeout string) string {
	return `apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: customer, namespace: ` + c.ns + `, labels: {of: owner}}
spec:
  hosts: [customer]
  http:
  - {name: api, match: [{uri: {prefix: /api}}], timeout: ` + timeout + `, route: [{destination: {host: customer}}]}
  - {name: rest, route: [{destination: {host: customer}}]}
`
}

// kubectl runs a command of the owner, and returns its output.
func (c *cluster) kubectl(in string, args ...string) (string, error) {
	cmd := exec.CommandContext(c.Context(), filepath.Join(apiserver.Binaries(), "kubectl"), append([]string{"--kubeconfig", c.Kubeconfig}, args...)...)
	cmd.Stdin = strings.NewReader(in)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

// owner has the owner write its VirtualService with a command of kubectl.
func (c *cluster) owner(command ...string) {
	c.Helper()
	if said, err := c.kubectl(c.file("1s"), append(command, "-f", "-")...); err != nil {
		c.Fatal(said)
	}
}

// virtualService reads it.
func (c *cluster) virtualService() *unstructured.Unstructured {
	c.Helper()
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(istioadapter.VirtualServices)
	c.Must(c.Client.Get(c.Context(), client.ObjectKey{Namespace: c.ns, Name: "customer"}, u))
	return u
}

// routes returns the names of the routes of a VirtualService, the operator's as "ours KEY".
func routes(u *unstructured.Unstructured) (out []string) {
	list, _, _ := unstructured.NestedSlice(u.Object, "spec", "http")
	for _, one := range list {
		fields, _ := one.(map[string]any)
		name, _ := fields["name"].(string)
		if rest, is := strings.CutPrefix(name, names.Prefix); is {
			key, _, _ := strings.Cut(rest, "-")
			name = "ours " + key
		}
		out = append(out, name)
	}
	return out
}

// timeout is that of the owner's route api; empty without it.
func timeout(u *unstructured.Unstructured) string {
	list, _, _ := unstructured.NestedSlice(u.Object, "spec", "http")
	for _, one := range list {
		if fields, _ := one.(map[string]any); fields["name"] == "api" {
			return fmt.Sprint(fields["timeout"])
		}
	}
	return ""
}

// has waits until the VirtualService has these routes.
func (c *cluster) has(want ...string) {
	c.Helper()
	c.Eventually("the VirtualService has its routes", func() error {
		if got := routes(c.virtualService()); strings.Join(got, ", ") != strings.Join(want, ", ") {
			return fmt.Errorf("it has %q, not %q", got, want)
		}
		return nil
	})
}
