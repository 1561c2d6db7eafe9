package manager_test

import (
	"context"
	"testing"
	"time"

	"switchyard.dev/eventbus/memory"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/tests/conformance/crd"
	"switchyard.dev/tests/world"
)

func TestTheManagerWaitsForTheCustomResourcesOfItsChart(t *testing.T) {
	c := world.Bare(t)
	config := manager.Config{
		REST: c.As(""), Log: memory.New(), WithoutWebhook: true, SeveralInProcess: true, MetricsAddress: "0", HealthAddress: "0",
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
	install(c)
	select {
	case err := <-made:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Error("the manager is not made although the custom resources are there")
	}
}

// install creates the chart's CRDs.
func install(w *world.World) {
	w.Helper()
	root, err := crd.Root()
	w.Must(err)
	all, err := crd.Render(root, nil)
	w.Must(err)
	for _, one := range all {
		w.Create(one)
	}
}
