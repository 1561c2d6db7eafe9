package manager_test

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/tests/apiserver"
	"switchyard.dev/tests/conformance/crd"
)

// patience is how long a test waits for what has to happen.
const patience = 30 * time.Second

// The one API server of all tests of the package, which has our CRDs, and the way
// to it.
var (
	environment *envtest.Environment
	server      *rest.Config
)

// quiet logs what may be wrong only.
var quiet = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))

// TestMain starts etcd and an API server once, since that takes longer than any
// test.
func TestMain(m *testing.M) {
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	ctrl.SetLogger(logr.FromSlogHandler(quiet.Handler()))
	var err error
	environment, err = apiServer()
	if err != nil {
		slog.Error("cannot start an API server", "error", err)
		return 1
	}
	server, err = environment.Start()
	if err != nil {
		slog.Error("cannot start the API server; run: go run -C tools/cluster . build --only apiserver", "error", err)
		return 1
	}
	server.QPS, server.Burst = 1000, 1000
	code := m.Run()
	if err := environment.Stop(); err != nil {
		slog.Error("cannot stop the API server", "error", err)
		return 1
	}
	return code
}

// apiServer returns which binaries to start and with which CRDs.
func apiServer() (*envtest.Environment, error) {
	root, err := crd.Root()
	if err != nil {
		return nil, err
	}
	crds, err := crd.Render(root, nil)
	if err != nil {
		return nil, err
	}
	return &envtest.Environment{BinaryAssetsDirectory: apiserver.Binaries(), CRDs: crds}, nil
}

// cluster is an API server with all controllers at work on it, and a log.
type cluster struct {
	t      testing.TB
	ns     string
	client client.Client
	log    *recordingLog
	writes *countingTransport
	ctx    context.Context
	// main is the manager that was started last.
	main *manager.Main
}

// start runs all controllers until the test ends, and returns the test a
// namespace of its own.
func start(t testing.TB, ns string) *cluster {
	t.Helper()
	c := world(t, ns)
	c.manage(manager.Config{})
	c.eventually("the routing log is whole", func() error { return c.main.LogReady() })
	return c
}

// world makes the test a namespace and a log, without any controller.
func world(t testing.TB, ns string) *cluster {
	t.Helper()
	c := &cluster{t: t, ns: ns, log: newRecordingLog(), writes: &countingTransport{}, ctx: t.Context()}
	scheme, err := manager.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	if c.client, err = client.New(server, client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	c.create(&corev1.Namespace{}, `{metadata: {name: `+ns+`}}`)
	c.create(&corev1.Namespace{}, `{metadata: {name: `+c.operator()+`}}`)
	return c
}

// operator is the namespace in which the operator lives.
func (c *cluster) operator() string { return c.ns + "-operator" }

// manage starts a manager, which ends when stop is called or the test ends.
func (c *cluster) manage(config manager.Config) (stop func()) {
	c.t.Helper()
	if config.REST == nil {
		config.REST = rest.CopyConfig(server)
	}
	config.REST.Wrap(c.writes.wrap)
	config.Log = c.log
	config.WithoutWebhook, config.SeveralInProcess = true, true
	config.MetricsAddress, config.HealthAddress = "0", "0"
	config.Namespace = c.operator()
	if config.Logger == nil {
		config.Logger = quiet
	}
	ctx, cancel := context.WithCancel(c.ctx)
	main, err := manager.New(ctx, config)
	if err != nil {
		c.t.Fatal(err)
	}
	c.main = main
	done := make(chan error, 1)
	go func() { done <- main.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			c.t.Errorf("the manager ended: %v", err)
		}
	})
	c.t.Cleanup(stop)
	return stop
}
