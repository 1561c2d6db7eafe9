package manager_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/tests/conformance/crd"
)

// patience is how long a test waits for what has to happen.
const patience = 30 * time.Second

// server is a real API server that has our CRDs, for all tests of the package.
var server *rest.Config

// TestMain starts etcd and an API server once, since that takes longer than any
// test.
func TestMain(m *testing.M) {
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	ctrl.SetLogger(logr.FromSlogHandler(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
	environment, err := apiServer()
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

// apiServer says which binaries to start and with which CRDs.
func apiServer() (*envtest.Environment, error) {
	root, err := crd.Root()
	if err != nil {
		return nil, err
	}
	crds, err := crd.Render(root, nil)
	if err != nil {
		return nil, err
	}
	folder := os.Getenv("KUBEBUILDER_ASSETS")
	if folder == "" {
		cache := os.Getenv("SWITCHYARD_CACHE")
		if cache == "" {
			user, err := os.UserCacheDir()
			if err != nil {
				return nil, err
			}
			cache = filepath.Join(user, "switchyard")
		}
		folder = filepath.Join(cache, "bin", "current")
	}
	return &envtest.Environment{BinaryAssetsDirectory: folder, CRDs: crds}, nil
}

// cluster is an API server with all controllers at work on it, and a log.
type cluster struct {
	t      *testing.T
	client client.Client
	log    *recordingLog
	writes *countingTransport
	ctx    context.Context
}

// start runs all controllers until the test ends, and gives the test a
// namespace of its own, named like ns.
func start(t *testing.T, ns string) *cluster {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	c := &cluster{t: t, log: newRecordingLog(), writes: &countingTransport{}, ctx: ctx}

	scheme, err := manager.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	if c.client, err = client.New(server, client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	c.create(&corev1.Namespace{}, `{metadata: {name: `+ns+`}}`)
	counted := rest.CopyConfig(server)
	counted.Wrap(c.writes.wrap)
	main, err := manager.New(ctx, manager.Config{
		REST:             counted,
		Log:              c.log,
		WithoutWebhook:   true,
		Namespace:        ns,
		MetricsAddress:   "0",
		HealthAddress:    "0",
		SeveralInProcess: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- main.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the manager ended: %v", err)
		}
	})
	c.eventually("the routing log is whole", main.LogReady)
	return c
}
