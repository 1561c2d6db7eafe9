package manager_test

import (
	"context"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"switchyard.dev/eventbus/memory"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/tests/apiserver"
	"switchyard.dev/tests/conformance/crd"
)

func TestTheManagerWaitsForTheCustomResourcesOfItsChart(t *testing.T) {
	bare := &envtest.Environment{BinaryAssetsDirectory: apiserver.Binaries()}
	access, err := bare.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := bare.Stop(); err != nil {
			t.Error(err)
		}
	})
	config := manager.Config{
		REST: access, Log: memory.New(), WithoutWebhook: true, SeveralInProcess: true, MetricsAddress: "0", HealthAddress: "0",
	}
	impatient, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if _, err := manager.New(impatient, config); err == nil {
		t.Fatal("a manager was made without custom resources")
	}
	made := make(chan error, 1)
	go func() {
		_, err := manager.New(t.Context(), config)
		made <- err
	}()
	install(t, clientFor(t, bare))
	select {
	case err := <-made:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Error("the manager is not made although the custom resources are there")
	}
}

// clientFor returns a client that knows CRDs.
func clientFor(t *testing.T, e *envtest.Environment) client.Client {
	t.Helper()
	scheme, err := manager.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(e.Config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// install creates the chart's CRDs.
func install(t *testing.T, c client.Client) {
	t.Helper()
	root, err := crd.Root()
	if err != nil {
		t.Fatal(err)
	}
	all, err := crd.Render(root, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range all {
		if err := c.Create(t.Context(), one); err != nil && !strings.Contains(err.Error(), "already exists") {
			t.Fatal(err)
		}
	}
}
