package gatewayadapter_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	kubernetesscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayv1beta1 "sigs.k8s.io/gateway-api/apis/v1beta1"

	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/logtest"
	"switchyard.dev/eventbus/memory"
	crdv1 "switchyard.dev/protos/crd/v1"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/meshes"
	"switchyard.dev/reconcilers/meshes/gatewayadapter"
	"switchyard.dev/reconcilers/meshes/gatewayapi"
	"switchyard.dev/reconcilers/optional"
	"switchyard.dev/reconcilers/policies"
	"switchyard.dev/reconcilers/policyreader"
	"switchyard.dev/routeserver/table"
	"switchyard.dev/tests/background"
	"switchyard.dev/tests/world"
	"switchyard.dev/xds/xdstest"
)

func TestMain(m *testing.M) { world.Main(m) }

// cluster is an API server with routes of the Gateway API, and an elected adapter.
type cluster struct {
	*world.World
	ns   string
	log  *memory.Log
	main *gatewayadapter.Adapter
	// settings are its settings, and stop ends it.
	settings gatewayadapter.Settings
	stop     func()
	// virtualServices: the operator routes by these as well.
	virtualServices bool
	// writes are those of the adapter; before is called before each, and after once it is answered,
	// if not nil.
	writes        atomic.Int64
	before, after func(*http.Request)
	// routes reads and writes the owners' objects.
	routes client.WithWatch
}

func kinds() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	return s, errors.Join(kubernetesscheme.AddToScheme(s), crdv1.AddToScheme(s))
}

func gatewayKinds() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	return s, errors.Join(gatewayv1.Install(s), gatewayv1beta1.Install(s))
}

// start runs an adapter, with a Service in a namespace of the test's own.
func start(t *testing.T, w *world.World, settings gatewayadapter.Settings) *cluster {
	t.Helper()
	return startAs(t, w, settings, "admin", "system:masters")
}

// startAs starts it as a user in these groups.
func startAs(t *testing.T, w *world.World, settings gatewayadapter.Settings, user string, groups ...string) *cluster {
	t.Helper()
	c := &cluster{World: w.In(t), log: memory.New(), settings: settings}
	c.routes = c.ClientWith(c.Config, gatewayKinds)
	c.ns = c.NewNamespace("mesh")
	_, err := c.log.Begin(t.Context(), event.Mark{})
	c.Must(err)
	c.service("customer")
	c.run(user, groups...)
	return c
}

// service makes a Service with a port.
func (c *cluster) service(name string) {
	c.Helper()
	c.Create(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: c.ns, Name: name}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 8081}}}})
}

// run runs an adapter until stop is called or the test ends.
func (c *cluster) run(user string, groups ...string) {
	c.Helper()
	access := c.As(user, groups...)
	access.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return world.RoundTrip(func(q *http.Request) (*http.Response, error) {
			if q.Method == http.MethodGet {
				return next.RoundTrip(q)
			}
			c.writes.Add(1)
			if c.before != nil {
				c.before(q)
			}
			answer, err := next.RoundTrip(q)
			if c.after != nil {
				c.after(q)
			}
			return answer, err
		})
	})
	var read []optional.Kind
	for kind, definition := range gatewayadapter.Definitions {
		read = append(read, optional.Kind{GroupVersionKind: kind, Definition: definition})
	}
	read = append(read, optional.Kind{GroupVersionKind: baseline.RolloutKind(), Definition: baseline.RolloutDefinition})
	read = append(read, policyreader.Optional(policies.OfRoutes(policies.Kinds(nil)))...)
	all, err := optional.New(optional.Config{REST: access, Logger: world.Quiet, Kinds: read})
	c.Must(err)
	stopKinds := background.Run(c, all.Start)
	elected, again := make(chan struct{}), make(chan ctrlevent.GenericEvent)
	close(elected)
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
	c.main, err = gatewayadapter.New(gatewayadapter.Config{
		Config: meshes.Config{
			Log: c.log, Client: optional.Client{Client: c.ClientWith(access, kinds), Kinds: all}, Kinds: all, Elected: elected, Again: again, Logger: world.Quiet,
		},
		Settings: c.settings, VirtualServices: c.virtualServices,
	})
	c.Must(err)
	stop := background.Run(c, c.main.Start)
	c.stop = func() { stop(); stopKinds() }
}

// state puts facts on the log.
func (c *cluster) state(facts ...event.Fact) {
	c.Helper()
	c.Must(logtest.Put(c.Context(), c.log, facts...))
}

// fork puts a sandbox with a routing key for Service customer on the log, creates the Service of its
// fork, and returns the name of that Service.
func (c *cluster) fork(key string) (service string) {
	c.Helper()
	f := xdstest.Fork{
		Baseline: table.Workload{Kind: "Deployment", Namespace: c.ns, Name: "customer"}, Key: key, Sandbox: crdv1.ObjectName(40, "of", key),
		Port: 8080, Destination: netip.MustParseAddrPort("10.0.0.9:8081"),
	}
	observed, declared := f.Facts()
	service = observed.Data.(*factv1.WorkloadObserved).GetServices()[0].GetTo()
	if err := c.Client.Get(c.Context(), client.ObjectKey{Namespace: c.ns, Name: service}, &corev1.Service{}); err != nil {
		c.service(service)
	}
	c.state(observed, declared, event.Fact{Key: event.Log, Data: &factv1.Complete{Reason: "test"}})
	return service
}

// sandbox does so, and asks for routes as a RoutingConfig does.
func (c *cluster) sandbox(key string) (service string) {
	c.Helper()
	service = c.fork(key)
	c.ask(key, service)
	return service
}

// ask makes a GatewayAPIRoute as a RoutingConfig does.
func (c *cluster) ask(key, service string) *crdv1.GatewayAPIRoute {
	c.Helper()
	o := &crdv1.GatewayAPIRoute{
		ObjectMeta: metav1.ObjectMeta{Name: crdv1.ObjectName(crdv1.MaxObjectName, c.ns, key), OwnerReferences: []metav1.OwnerReference{{
			APIVersion: crdv1.APIVersion, Kind: crdv1.KindRoutingConfig, Name: key, UID: "of-nobody", Controller: new(true),
		}}},
		Spec: crdv1.IstioRouteSpec{RoutingKey: key, Managed: crdv1.ManagedIstioRoute{
			Namespace: c.ns, TargetService: "customer",
			Baseline:          crdv1.IstioRouteBaseline{WorkloadBaseline: crdv1.WorkloadBaseline{WorkloadID: "u"}, WorkloadRef: crdv1.WorkloadRef{Kind: "Deployment", Namespace: c.ns, Name: "customer"}},
			Mappings:          []crdv1.IstioPortMapping{{FromPort: 8081, ToService: service, WorkloadPort: 8080}},
			SandboxedWorkload: crdv1.SandboxedWorkloadRef{Kind: crdv1.KindForkedWorkload, Namespace: c.ns, Name: "f"},
		}},
	}
	c.Create(o)
	c.main.Changed(o)
	return o
}

// withdraw takes a sandbox off the log.
func (c *cluster) withdraw(key string) {
	c.Helper()
	c.state(event.Fact{Key: event.RoutingKey(key), Data: &factv1.RoutingWithdrawn{RoutingKey: key}})
}

// httpRoute creates an HTTPRoute to a Service.
func (c *cluster) httpRoute(name, service string) *gatewayv1.HTTPRoute {
	c.Helper()
	r := &gatewayv1.HTTPRoute{}
	c.makeRoute(r, `{metadata: {name: `+name+`, namespace: `+c.ns+`, labels: {team: shop, app: x}},
  spec: {parentRefs: [{name: edge}], hostnames: [shop.test], rules: [{matches: [{path: {type: PathPrefix, value: /api}}], timeouts: {request: 3s}, backendRefs: [{name: `+service+`, port: 8081}]}]}}`)
	return r
}

// edit has the owner change an HTTPRoute.
func (c *cluster) edit(r *gatewayv1.HTTPRoute, change func(r *gatewayv1.HTTPRoute)) {
	c.Helper()
	c.Eventually("the owner changes his route", func() error {
		if err := c.routes.Get(c.Context(), client.ObjectKeyFromObject(r), r); err != nil {
			return err // it can be about to be made again
		}
		change(r)
		return c.routes.Update(c.Context(), r)
	})
}

// makeRoute makes a route from YAML.
func (c *cluster) makeRoute(o client.Object, text string) {
	c.Helper()
	u := &unstructured.Unstructured{}
	c.Read(u, text)
	c.Must(runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, o))
	c.Must(c.routes.Create(c.Context(), o))
}

// derivedOf returns the HTTPRoutes that are derived for a key.
func (c *cluster) derivedOf(key string) []gatewayv1.HTTPRoute {
	c.Helper()
	var all gatewayv1.HTTPRouteList
	c.Must(c.routes.List(c.Context(), &all, client.InNamespace(c.ns), client.MatchingLabels{gatewayapi.LabelRoutingKey: key}))
	return all.Items
}

// derives waits for the one HTTPRoute that is derived for a key, of which something holds.
func (c *cluster) derives(key, what string, holds func(r *gatewayv1.HTTPRoute) bool) *gatewayv1.HTTPRoute {
	c.Helper()
	var out gatewayv1.HTTPRoute
	c.Eventually("an HTTPRoute is derived: "+what, func() error {
		all := c.derivedOf(key)
		if len(all) != 1 {
			return fmt.Errorf("there are %d; the report is %+v", len(all), c.report(key))
		}
		if out = all[0]; holds != nil && !holds(&out) {
			return fmt.Errorf("it is %+v", out)
		}
		return nil
	})
	return &out
}

// report returns the report of Service customer and a key.
func (c *cluster) report(key string) gatewayadapter.Report {
	return c.main.Report(meshes.Target{Key: key, Namespace: c.ns, Service: "customer"})
}

// says waits until holds returns true for the report of a key.
func (c *cluster) says(key, what string, holds func(r gatewayadapter.Report) bool) {
	c.Helper()
	c.Eventually("the report says "+what, func() error {
		if r := c.report(key); !holds(r) {
			return fmt.Errorf("it is %+v (lost: %+v, trouble: %+v)", r, r.Lost, r.Trouble)
		}
		return nil
	})
}

// isDerived reports whether all matches are derived and nothing is lost.
func isDerived(r gatewayadapter.Report) bool {
	for _, m := range r.Matches {
		if m.Status != gatewayapi.StatusDerived {
			return false
		}
	}
	return r.Synced && r.Trouble == nil && r.Lost == nil && len(r.Matches) > 0
}

// none waits until nothing is derived for a key, and that is known.
func (c *cluster) none(key string) {
	c.Helper()
	c.Eventually("nothing is derived for "+key, func() error {
		if n := len(c.derivedOf(key)); n > 0 || !c.main.Settled(key) {
			return fmt.Errorf("there are %d; settled: %t", n, c.main.Settled(key))
		}
		return nil
	})
}
