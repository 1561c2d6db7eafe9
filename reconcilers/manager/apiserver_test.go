package manager_test

import (
	"flag"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/tests/background"
	"switchyard.dev/tests/world"
)

// patience is how long a test waits for what has to happen.
const patience = world.Patience

func TestMain(m *testing.M) {
	flag.Parse()
	background.AtOnce(8)
	world.Main(m)
}

// cluster is an API server with all controllers at work on it, and a log.
type cluster struct {
	*world.World
	ns     string
	log    *facts
	writes *countingTransport
	// shares is true if the manager is that of other tests too.
	shares bool
	// main is the manager that was started last.
	main *manager.Main
}

// start runs all controllers until the test ends, and returns the test a
// namespace of its own. Tests that need no manager of their own call shared.
func start(t testing.TB, ns string) *cluster {
	t.Helper()
	c := newCluster(t, ns)
	c.manage(manager.Config{})
	c.Eventually("the routing log is whole", func() error { return c.main.LogReady() })
	return c
}

// newCluster makes the test a namespace and a log, without any controller.
func newCluster(t testing.TB, ns string) *cluster {
	t.Helper()
	return furnish(worldFor(t, ns), ns)
}

// ownCluster does so on an API server for one test, since draining empties all of it. Such a test can
// be parallel.
func ownCluster(t *testing.T, ns string) *cluster {
	t.Helper()
	return furnish(world.New(t), ns)
}

func furnish(w *world.World, ns string) *cluster {
	w.Helper()
	c := &cluster{World: w, ns: ns, log: newFacts(), writes: &countingTransport{}}
	c.Namespaces(ns, c.operator())
	return c
}

// operator is the namespace in which the operator lives.
func (c *cluster) operator() string {
	if c.shares {
		return sharedOperator
	}
	return c.ns + "-operator"
}

// program returns a client that knows what our programs know.
func (c *cluster) program() client.Client {
	c.Helper()
	return c.ClientWith(c.As(""), manager.Scheme)
}

// manage starts a manager, which ends when stop is called or the test ends.
func (c *cluster) manage(config manager.Config) (stop func()) {
	c.Helper()
	if config.REST == nil {
		config.REST = c.As("")
	}
	config.REST.Wrap(c.writes.wrap)
	config.Log = c.log
	config.WithoutWebhook, config.SeveralInProcess = true, true
	config.MetricsAddress, config.HealthAddress = "0", "0"
	config.Namespace = c.operator()
	if config.Logger == nil {
		config.Logger = world.Quiet
	}
	main, err := manager.New(c.Context(), config)
	c.Must(err)
	c.main = main
	return background.Run(c, main.Run)
}
