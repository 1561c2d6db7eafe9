package dryrun_test

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/memory"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/dryrun"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/tests/apiserver"
	"switchyard.dev/tests/wait"
)

// patience is how long a test waits for what has to happen.
const patience = 30 * time.Second

// server reaches the one API server of all tests of the package.
var server *rest.Config

var quiet = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))

// TestMain starts etcd and an API server once, since that takes longer than any
// test.
func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	ctrl.SetLogger(logr.FromSlogHandler(quiet.Handler()))
	s, err := apiserver.Start()
	if err != nil {
		slog.Error("cannot start", "error", err)
		return 1
	}
	server = s.Config
	code := m.Run()
	if err := s.Stop(); err != nil {
		slog.Error("cannot stop the API server", "error", err)
		return 1
	}
	return code
}

// cluster is an API server with all controllers at work on it, and their log.
type cluster struct {
	t      *testing.T
	ns     string
	client client.Client
	log    *memory.Log
}

// start runs all controllers until the test ends, and returns the test a namespace
// of its own.
func start(t *testing.T, ns string) *cluster {
	t.Helper()
	scheme, err := dryrun.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{t: t, ns: ns, log: memory.New()}
	if c.client, err = client.New(server, client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	c.create(&corev1.Namespace{}, `{metadata: {name: `+ns+`}}`)
	c.create(&corev1.Namespace{}, `{metadata: {name: `+ns+`-operator}}`)
	main, err := manager.New(t.Context(), manager.Config{
		REST: rest.CopyConfig(server), Log: c.log, WithoutWebhook: true, SeveralInProcess: true,
		MetricsAddress: "0", HealthAddress: "0", Namespace: ns + "-operator", Logger: quiet,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- main.Run(ctx) }()
	t.Cleanup(sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the manager ended: %v", err)
		}
	}))
	c.eventually("the log is whole", main.LogReady)
	return c
}

func (c *cluster) create(o client.Object, text string) {
	c.t.Helper()
	c.read(o, text)
	if err := c.client.Create(c.t.Context(), o); err != nil {
		c.t.Fatalf("create %T: %v", o, err)
	}
}

func (c *cluster) read(o client.Object, text string) {
	c.t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), o); err != nil {
		c.t.Fatalf("%v in:\n%s", err, text)
	}
}

// baseline makes a Deployment with a Service.
func (c *cluster) baseline(name string) *appsv1.Deployment {
	c.t.Helper()
	d := c.deployment(name)
	c.create(&corev1.Service{}, `
metadata: {name: `+name+`, namespace: `+c.ns+`}
spec: {selector: {app: `+name+`}, ports: [{name: http, port: 80, targetPort: http}, {name: gone, port: 81, targetPort: gone}]}`)
	return d
}

func (c *cluster) deployment(name string) *appsv1.Deployment {
	c.t.Helper()
	d := &appsv1.Deployment{}
	c.create(d, `
metadata: {name: `+name+`, namespace: `+c.ns+`, labels: {app: `+name+`}}
spec:
  selector: {matchLabels: {app: `+name+`}}
  template:
    metadata: {labels: {app: `+name+`}, annotations: {sidecar.signadot.com/inject: "true"}}
    spec: {containers: [{name: main, image: "`+name+`:1", ports: [{name: http, containerPort: 8080}]}]}`)
	return d
}

// sandbox is a sandbox that forks these Deployments.
func (c *cluster) sandbox(name, id string, baselines ...string) *crdv1.SignadotSandbox {
	c.t.Helper()
	patches := ""
	for _, b := range baselines {
		patches += `
    - target: {apiVersion: apps/v1, kind: Deployment, namespace: ` + c.ns + `, name: ` + b + `}
      strategic: {spec: {template: {spec: {containers: [{name: main, image: "` + b + `:fork"}]}}}}`
	}
	s := &crdv1.SignadotSandbox{}
	c.read(s, `
apiVersion: signadot.com/v1
kind: SignadotSandbox
metadata: {name: `+name+`}
spec:
  id: `+id+`
  customization:
    patches:`+patches)
	return s
}

// apply makes the object as a person would, or changes it.
func (c *cluster) apply(o client.Object) {
	c.t.Helper()
	have, ok := o.DeepCopyObject().(client.Object)
	if !ok {
		c.t.Fatalf("%T is no object", o)
	}
	wanted, ok := o.DeepCopyObject().(client.Object)
	if !ok {
		c.t.Fatalf("%T is no object", o)
	}
	c.eventually("the object is applied", func() error {
		err := c.client.Get(c.t.Context(), client.ObjectKeyFromObject(o), have)
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		if err != nil {
			return c.client.Create(c.t.Context(), wanted)
		}
		switch have := have.(type) {
		case *crdv1.SignadotSandbox:
			have.Spec = o.(*crdv1.SignadotSandbox).Spec
		case *crdv1.RoutingConfig:
			have.Spec = o.(*crdv1.RoutingConfig).Spec
		case *crdv1.SignadotRouteGroup:
			have.Spec = o.(*crdv1.SignadotRouteGroup).Spec
		case *crdv1.ForkedWorkload:
			have.Spec = o.(*crdv1.ForkedWorkload).Spec
		}
		return c.client.Update(c.t.Context(), have)
	})
}

func (c *cluster) remove(o client.Object) {
	c.t.Helper()
	if err := c.client.Delete(c.t.Context(), o); err != nil {
		c.t.Fatal(err)
	}
}

// config is what a dry run is given: a client that has no cache and no index.
func (c *cluster) config() dryrun.Config {
	return dryrun.Config{Reader: c.client, OperatorNamespace: c.ns + "-operator"}
}

// eventually waits until check gives nil.
func (c *cluster) eventually(what string, check func() error) {
	c.t.Helper()
	wait.Eventually(c.t, patience, what, check)
}

// said returns the newest fact of every key that the log has now.
func (c *cluster) said() map[event.Key]event.Fact {
	c.t.Helper()
	f, err := c.log.Follow(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	defer f.Close()
	tip, err := c.log.Tip(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	all := map[event.Key]event.Fact{}
	for at := uint64(0); at < tip.Seq; {
		facts, err := f.Next(c.t.Context())
		if err != nil {
			c.t.Fatal(err)
		}
		for _, r := range facts {
			all[r.Fact.Key], at = r.Fact, r.Pos.Seq
		}
	}
	return all
}

// describe returns changes and findings as text.
func describe(p dryrun.Plan) (changes, findings []string) {
	for _, c := range p.Changes {
		changes = append(changes, fmt.Sprintf("%s %s", c.Action, c.Object.Kind))
	}
	for _, f := range p.Findings {
		findings = append(findings, fmt.Sprintf("%s %s=%s %s", f.Object.Kind, f.Type, f.Status, f.Reason))
	}
	slices.SortFunc(changes, cmp.Compare[string])
	return changes, findings
}
