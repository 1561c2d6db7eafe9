package manager

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/sidecars/coverage"
	"switchyard.dev/sidecars/inject"
)

// scrapePatience bounds the reading of the cache for one scrape.
const scrapePatience = 5 * time.Second

// devmeshPods is the metric of package coverage.
var devmeshPods = prometheus.NewDesc("switchyard_devmesh_pods",
	"On the leader: pods of workloads that ask for DevMesh sidecars, have one, or have a fork, by how they stand with it: ok, not_needed, outdated, not_ready or missing.",
	[]string{"kind", "namespace", "workload", "state"}, nil)

// coverageMetrics count the pods of each workload that is concerned by how they
// stand with their sidecar, from the cache, when they are asked for. Only the
// leader says something, so that a sum over replicas counts each pod once. There
// is a series for each state of each such workload, also for those with no pod,
// so that an alert finds the zero.
type coverageMetrics struct {
	reader client.Reader
	// leads is closed once this process is the leader.
	leads  <-chan struct{}
	now    inject.Settings
	logger *slog.Logger
}

// Describe implements prometheus.Collector.
func (coverageMetrics) Describe(to chan<- *prometheus.Desc) { to <- devmeshPods }

// Collect implements prometheus.Collector.
func (m coverageMetrics) Collect(to chan<- prometheus.Metric) {
	select {
	case <-m.leads:
	default:
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapePatience)
	defer cancel()
	reports, err := m.reports(ctx)
	if err != nil { // An invalid metric would take all others of the scrape with it.
		m.logger.Error("Cannot count the pods with sidecars; this scrape is without them", "error", err)
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

// reports reads the cache, without copies: nothing of it is changed.
func (m coverageMetrics) reports(ctx context.Context) ([]coverage.Report, error) {
	var pods corev1.PodList
	var deployments appsv1.DeploymentList
	var forks crdv1.ForkedWorkloadList
	var services corev1.ServiceList
	var endpoints discoveryv1.EndpointSliceList
	rollouts := baseline.NewRolloutList()
	if err := errors.Join(m.reader.List(ctx, &pods, client.UnsafeDisableDeepCopy),
		m.reader.List(ctx, &deployments, client.UnsafeDisableDeepCopy),
		m.reader.List(ctx, rollouts, client.UnsafeDisableDeepCopy),
		m.reader.List(ctx, &services, client.UnsafeDisableDeepCopy),
		m.reader.List(ctx, &endpoints, client.UnsafeDisableDeepCopy),
		m.reader.List(ctx, &forks, client.UnsafeDisableDeepCopy)); err != nil {
		return nil, err
	}
	forked := map[inject.Workload]bool{}
	for i := range forks.Items {
		ref, _ := forks.Items[i].BaselineRef()
		forked[workloadOf(ref.Kind, ref.Namespace, ref.Name)] = true
	}
	known, labels := map[inject.Workload]bool{}, map[inject.Workload]map[string]string{}
	note := func(o client.Object, kind string, pod metav1.ObjectMeta) {
		w, asks := workloadOf(kind, o.GetNamespace(), o.GetName()), coverage.Asks(pod.Annotations)
		labels[w] = pod.Labels
		if o.GetLabels()[crdv1.LabelForkedWorkload] == "" && (asks || forked[w]) {
			known[w] = asks
		}
	}
	for i := range deployments.Items {
		note(&deployments.Items[i], baseline.KindDeployment, deployments.Items[i].Spec.Template.ObjectMeta)
	}
	for i := range rollouts.Items {
		var pod metav1.ObjectMeta
		pod.Annotations, _, _ = unstructured.NestedStringMap(rollouts.Items[i].Object, "spec", "template", "metadata", "annotations")
		pod.Labels, _, _ = unstructured.NestedStringMap(rollouts.Items[i].Object, "spec", "template", "metadata", "labels")
		note(&rollouts.Items[i], baseline.KindRollout, pod)
	}
	each := func(yield func(*corev1.Pod) bool) {
		for i := range pods.Items {
			if !yield(&pods.Items[i]) {
				return
			}
		}
	}
	paths := baseline.NewPaths(services.Items, endpoints.Items)
	return coverage.Reports(known, each, m.now, nil, func(w inject.Workload, pods []*corev1.Pod) bool {
		return paths.LeadTo(w.Namespace, labels[w], pods)
	}), nil
}

// workloadOf names a workload as sidecars know it.
func workloadOf(kind, namespace, name string) inject.Workload {
	return inject.Workload{Kind: baseline.RoutedKind(crdv1.ObjectRef{Kind: kind}), Namespace: namespace, Name: name}
}
