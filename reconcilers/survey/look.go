package survey

import (
	"context"
	"errors"
	"fmt"
	"iter"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/clusterconfig"
	"switchyard.dev/reconcilers/meshes"
	"switchyard.dev/reconcilers/paged"
	"switchyard.dev/reconcilers/routing"
	"switchyard.dev/sidecars/coverage"
	"switchyard.dev/sidecars/inject"
)

// Question is the subject of a survey.
type Question struct {
	// Namespace is the one to read; empty for all.
	Namespace string
	// Operator is the namespace in which the operator runs.
	Operator string
	// Connected has each pod, by namespace/name, with a sidecar connected to a route server, and
	// whether it has acknowledged its rules; nil if that is unknown.
	Connected map[string]bool
}

// Found is the result of a survey.
type Found struct {
	// Reports are of the workloads that request sidecars, have some or have a fork, sorted.
	Reports []coverage.Report
	// Others has how many pods each other workload has.
	Others map[inject.Workload]int
	// Unknown are sentences about failed reads, and the information that is missing because of them.
	Unknown []string
}

// Look returns which pods have a ready and current sidecar, with the rights of the reader. Pods and
// Deployments must be readable.
func Look(ctx context.Context, reader client.Reader, ask Question) (Found, error) {
	l := look{reader: reader, ask: ask}
	var pods []corev1.Pod
	if err := paged.Each(ctx, reader, ask.Namespace, paged.Size, func(l *corev1.PodList) { pods = append(pods, l.Items...) }); err != nil {
		return Found{}, paged.MayNotList("pods", ask.Namespace, err)
	}
	known, err := l.known(ctx)
	if err != nil {
		return Found{}, err
	}
	each := func(yield func(*corev1.Pod) bool) {
		for i := range pods {
			if !yield(&pods[i]) {
				return
			}
		}
	}
	now := l.injected(ctx)
	reports := coverage.Reports(known.asks, each, now, ask.Connected, l.needed(ctx, known), known.refused)
	return Found{reports, others(reports, each), l.unknown}, nil
}

// others returns how many pods each workload has that has no report.
func others(reports []coverage.Report, pods iter.Seq[*corev1.Pod]) map[inject.Workload]int {
	count := map[inject.Workload]int{}
	for pod := range pods {
		if w, why := inject.OwnerOf(pod, pod.Namespace); why == "" && coverage.Counts(pod) {
			count[w]++
		}
	}
	for _, r := range reports {
		delete(count, r.Workload)
	}
	return count
}

// look is one survey of a cluster.
type look struct {
	reader  client.Reader
	ask     Question
	unknown []string
}

// note records a sentence about a failed read.
func (l *look) note(what string, err error) { l.unknown = append(l.unknown, what+": "+err.Error()) }

// known returns the workloads that are concerned. A cluster may have no Rollouts, and users without
// the right to list them miss these alone.
func (l *look) known(ctx context.Context) (concerned, error) {
	k := concerning(l.forked(ctx))
	asking, err := l.askingNamespaces(ctx)
	if err != nil {
		return k, err
	}
	k.namespaces = asking
	if err := paged.Each(ctx, l.reader, l.ask.Namespace, paged.Size, func(list *appsv1.DeploymentList) {
		for i := range list.Items {
			k.deployment(&list.Items[i])
		}
	}); err != nil {
		return k, paged.MayNotList("deployments", l.ask.Namespace, err)
	}
	for next := ""; ; {
		list := baseline.NewRolloutList()
		if err := l.reader.List(ctx, list, client.InNamespace(l.ask.Namespace), client.Limit(paged.Size), client.Continue(next)); err != nil {
			return k, nil
		}
		for i := range list.Items {
			k.rollout(&list.Items[i])
		}
		if next = list.GetContinue(); next == "" {
			return k, nil
		}
	}
}

// forked returns the baselines of forks.
func (l *look) forked(ctx context.Context) []crdv1.ForkedWorkload {
	var forks []crdv1.ForkedWorkload
	if err := paged.Each(ctx, l.reader, l.ask.Namespace, paged.Size, func(list *crdv1.ForkedWorkloadList) { forks = append(forks, list.Items...) }); err != nil {
		l.note("workloads that have a fork and no sidecar at all are not shown", err)
	}
	return forks
}

// NoNamespace is the error of Look for a namespace that does not exist.
type NoNamespace string

// Error implements error.
func (n NoNamespace) Error() string { return "there is no namespace " + string(n) }

// askingNamespaces returns the namespaces with a label that requests sidecars, and an error if the
// namespace of the query does not exist.
func (l *look) askingNamespaces(ctx context.Context) (map[string]bool, error) {
	asking := map[string]bool{}
	add := func(n *corev1.Namespace) { asking[n.Name] = inject.Asks(n.Labels[inject.AnnotationInject]) }
	var err error
	if l.ask.Namespace == "" {
		err = paged.Each(ctx, l.reader, "", paged.Size, func(list *corev1.NamespaceList) {
			for i := range list.Items {
				add(&list.Items[i])
			}
		})
	} else {
		var one corev1.Namespace
		if err = l.reader.Get(ctx, client.ObjectKey{Name: l.ask.Namespace}, &one); err == nil {
			add(&one)
		}
		if apierrors.IsNotFound(err) {
			return nil, NoNamespace(l.ask.Namespace)
		}
	}
	if err != nil {
		l.note("workloads for which only their namespace asks, and that have no sidecar at all, are not shown", err)
	}
	return asking, nil
}

// injected returns the current injection settings, from the environment of the manager's Deployment and
// the operator's configuration. Those that cannot be read are empty, and listed in Unknown.
func (l *look) injected(ctx context.Context) inject.Settings {
	unknown := func(err error) inject.Settings {
		l.note("it is not known which sidecars are outdated", err)
		return inject.Settings{}
	}
	getenv, err := clusterconfig.ManagerEnv(ctx, l.reader, l.ask.Operator)
	if err != nil {
		return unknown(err)
	}
	config, err := inject.FromEnv(getenv)
	if err != nil {
		return unknown(fmt.Errorf("what Deployment %s/%s injects: %w", l.ask.Operator, clusterconfig.ManagerName, err))
	}
	cluster, err := clusterconfig.Installed(ctx, l.reader, l.ask.Operator)
	if err != nil {
		l.note("sidecars with another routing.iptablesMode than the operator's are not found", err)
		now := config.Settings()
		now.IptablesMode = ""
		return now
	}
	config.IptablesMode = cluster.IptablesMode
	return config.Settings()
}

// needed returns the function of concerned.needed; nil if Services or EndpointSlices cannot be read.
func (l *look) needed(ctx context.Context, known concerned) func(inject.Workload, []*corev1.Pod) bool {
	var services []corev1.Service
	var endpoints []discoveryv1.EndpointSlice
	if err := errors.Join(
		paged.Each(ctx, l.reader, l.ask.Namespace, paged.Size, func(list *corev1.ServiceList) { services = append(services, list.Items...) }),
		paged.Each(ctx, l.reader, l.ask.Namespace, paged.Size, func(list *discoveryv1.EndpointSliceList) { endpoints = append(endpoints, list.Items...) }),
	); err != nil {
		l.note("it is not known which workloads no Service selects, so that they need no sidecar", err)
		return nil
	}
	var routes []crdv1.MeshRoute
	if err := meshes.EachRoute(ctx, l.reader, func(r crdv1.MeshRoute) { routes = append(routes, r) }); err != nil {
		l.note("it is not known which workloads a mesh routes, so that they need no sidecar", err)
	}
	return known.needed(baseline.NewPaths(services, endpoints), routing.RoutedByMesh(routes))
}

// concerned are the workloads that request sidecars or have a fork.
type concerned struct {
	// asks has each of them, and whether it asks.
	asks map[inject.Workload]bool
	// labels are those that all workloads give their pods.
	labels map[inject.Workload]map[string]string
	// refused are the API server's words for each workload of which it refuses new pods.
	refused map[inject.Workload]string
	forked  map[inject.Workload]bool
	// namespaces are those that ask with a label.
	namespaces map[string]bool
}

// concerning returns the concerned workloads beside these forks; add the workloads.
func concerning(forks []crdv1.ForkedWorkload) concerned {
	k := concerned{map[inject.Workload]bool{}, map[inject.Workload]map[string]string{}, map[inject.Workload]string{}, map[inject.Workload]bool{}, nil}
	for i := range forks {
		ref, _ := forks[i].BaselineRef()
		k.forked[workloadOf(ref.Kind, ref.Namespace, ref.Name)] = true
	}
	return k
}

// deployment adds a Deployment, and rollout a Rollout.
func (k concerned) deployment(d *appsv1.Deployment) {
	k.add(d, baseline.KindDeployment, d.Spec.Template.ObjectMeta)
}

func (k concerned) rollout(o *unstructured.Unstructured) {
	var pod metav1.ObjectMeta
	pod.Annotations, _, _ = unstructured.NestedStringMap(o.Object, "spec", "template", "metadata", "annotations")
	pod.Labels, _, _ = unstructured.NestedStringMap(o.Object, "spec", "template", "metadata", "labels")
	k.add(o, baseline.KindRollout, pod)
}

// add adds a workload with the metadata of its pods.
func (k concerned) add(o client.Object, kind string, pod metav1.ObjectMeta) {
	w, asks := workloadOf(kind, o.GetNamespace(), o.GetName()), inject.Asks(pod.Annotations[inject.AnnotationInject])
	if _, has := pod.Annotations[inject.AnnotationInject]; !has {
		asks = k.namespaces[o.GetNamespace()]
	}
	k.labels[w] = pod.Labels
	if words := baseline.PodsRefused(o); words != "" {
		k.refused[w] = words
	}
	if o.GetLabels()[crdv1.LabelForkedWorkload] == "" && (asks || k.forked[w]) {
		k.asks[w] = asks
	}
}

// needed returns a function that reports whether requests to a workload need a sidecar: a Service
// selects its pods, and no mesh routes them. A workload without pods that could not be read counts as
// selected.
func (k concerned) needed(paths baseline.Paths, meshed map[inject.Workload]bool) func(inject.Workload, []*corev1.Pod) bool {
	return func(w inject.Workload, pods []*corev1.Pod) bool {
		labels, known := k.labels[w]
		return !meshed[w] && (!known && len(pods) == 0 || paths.LeadTo(w.Namespace, labels, pods))
	}
}

// workloadOf names a workload as sidecars know it.
func workloadOf(kind, namespace, name string) inject.Workload {
	return inject.Workload{Kind: baseline.RoutedKind(crdv1.ObjectRef{Kind: kind}), Namespace: namespace, Name: name}
}
