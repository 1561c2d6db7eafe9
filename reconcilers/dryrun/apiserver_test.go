package dryrun_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/memory"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/dryrun"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/tests/background"
	"switchyard.dev/tests/world"
)

func TestMain(m *testing.M) { world.Main(m) }

// cluster is an API server with all controllers at work on it, and their log.
type cluster struct {
	*world.World
	ns  string
	log *memory.Log
	// meshes are those of the dry run.
	meshes dryrun.Meshes
}

// start runs all controllers until the test ends, and returns the test a namespace
// of its own.
func start(t *testing.T, ns string) *cluster {
	t.Helper()
	return on(t, world.Shared(t), ns, func(*manager.Config) {})
}

// started runs all controllers in a cluster of its own that has the kinds of meshes, and lets the test change the
// configuration.
func started(t *testing.T, ns string, change func(*manager.Config)) *cluster {
	t.Helper()
	w := world.New(t)
	w.DefineIstio()
	w.DefineGatewayAPI()
	return on(t, w, ns, change)
}

func on(t *testing.T, w *world.World, ns string, change func(*manager.Config)) *cluster {
	t.Helper()
	c := &cluster{World: w, ns: ns, log: memory.New()}
	c.Namespaces(ns, ns+"-operator")
	config := manager.Config{
		REST: c.As(""), Log: c.log, WithoutWebhook: true, SeveralInProcess: true,
		MetricsAddress: "0", HealthAddress: "0", Namespace: ns + "-operator", Logger: world.Quiet,
	}
	change(&config)
	main, err := manager.New(t.Context(), config)
	c.Must(err)
	background.Run(t, main.Run)
	c.Eventually("the log is whole", main.LogReady)
	return c
}

// baseline makes a Deployment with a Service.
func (c *cluster) baseline(name string) *appsv1.Deployment {
	c.Helper()
	d := c.deployment(name)
	c.Make(&corev1.Service{}, `
metadata: {name: `+name+`, namespace: `+c.ns+`}
spec: {selector: {app: `+name+`}, ports: [{name: http, port: 80, targetPort: http}, {name: gone, port: 81, targetPort: gone}]}`)
	return d
}

func (c *cluster) deployment(name string) *appsv1.Deployment {
	c.Helper()
	d := &appsv1.Deployment{}
	c.Make(d, `
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
	c.Helper()
	patches := ""
	for _, b := range baselines {
		patches += `
    - target: {apiVersion: apps/v1, kind: Deployment, namespace: ` + c.ns + `, name: ` + b + `}
      strategic: {spec: {template: {spec: {containers: [{name: main, image: "` + b + `:fork"}]}}}}`
	}
	s := &crdv1.SignadotSandbox{}
	c.Read(s, `
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
	c.Helper()
	have, ok := o.DeepCopyObject().(client.Object)
	if !ok {
		c.Fatalf("%T is no object", o)
	}
	wanted, ok := o.DeepCopyObject().(client.Object)
	if !ok {
		c.Fatalf("%T is no object", o)
	}
	c.Eventually("the object is applied", func() error {
		err := c.Client.Get(c.Context(), client.ObjectKeyFromObject(o), have)
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		if err != nil {
			return c.Client.Create(c.Context(), wanted)
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
		return c.Client.Update(c.Context(), have)
	})
}

// config is what a dry run is given: a client that has no cache and no index.
func (c *cluster) config() dryrun.Config {
	return dryrun.Config{Reader: c.user(""), OperatorNamespace: c.ns + "-operator", Meshes: c.meshes}
}

// said returns the newest fact of every key in the log.
func (c *cluster) said() map[event.Key]event.Fact {
	c.Helper()
	f, err := c.log.Follow(c.Context())
	c.Must(err)
	defer f.Close()
	tip, err := c.log.Tip(c.Context())
	c.Must(err)
	all := map[event.Key]event.Fact{}
	for at := uint64(0); at < tip.Seq; {
		facts, err := f.Next(c.Context())
		c.Must(err)
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
