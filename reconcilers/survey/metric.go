// Package survey finds which pods have a ready and current DevMesh sidecar: Look once, with the rights
// of a user, and Metric from the manager's cache.
package survey

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/lists"
	"switchyard.dev/eventbus/wake"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/baseline/pods"
	"switchyard.dev/reconcilers/routing"
	"switchyard.dev/sidecars/coverage"
	"switchyard.dev/sidecars/inject"
)

// scrapePatience bounds the reading of the cache for one scrape.
const scrapePatience = 5 * time.Second

// devmeshPods is the metric.
var devmeshPods = prometheus.NewDesc("switchyard_devmesh_pods",
	"On the leader: pods of workloads that ask for DevMesh sidecars, have one, or have a fork, by how they stand with it: ok, not_needed, outdated, not_ready or missing. Those without the label "+crdv1.LabelInjected+" as of the last survey of all pods. The manager does not read namespaces: workloads for which only their namespace asks count once a pod has a sidecar.",
	[]string{"kind", "namespace", "workload", "state"}, nil)

// Every is the minimum interval of surveys of the pods without the operator's label: whether one of
// them started without a sidecar, or with that of an earlier version. A survey reads all pods of the
// cluster, 500 at a time, so the pause after it is pause times its duration, if that is longer.
const (
	Every = 10 * time.Second
	pause = 30
)

// Config has the dependencies of a Metric.
type Config struct {
	// Reader is the cache.
	Reader client.Reader
	// Pods are those of baselines.
	Pods *pods.Pods
	// Every is how often at most there is a survey.
	Every time.Duration
	// Leads is closed once this process is elected.
	Leads <-chan struct{}
	// Now has the current injection settings.
	Now inject.Settings
	// Logger logs failures.
	Logger *slog.Logger
}

// Metric counts the pods of each relevant workload by the state of their sidecar, when it is collected:
// from the cache and, for pods without the operator's label, from the last survey. Only the leader
// reports, so that a sum over replicas counts each pod once. There is a series for each state of each
// such workload, even without pods, so that an alert can match zero.
type Metric struct {
	config Config

	mu sync.Mutex
	// found are the relevant pods without the operator's label.
	found []corev1.Pod
}

// New returns a Metric.
func New(c Config) *Metric { return &Metric{config: c} }

// Run surveys the pods without the operator's label repeatedly until ctx ends.
func (m *Metric) Run(ctx context.Context) error {
	for {
		begun := time.Now()
		if err := m.surveyOnce(ctx); err != nil && ctx.Err() == nil {
			m.config.Logger.Error("Cannot look for pods without sidecars; the metric counts those of before", "error", err)
		}
		if !wake.Sleep(ctx, max(m.config.Every, pause*time.Since(begun))) {
			return nil
		}
	}
}

func (m *Metric) surveyOnce(ctx context.Context) error {
	known, err := m.known(ctx)
	if err != nil {
		return err
	}
	var found []corev1.Pod
	if err := m.config.Pods.Survey(ctx, func(pod *corev1.Pod) {
		w, _ := inject.OwnerOf(pod, pod.Namespace)
		if _, is := known.asks[w]; is || coverage.PodOf(pod).Present || pod.Annotations[crdv1.AnnotationProcessed] != "" {
			found = append(found, *pod)
		}
	}); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.found = found
	return nil
}

// Describe implements prometheus.Collector.
func (*Metric) Describe(to chan<- *prometheus.Desc) { to <- devmeshPods }

// Collect implements prometheus.Collector.
func (m *Metric) Collect(to chan<- prometheus.Metric) {
	select {
	case <-m.config.Leads:
	default:
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapePatience)
	defer cancel()
	reports, err := m.reports(ctx)
	if err != nil { // An invalid metric would take all others of the scrape with it.
		m.config.Logger.Error("Cannot count the pods with sidecars; this scrape is without them", "error", err)
		return
	}
	for _, r := range reports {
		for _, s := range coverage.States() {
			if s == coverage.Behind {
				continue // Only the route servers know; the command coverage asks them.
			}
			to <- prometheus.MustNewConstMetric(devmeshPods, prometheus.GaugeValue, float64(r.Count(s)),
				r.Workload.Kind, r.Workload.Namespace, r.Workload.Name, string(s))
		}
	}
}

// known reads the cache for the workloads that are concerned.
func (m *Metric) known(ctx context.Context) (concerned, error) {
	var deployments appsv1.DeploymentList
	var forks crdv1.ForkedWorkloadList
	rollouts := baseline.NewRolloutList()
	err := errors.Join(m.config.Reader.List(ctx, &deployments, client.UnsafeDisableDeepCopy),
		m.config.Reader.List(ctx, rollouts, client.UnsafeDisableDeepCopy),
		m.config.Reader.List(ctx, &forks, client.UnsafeDisableDeepCopy))
	k := concerning(forks.Items)
	for i := range deployments.Items {
		k.deployment(&deployments.Items[i])
	}
	for i := range rollouts.Items {
		k.rollout(&rollouts.Items[i])
	}
	return k, err
}

// reports reads the cache, without copies: its objects are not modified.
func (m *Metric) reports(ctx context.Context) ([]coverage.Report, error) {
	var services corev1.ServiceList
	var endpoints discoveryv1.EndpointSliceList
	var istio crdv1.IstioRouteList
	var gatewayAPI crdv1.GatewayAPIRouteList
	known, err := m.known(ctx)
	labelled, held := m.config.Pods.Labelled(ctx)
	if err := errors.Join(err, held,
		m.config.Reader.List(ctx, &services, client.UnsafeDisableDeepCopy),
		m.config.Reader.List(ctx, &endpoints, client.UnsafeDisableDeepCopy),
		m.config.Reader.List(ctx, &istio, client.UnsafeDisableDeepCopy),
		m.config.Reader.List(ctx, &gatewayAPI, client.UnsafeDisableDeepCopy)); err != nil {
		return nil, err
	}
	m.mu.Lock()
	found := m.found
	m.mu.Unlock()
	each := func(yield func(*corev1.Pod) bool) {
		for _, some := range [][]corev1.Pod{labelled, found} {
			for i := range some {
				if !yield(&some[i]) {
					return
				}
			}
		}
	}
	routes := lists.Map(lists.Pointers(istio.Items), func(o *crdv1.IstioRoute) crdv1.MeshRoute { return o })
	for i := range gatewayAPI.Items {
		routes = append(routes, &gatewayAPI.Items[i])
	}
	needed := known.needed(baseline.NewPaths(services.Items, endpoints.Items), routing.RoutedByMesh(routes))
	return coverage.Reports(known.asks, each, m.config.Now, nil, needed, nil), nil
}
