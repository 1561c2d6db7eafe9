package delivery_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store"
	"switchyard.dev/controlplane-link/server"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tests/background"
	"switchyard.dev/tests/link/deliveries"
	"switchyard.dev/tests/world"
)

func TestMain(m *testing.M) { world.Main(m) }

const (
	org  = deliveries.Organisation
	prod = "prod"
)

// site is a cluster with an agent, and a replica of a control plane.
type site struct {
	*world.World
	dir     string
	store   *store.Store
	front   *deliveries.Front
	log     *background.Output
	replica *deliveries.Replica
	discard func(context.Context, model.Job) error
	output  func(context.Context, model.Job) (io.ReadCloser, error)
}

// newSite has a store in SQLite.
func newSite(t *testing.T) *site {
	t.Helper()
	s := siteWith(t, world.Shared(t), nil)
	s.start()
	return s
}

// siteWith has a store that is open, or one in SQLite; start starts the replica.
func siteWith(t *testing.T, w *world.World, in *store.Store, access ...*rest.Config) *site {
	t.Helper()
	s := &site{World: w, dir: t.TempDir(), store: in, log: &background.Output{}}
	s.Must(deliveries.Prepare(t.Context(), w.Server))
	s.Must(deliveries.Files(s.dir))
	var err error
	if in == nil {
		s.store, err = deliveries.Open(t.Context(), filepath.Join(s.dir, "store.db"), "")
		s.Must(err)
		t.Cleanup(func() { _ = s.store.Close() }) // after the replica
		s.Must(deliveries.Fill(t.Context(), s.store, prod))
	}
	s.front, err = deliveries.NewFront()
	s.Must(err)
	t.Cleanup(func() { _ = s.front.Close() }) // nothing is left to lose
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(s.log.String())
		}
	})
	background.Run(t, deliveries.Agent{Access: append(access, w.Config)[0], Dir: s.dir, Address: s.front.Address(), Token: deliveries.Token(prod), Log: s.log}.Run)
	return s
}

// start starts a replica, and sends the agent to it.
func (s *site) start() (stop func()) {
	s.Helper()
	r, err := deliveries.NewReplica(s.dir, s.store, slog.New(slog.NewTextHandler(s.log, nil)))
	s.Must(err)
	r.Delivery.Discard, r.Delivery.Output = s.discard, s.output
	stop = background.Run(s.TB, r.Run)
	s.replica = r
	s.front.Set(r.Address)
	return stop
}

var (
	jo    = model.Author{Principal: model.Principal{Kind: model.KindUser, ID: "u1", Name: "jo@example.com"}, Role: model.RoleMember}
	count atomic.Int64
)

// unique returns a name and a routing key that no other test has.
func unique(prefix string) (name, key string) {
	n := count.Add(1)
	return fmt.Sprintf("%s-%d", prefix, n), fmt.Sprintf("key%010d", n)
}

func event(what string) model.Event {
	return model.Event{Org: org, ID: fmt.Sprintf("test-%d", count.Add(1)), Type: what, At: time.Now(), By: jo.Principal, Role: jo.Role}
}

// sandbox is a row with a description.
func sandbox(name, key, description string, more ...string) model.Sandbox {
	text := fmt.Sprintf(`{"cluster":"prod","description":%q,"forks":[{"forkOf":{"kind":"Deployment","namespace":"shop","name":"cart"},"customizations":{"env":[{"name":"A","value":"b"}]}}]%s}`,
		description, strings.Join(more, ""))
	now := time.Now().UTC().Truncate(time.Microsecond)
	return model.Sandbox{Org: org, Name: name, Cluster: prod, RoutingKey: key, Spec: json.RawMessage(text), CreatedAt: now, UpdatedAt: now, Author: jo}
}

// put writes a row.
func (s *site) put(o model.Sandbox) model.Sandbox {
	s.Helper()
	o, err := s.store.PutSandbox(s.Context(), o, event("sandbox.apply"))
	s.Must(err)
	return o
}

// object waits for the object of a sandbox that a check accepts.
func (s *site) object(name string, check func(*crdv1.SignadotSandbox) error) *crdv1.SignadotSandbox {
	s.Helper()
	var o *crdv1.SignadotSandbox
	s.Eventually("SignadotSandbox "+name, func() error {
		o = &crdv1.SignadotSandbox{}
		if err := s.Client.Get(s.Context(), client.ObjectKey{Name: name}, o); err != nil {
			return err
		}
		return check(o)
	})
	return o
}

// generation is a check of an object.
func generation(n int64) func(*crdv1.SignadotSandbox) error {
	return func(o *crdv1.SignadotSandbox) error {
		if has := o.Annotations[crdv1.AnnotationGeneration]; has != fmt.Sprint(n) {
			return fmt.Errorf("generation %s, not %d", has, n)
		}
		return nil
	}
}

// status waits for a status of a row.
func (s *site) status(name string, is func(model.Status) bool) model.Sandbox {
	s.Helper()
	var o model.Sandbox
	s.Eventually("the status of "+name, func() (err error) {
		if o, err = s.store.Sandbox(s.Context(), org, name); err == nil && !is(o.Status) {
			err = fmt.Errorf("%+v", o.Status)
		}
		return err
	})
	return o
}

func reason(is string) func(model.Status) bool {
	return func(st model.Status) bool { return st.Reason == is }
}

// applied waits until the store knows that the cluster has a generation.
func (s *site) applied(o model.Sandbox) *crdv1.SignadotSandbox {
	s.Helper()
	s.status(o.Name, func(st model.Status) bool { return st.Applied == o.Generation })
	return s.object(o.Name, generation(o.Generation))
}

// ended waits until the store has no row.
func (s *site) ended(name string) {
	s.Helper()
	s.Eventually("the end of row "+name, func() error {
		_, err := s.store.Sandbox(s.Context(), org, name)
		if errors.Is(err, model.ErrNotFound) {
			return nil
		}
		return errors.Join(err, errors.New("it is there"))
	})
}

// missing fails unless the cluster has no such object.
func (s *site) missing(name string) {
	s.Helper()
	if err := s.Client.Get(s.Context(), client.ObjectKey{Name: name}, &crdv1.SignadotSandbox{}); !apierrors.IsNotFound(err) {
		s.Errorf("SignadotSandbox %s: %v", name, err)
	}
}

// events returns the entries of the audit trail of a type.
func (s *site) events(what string) []model.Event {
	s.Helper()
	all, err := s.store.Events(s.Context(), org, model.EventQuery{Types: []string{what}, Limit: 100})
	s.Must(err)
	return all
}

// ready has the operator report a sandbox as ready.
func (s *site) ready(o *crdv1.SignadotSandbox) {
	s.Helper()
	world.Edit(s.World, o, func(*crdv1.SignadotSandbox) {})
	s.Eventually("the status can be written", func() error {
		s.Get(o)
		o.Status.Conditions = []crdv1.StatusCondition{{Type: crdv1.ConditionReady, Status: "True", Reason: "Ready", Message: "all is ready", ObservedGeneration: o.Generation}}
		return s.Client.Status().Update(context.WithoutCancel(s.Context()), o)
	})
}

// later returns nil once there is a session that begun after others.
func later(s *site, than []*server.Agent) error {
	for _, a := range s.replica.Server.Agents() {
		if len(than) == 0 || a.Epoch > than[0].Epoch {
			return nil
		}
	}
	return errors.New("there is none")
}

// webhook has the API server ask a webhook about sandboxes, which refuses those that are described as "refuse" until
// accept is called.
func (s *site) webhook(message string) (accept func()) {
	s.Helper()
	var accepts atomic.Bool
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		refuses := strings.Contains(string(review.Request.Object.Raw), `"signadot.com/description":"refuse"`) && !accepts.Load()
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: !refuses, Result: &metav1.Status{Message: message}}
		_ = json.NewEncoder(w).Encode(review) // the API server has closed the connection
	}))
	s.Cleanup(server.Close)
	none, fail := admissionregistrationv1.SideEffectClassNone, admissionregistrationv1.Fail
	hook := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "mondays"}, Webhooks: []admissionregistrationv1.ValidatingWebhook{{
		Name: "mondays.example.com", SideEffects: &none, FailurePolicy: &fail, AdmissionReviewVersions: []string{"v1"},
		ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &server.URL, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})},
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{crdv1.Group}, APIVersions: []string{"v1"}, Resources: []string{"signadotsandboxes"}},
		}},
	}}}
	s.Create(hook)
	s.Cleanup(func() { _ = s.Client.Delete(context.Background(), hook) }) // another test must not need it
	probe := &crdv1.SignadotSandbox{ObjectMeta: metav1.ObjectMeta{Name: "probe", Annotations: map[string]string{crdv1.AnnotationDescription: "refuse"}}, Spec: crdv1.SignadotSandboxSpec{ID: "probe"}}
	s.Eventually("the webhook is called", func() error {
		if err := s.Client.Create(s.Context(), probe.DeepCopy(), client.DryRunAll); err == nil || !strings.Contains(err.Error(), message) {
			return fmt.Errorf("a refused one: %w", errors.Join(err, errors.New("accepted")))
		}
		return nil
	})
	return func() { accepts.Store(true) }
}

// staleLists is an API server, as an agent sees it, that lists no sandbox and reports no event.
type staleLists struct {
	on    atomic.Bool
	lists atomic.Int32
}

func (l *staleLists) wrap(next http.RoundTripper) http.RoundTripper {
	return world.RoundTrip(func(r *http.Request) (*http.Response, error) {
		if !l.on.Load() || r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "/signadotsandboxes") {
			return next.RoundTrip(r)
		}
		if r.URL.Query().Get("watch") != "" {
			until, end := io.Pipe()
			context.AfterFunc(r.Context(), func() { _ = end.Close() })
			go func() { // the end of a list, for a client that lists by a watch
				_, _ = io.WriteString(end, `{"type":"BOOKMARK","object":{"apiVersion":"signadot.com/v1","kind":"SignadotSandbox","metadata":{"resourceVersion":"1","annotations":{"k8s.io/initial-events-end":"true"}}}}`+"\n")
				l.lists.Add(1)
			}()
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: until, Request: r}, nil
		}
		l.lists.Add(1)
		const none = `{"apiVersion":"signadot.com/v1","kind":"SignadotSandboxList","metadata":{"resourceVersion":"1"},"items":[]}`
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(none)), Request: r}, nil
	})
}

// frozenWatch is the body of a watch, which reports nothing while it is frozen.
type frozenWatch struct {
	io.ReadCloser
	ctx    context.Context //nolint:containedctx // that of the request
	frozen *atomic.Bool
}

func (e *frozenWatch) Read(into []byte) (n int, err error) {
	n, err = e.ReadCloser.Read(into)
	for e.frozen.Load() && e.ctx.Err() == nil {
		time.Sleep(5 * time.Millisecond)
	}
	return n, err
}
