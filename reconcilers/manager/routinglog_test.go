package manager_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/publisher"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/reconcilers/publish"
	"switchyard.dev/tests/world"
)

// witness reads what the API server keeps of the routing log.
func (c *cluster) witness() publisher.Witness {
	c.Helper()
	w, err := publish.Epochs{Reader: c.Client, Writer: c.Client, Namespace: c.operator()}.Load(c.Context())
	c.Must(err)
	return w
}

// measured returns the manager's own metrics, by name and labels.
func measured(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetName() + "=" + l.GetValue()
			}
			out[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return out
}

// TestAStoreThatWasAlteredIsNoticedAtTheNextStart: what the API server keeps of
// the log is exact after a planned end, so the last event cannot be taken away
// unnoticed; and people are told, in the ConfigMap and in metrics.
func TestAStoreThatWasAlteredIsNoticedAtTheNextStart(t *testing.T) {
	const ns = "witness"
	c := newCluster(t, ns)
	// An older version has left a position without a checksum.
	c.Make(&corev1.ConfigMap{}, `{metadata: {name: `+publish.EpochConfigMap+`, namespace: `+c.operator()+`, labels: {of: chart}}, data: {epoch: old, sequence: "7"}}`)
	stop := c.manage(manager.Config{})
	c.Eventually("the routing log is whole", c.main.LogReady)
	c.sandbox("witness", `{id: witness}`)
	c.Eventually("its key is declared", func() error {
		if c.log.fact(event.RoutingKey("witness")) == nil {
			return errors.New("it is not")
		}
		return nil
	})
	stop()
	saved := c.witness()
	newest, _, err := c.log.Newest(t.Context(), event.RoutingKey("witness"))
	if err != nil {
		t.Fatal(err)
	}
	tip, err := c.log.Tip(t.Context())
	if err != nil || saved.Mark.Pos != tip || saved.Mark.Chain == (event.Chain{}) || saved.Since.IsZero() || saved.Before != "old" {
		t.Fatalf("saved is %+v, and the log ends at %v: %v", saved, tip, err)
	}

	c.log.store.Damage(newest.Pos.Seq, func(m *event.Message) { m.Data = []byte(`{"routingKey":"witness"}`) })
	registry := prometheus.NewRegistry()
	stop = c.manage(manager.Config{Metrics: registry})
	c.Eventually("a new epoch is whole", func() error {
		now, err := c.log.Tip(t.Context())
		if err != nil || now.Epoch == saved.Mark.Epoch {
			return fmt.Errorf("it is at %v: %w", now, errors.Join(err))
		}
		return c.main.LogReady()
	})
	values := measured(t, registry)
	if n := values["switchyard_routing_log_epochs_ended_total reason=damaged"]; n != 1 || values["switchyard_routing_log_whole"] != 1 {
		t.Errorf("measured: %v", values)
	}
	stop()
	now := c.witness()
	if now.Before != saved.Mark.Epoch || !strings.Contains(now.Ended, "damaged") || time.Since(now.Since) > time.Hour {
		t.Errorf("saved is %+v", now)
	}
	if began, ok := values["switchyard_routing_log_epoch_began_timestamp_seconds epoch="+now.Mark.Epoch]; !ok || began == 0 {
		t.Errorf("measured: %v", values)
	}
	var kept corev1.ConfigMap
	if err := c.Client.Get(c.Context(), client.ObjectKey{Namespace: c.operator(), Name: publish.EpochConfigMap}, &kept); err != nil || kept.Labels["of"] != "chart" {
		t.Errorf("what else the ConfigMap had is gone: %v, %v", kept.Labels, err)
	}
}

func TestTwoManagersInOneProcessNeedARegistryEach(t *testing.T) {
	c := newCluster(t, "registry")
	registry := prometheus.NewRegistry()
	config := manager.Config{
		REST: c.As(""), Log: c.log, WithoutWebhook: true, SeveralInProcess: true, Metrics: registry,
		MetricsAddress: "0", HealthAddress: "0", Namespace: "registry", Logger: world.Quiet,
	}
	if _, err := manager.New(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	if _, err := manager.New(t.Context(), config); err == nil || !strings.Contains(err.Error(), "registry") {
		t.Errorf("the second one is made: %v", err)
	}
	config.Metrics = nil
	for range 2 {
		if _, err := manager.New(t.Context(), config); err != nil {
			t.Error(err)
		}
	}
}

// TestOneObjectThatFailsForGoodDoesNotHoldBackTheRoutesOfOthers: the API server
// answers every write of one object with an error.
func TestOneObjectThatFailsForGoodDoesNotHoldBackTheRoutesOfOthers(t *testing.T) {
	const ns = "patience"
	c := newCluster(t, ns)
	for _, name := range []string{"patience-broken", "patience-fine"} {
		c.Create(newConfig(name))
	}
	var mended atomic.Bool
	access := c.As("")
	access.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return world.RoundTrip(func(r *http.Request) (*http.Response, error) {
			if !mended.Load() && r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/patience-broken") {
				return nil, errors.New("this object cannot be written")
			}
			return next.RoundTrip(r)
		})
	})
	registry := prometheus.NewRegistry()
	c.manage(manager.Config{REST: access, Patience: 200 * time.Millisecond, Metrics: registry})
	c.Eventually("the routing log is whole", c.main.LogReady)
	if c.log.fact(event.RoutingKey("patience-fine")) == nil || c.log.fact(event.RoutingKey("patience-broken")) != nil {
		t.Error("the log says nothing of the one that is fine, or something of the one that is not")
	}
	if n := measured(t, registry)["switchyard_routing_log_unsettled_objects"]; n != 1 {
		t.Errorf("objects that are not waited for: %v", n)
	}
	mended.Store(true)
	c.Eventually("it is declared once it can be", func() error {
		if c.log.fact(event.RoutingKey("patience-broken")) == nil {
			return errors.New("it is not")
		}
		return nil
	})
}

// TestAKeyThatNoHeaderCanCarryHoldsNothingBack: the client makes no such RoutingConfig, but
// `kubectl apply` does, and an operator that then starts with a new log has to come up.
func TestAKeyThatNoHeaderCanCarryHoldsNothingBack(t *testing.T) {
	const ns = "uncarried"
	c := newCluster(t, ns)
	config := newConfig("uncarried")
	config.Annotations = map[string]string{crdv1.AnnotationRoutingKey: "uncarried,"}
	c.Create(config)
	registry := prometheus.NewRegistry()
	c.manage(manager.Config{Patience: time.Hour, Metrics: registry})
	c.Eventually("the routing log is whole", c.main.LogReady)
	if n := measured(t, registry)["switchyard_routing_log_unsettled_objects"]; n != 0 {
		t.Errorf("objects that are not waited for: %v", n)
	}
	if c.log.fact(event.RoutingKey("uncarried,")) != nil {
		t.Error("it is declared")
	}
}

// TestTheHistoryOfTheRoutingLogIsBounded lets real controllers change one object
// until the log has forgotten its beginning.
func TestTheHistoryOfTheRoutingLogIsBounded(t *testing.T) {
	const ns = "history"
	c := newCluster(t, ns)
	c.manage(manager.Config{History: publisher.Bounds{Events: 8}})
	c.Eventually("the routing log is whole", c.main.LogReady)
	still := c.sandbox("history-still", `{id: history-still}`)
	config := newConfig("history-busy")
	c.Create(config)
	members := 0
	c.Eventually("the beginning is forgotten", func() error {
		members++
		world.Edit(c.World, config, func(o *configOf) { o.Spec.SandboxedWorkloads = membersOf(ns, members%3) })
		kept, err := c.log.Kept(t.Context())
		if err != nil || kept.Floor.Seq < 10 {
			return fmt.Errorf("it keeps %+v: %w", kept, errors.Join(err))
		}
		return nil
	})
	kept, err := c.log.Kept(t.Context())
	if err != nil || kept.Tip.Seq+1-kept.Floor.Seq < 8 {
		t.Errorf("it keeps %+v: %v", kept, err)
	}
	if _, ok, err := c.log.Newest(t.Context(), event.RoutingKey(still.Spec.ID)); err != nil || !ok {
		t.Errorf("the fact of an object that did not change is gone: %v", err)
	}
}

// configOf is a RoutingConfig.
type configOf = crdv1.RoutingConfig

func newConfig(name string) *configOf {
	return &configOf{
		ObjectMeta: named(name),
		Spec:       crdv1.RoutingConfigSpec{SandboxedWorkloads: []crdv1.SandboxedWorkload{}},
	}
}

// membersOf names so many ForkedWorkloads, which need not exist.
func membersOf(ns string, n int) []crdv1.SandboxedWorkload {
	out := []crdv1.SandboxedWorkload{}
	for i := range n {
		out = append(out, crdv1.SandboxedWorkload{SandboxedWorkloadRef: crdv1.SandboxedWorkloadRef{
			Kind: crdv1.KindForkedWorkload, Namespace: ns, Name: fmt.Sprint("member-", i),
		}})
	}
	return out
}

// Half of its room is what a log may take before it forgets what it is to keep. People are
// told, where they look for the log, and what to do.
func TestACrowdedLogRecordsAnEvent(t *testing.T) {
	const ns = "crowded"
	c := newCluster(t, ns)
	registry := prometheus.NewRegistry()
	c.manage(manager.Config{Metrics: registry})
	c.Eventually("the routing log is whole", func() error { return c.main.LogReady() })
	if n := measured(t, registry)["switchyard_routing_log_crowded"]; n != 0 {
		t.Errorf("the log is said to be crowded: %v", n)
	}
	kept, err := c.log.Kept(c.Context())
	if err != nil {
		t.Fatal(err)
	}
	c.log.mu.Lock()
	c.log.room = kept.Bytes*2 - 2
	c.log.mu.Unlock()
	c.Eventually("an Event says so", func() error {
		var all corev1.EventList
		if err := c.Client.List(c.Context(), &all, client.InNamespace(c.operator())); err != nil {
			return err
		}
		for _, e := range all.Items {
			if e.Reason == "RoutingLogCrowded" && e.InvolvedObject.Kind == "ConfigMap" && e.InvolvedObject.Name == publish.EpochConfigMap &&
				e.InvolvedObject.UID != "" && strings.Contains(e.Message, "eventBus.history.size") {
				return nil
			}
		}
		return fmt.Errorf("there are %d Events", len(all.Items))
	})
	if m := measured(t, registry); m["switchyard_routing_log_crowded"] != 1 || m["switchyard_routing_log_max_bytes"] == 0 {
		t.Errorf("measured: %v", m)
	}
}
