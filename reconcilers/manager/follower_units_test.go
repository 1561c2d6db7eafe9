package manager_test

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/tests/world"
	"switchyard.dev/workflows/execunit"
)

// A replica that does not lead has its controllers' caches filled, to take over at once, and ends
// when one of them is not filled within two minutes.
func TestAReplicaThatDoesNotLeadWatchesPodsOfUnits(t *testing.T) {
	c := newCluster(t, "units-follower")
	config := manager.Config{LeaderElect: true, Workflows: manager.Workflows{Settings: execunit.Settings{
		InitImage: "io-init", SidecarImage: "io-sidecar", Address: "https://nowhere:8443", CA: "none", AuthorAsked: true,
	}}}
	c.manage(config)
	c.Eventually("the first leads", func() error { return c.main.LogReady() })

	var watches atomic.Int64
	config.REST = c.As("")
	config.REST.Wrap(func(rt http.RoundTripper) http.RoundTripper {
		return world.RoundTrip(func(r *http.Request) (*http.Response, error) {
			if q := r.URL.Query(); r.URL.Path == "/api/v1/pods" && q.Get("watch") != "" && strings.Contains(q.Get("labelSelector"), crdv1.LabelLifecycle) {
				watches.Add(1)
			}
			return rt.RoundTrip(r)
		})
	})
	c.manage(config)
	c.Eventually("the second watches them", func() error {
		if watches.Load() == 0 {
			return errors.New("it does not")
		}
		return nil
	})
	if c.main.LogReady() == nil {
		t.Error("the second leads")
	}
}
