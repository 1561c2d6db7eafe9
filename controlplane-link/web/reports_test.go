package web_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store"
	"switchyard.dev/controlplane-link/registry"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tests/world"
	"switchyard.dev/tools/wait"
	"switchyard.dev/workflows/spec"
)

func TestMain(m *testing.M) { world.Main(m) }

// reported makes the objects that an operator reports about a sandbox with a fork that crashes, and a resource with a step
// that has failed.
func reported(w *world.World) {
	w.Helper()
	ctx := context.Background()
	w.Namespaces("hotrod")
	s := &crdv1.SignadotSandbox{}
	w.Make(s, `{metadata: {name: reports}, spec: {id: key-of-reports, managedResources: [{name: db, pluginName: mariadb@1.0.0}]}}`)
	fork := &crdv1.ForkedWorkload{}
	w.Make(fork, `
metadata: {namespace: hotrod, name: reports-frontend, labels: {signadot.com/sandbox: reports}}
spec: {baseline: {apiVersion: apps/v1, kind: Deployment, namespace: hotrod, name: frontend}}
`)
	r := &crdv1.Resource{}
	w.Make(r, `
metadata: {name: reports-db, annotations: {signadot.com/sandbox-name: reports}, labels: {signadot.com/sandbox: reports}}
spec: {name: db, pluginName: mariadb@1.0.0, olm: {preStart: [{name: create, type: ExecUnit}]}}
`)
	condition := func(of, status, reason, message string, generation int64) crdv1.StatusCondition {
		return crdv1.StatusCondition{Type: of, Status: status, Reason: reason, Message: message, ObservedGeneration: generation, LastTransitionTime: metav1.Now()}
	}
	s.Status.Conditions = []crdv1.StatusCondition{
		condition(crdv1.ConditionReady, "False", "CrashLoopBackOff", "the fork of frontend crashes", s.Generation),
		condition(crdv1.ConditionCaveats, "True", "Caveats", "NetworkPolicy deny excludes the fork <b>.", s.Generation),
	}
	w.Must(w.Client.Status().Update(ctx, s))
	fork.Status.Conditions = []crdv1.StatusCondition{condition(crdv1.ConditionReady, "False", "CrashLoopBackOff", "Pod frontend-1: container web is crash-looping.", fork.Generation)}
	w.Must(w.Client.Status().Update(ctx, fork))
	r.Status.Conditions = []crdv1.StatusCondition{condition(crdv1.ConditionReady, "False", "StepFailed", "Step \"create\": the script ended with exit code 1.\nIts last lines:\nno answer", r.Generation)}
	r.Status.Create = []crdv1.WorkUnitStatus{{Name: "create", Phase: crdv1.UnitFailed, Attempt: 3, Reason: "ExitCode", Message: "the script ended with exit code 1"}}
	w.Must(w.Client.Status().Update(ctx, r))
}

// The page of a sandbox that is not ready has what its cluster reports now, with the rights of the person.
func TestReportsOfACluster(t *testing.T) {
	w := world.Shared(t)
	reported(w)
	s := newSite(t)
	name := spec.PluginName{Bare: "mariadb", Version: "1.0.0"}
	s.must(s.store.CreatePlugin(t.Context(), model.Plugin{Org: org, Name: name, Spec: []byte(`{}`)}, event("resourceplugin.apply")))
	o, err := s.store.PutSandbox(t.Context(), model.Sandbox{
		Org: org, Name: "reports", Cluster: "prod", RoutingKey: "key-of-reports", Plugins: map[string]spec.PluginName{"db": name, "cache": name},
		Spec: []byte(`{"cluster":"prod","forks":[{"forkOf":{"kind":"Deployment","namespace":"hotrod","name":"frontend"}}]}`),
	}, event("sandbox.apply"))
	s.must(err)
	s.observe(o, false, "CrashLoopBackOff", "the fork of frontend crashes")
	p := s.logIn(org, model.RoleMember)
	p.get("/sandboxes/reports").want(http.StatusOK, "frontend Unknown fork", "db Unknown", "is not connected")
	p.get("/resources").want(http.StatusOK, "db Unknown", "cache Unknown", "is not connected")

	s.reader = w.ClientWith(w.As("visitor"), kinds)
	p = s.logIn(org, model.RoleMember)
	p.shows("You lack rights")
	p.get("/sandboxes/reports").want(http.StatusOK, "the fork of frontend crashes", "You lack rights in cluster prod", "switchyard:controlplane:acme")
	p.get("/resources").want(http.StatusOK, "db Unknown", "You lack rights in cluster prod")

	w.Grant("jo", "", rbacv1.PolicyRule{APIGroups: []string{crdv1.Group}, Resources: []string{"signadotsandboxes"}, Verbs: []string{"get", "list"}})
	s.reader = w.ClientWith(w.As("jo"), kinds)
	p = s.logIn(org, model.RoleMember)
	p.shows("You lack rights")
	p.get("/sandboxes/reports").want(http.StatusOK, "The cluster also reports", "NetworkPolicy deny excludes the fork <b>.", "You lack rights in cluster prod", "frontend Unknown fork")

	s.reader = w.Client
	p = s.logIn(org, model.RoleMember)
	p.shows("the script ended with exit code 1")
	p.get("/sandboxes/reports").want(http.StatusOK, " frontend Not ready Pod frontend-1: container web is crash-looping. fork Deployment/hotrod/frontend",
		`db Failed Step "create": the script ended with exit code 1. Its last lines: no answer`, "Failed create attempt 3", "the script ended with exit code 1", "switchyard resource retry reports-db", "cache Unknown", "kubectl logs --previous").not("You lack rights", "not connected")
	p.get("/resources").want(http.StatusOK, "Cluster prod", `db Failed Step "create": the script ended`, "the script ended with exit code 1", "reports")
	for once, why := range map[string]string{
		"crash-looping": "Pod frontend-1: container web is crash-looping.",
		"exit code 1":   `Resource "db" failed: Step "create": the script ended with exit code 1. Correct the cause.`,
	} {
		s.observe(o, false, "CrashLoopBackOff", why)
		if text := p.get("/sandboxes/reports").want(http.StatusOK, why).read(); strings.Count(text, once) != 1 {
			t.Errorf("the page does not state %q once:\n%s", once, text)
		}
	}
	if by := s.readBy.Load(); by != p.user.Email+" member" {
		t.Errorf("the cluster is read as %v", by)
	}
}

// shows waits until the pages with reports have a text: the first read of a cluster can take longer than they wait.
func (p *person) shows(text string) {
	p.Helper()
	for _, path := range []string{"/sandboxes/reports", "/resources"} {
		wait.Eventually(p.T, patience, path+" has "+text, func() error {
			if a := p.get(path); !strings.Contains(a.read(), text) {
				return errors.New(a.read())
			}
			return nil
		})
	}
}

// slow is a reader of a cluster that takes until it is unlocked.
type slow struct {
	client.Reader
	*sync.RWMutex
}

func (s slow) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	s.RLock()
	defer s.RUnlock()
	return s.Reader.Get(ctx, key, o, opts...)
}

// While a cluster is slow, a page shows a change of the store at once, with the last report, and is fetched again soon.
func TestASlowClusterDelaysNoChange(t *testing.T) {
	s, at := newSite(t), slow{world.Shared(t).Client, &sync.RWMutex{}}
	o := s.fill()
	s.reader = at
	p := s.logIn(org, model.RoleMember)
	p.get("/sandboxes/checkout").want(http.StatusOK, "Not ready").not("data-every")
	at.Lock()
	s.observe(o, true, "", "")
	p.get("/sandboxes/checkout").want(http.StatusOK, "Ready").not("Not ready")
	if a := p.get("/sandboxes/checkout", "Switchyard-Fragment: 1"); !strings.Contains(a.text, `data-every="1"`) {
		t.Errorf("the page is not fetched again: %s", a.text)
	}
	at.Unlock()
	wait.Eventually(t, patience, "the page has a new report", func() error {
		if a := p.get("/sandboxes/checkout", "Switchyard-Fragment: 1"); strings.Contains(a.text, "data-every") {
			return errors.New(a.text)
		}
		return nil
	})
}

// counted counts reads of sandboxes in a cluster.
type counted struct {
	client.Reader
	reads *atomic.Int64
}

func (c counted) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	c.reads.Add(1)
	return c.Reader.Get(ctx, key, o, opts...)
}

// However many changes there are, a page reads its cluster at most once a second.
func TestManyChangesReadAClusterSeldom(t *testing.T) {
	s, at := newSite(t), counted{world.Shared(t).Client, &atomic.Int64{}}
	o := s.fill()
	s.reader = at
	p, began := s.logIn(org, model.RoleMember), time.Now()
	for i := range 20 {
		s.observe(o, i%2 == 0, "Pending", "waits")
		p.get("/sandboxes/checkout").want(http.StatusOK, "checkout")
	}
	if n, most := at.reads.Load(), 2+int64(time.Since(began).Seconds()); n > most {
		t.Errorf("%d reads; at most %d", n, most)
	}
}

// The state of a cluster is that of its session, at any replica.
func TestClusters(t *testing.T) {
	s := newSite(t)
	p, sessions, prod := s.logIn(org, model.RoleMember), store.Registry{Store: s.store}, registry.Cluster{Organisation: org, Name: "prod"}
	next := func(live bool) {
		t.Helper()
		e, err := sessions.Get(t.Context(), prod)
		s.must(err)
		was := e
		if e.Until = s.now(); live {
			e.Epoch, e.Until = e.Epoch+1, s.now().Add(patience)
		}
		is, err := sessions.Swap(t.Context(), prod, was, e)
		if s.must(err); !is {
			t.Fatal("the session is not written")
		}
	}
	p.get("/clusters").want(http.StatusOK, "prod Never connected")
	events := p.stream()
	_, err := events.next()
	s.must(err)
	for _, live := range []bool{true, false, true} {
		next(live)
		if _, err := events.next(); err != nil {
			t.Fatal(err)
		}
		if live {
			p.get("/clusters").want(http.StatusOK, "prod Connected")
			p.get("/").not("Cluster prod:")
		} else {
			p.get("/clusters").want(http.StatusOK, "prod Not connected", "just now")
			p.get("/").want(http.StatusOK, "Cluster prod: Its agent is not connected")
		}
	}
	s.must(s.store.ReportCluster(t.Context(), model.Cluster{Org: org, Name: "prod", OperatorVersion: "1.2.0 (switchyard 9)"}))
	p.get("/clusters").want(http.StatusOK, "1.2.0 (switchyard 9)")
}

// kinds are those of the operator.
func kinds() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	return scheme, crdv1.AddToScheme(scheme)
}
