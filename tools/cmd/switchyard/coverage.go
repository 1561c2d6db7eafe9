package main

import (
	"context"
	"errors"
	"fmt"
	"iter"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/dryrun"
	"switchyard.dev/reconcilers/routing"
	"switchyard.dev/sidecars/coverage"
	"switchyard.dev/sidecars/inject"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/switchyard/routing/sidecars"
)

// managerName is the operator's Deployment that injects sidecars, as the chart
// has it, and pageSize how many objects are asked for at once.
const (
	managerName = "signadot-controller-manager"
	pageSize    = 500
)

// covered returns which pods have a ready and current sidecar, reading the cluster
// with the user's own rights. What the user may not read beside pods and
// Deployments is left out and said.
func covered(ctx context.Context, access *rest.Config, ask sidecars.Question) (sidecars.Coverage, error) {
	scheme, err := dryrun.Scheme()
	if err != nil {
		return sidecars.Coverage{}, err
	}
	reader, err := client.New(access, client.Options{Scheme: scheme})
	if err != nil {
		return sidecars.Coverage{}, fmt.Errorf("reach the cluster: %w", err)
	}
	s := survey{reader: reader, ask: ask, labels: map[inject.Workload]map[string]string{}, refused: map[inject.Workload]string{}}
	var pods []corev1.Pod
	if err := pages(ctx, reader, ask.Namespace, pageSize, func(l *corev1.PodList) { pods = append(pods, l.Items...) }); err != nil {
		return sidecars.Coverage{}, mayNot("pods", ask.Namespace, err)
	}
	known, err := s.known(ctx)
	if err != nil {
		return sidecars.Coverage{}, err
	}
	each := func(yield func(*corev1.Pod) bool) {
		for i := range pods {
			if !yield(&pods[i]) {
				return
			}
		}
	}
	var out sidecars.Coverage
	for _, r := range coverage.Reports(known, each, s.injected(ctx), ask.Connected, s.led(ctx), s.refused) {
		out.Workloads = append(out.Workloads, shown(r))
	}
	out.Others = others(out.Workloads, each)
	out.Unknown = s.unknown
	return out, nil
}

// others returns the workloads of pods that are not listed, each with the number of its pods.
func others(listed []sidecars.Workload, pods iter.Seq[*corev1.Pod]) (out []sidecars.Workload) {
	count := map[inject.Workload]int{}
	for pod := range pods {
		if w, why := inject.OwnerOf(pod, pod.Namespace); why == "" && coverage.Counts(pod) {
			count[w]++
		}
	}
	for _, w := range listed {
		delete(count, inject.Workload{Kind: w.Kind, Namespace: w.Namespace, Name: w.Name})
	}
	for w, n := range count {
		out = append(out, sidecars.Workload{Kind: w.Kind, Namespace: w.Namespace, Name: w.Name, Pods: n})
	}
	return out
}

// survey is one look at a cluster.
type survey struct {
	reader client.Reader
	ask    sidecars.Question
	// labels are those that Deployments give their pods.
	labels map[inject.Workload]map[string]string
	// refused are the API server's words for each workload of which it refuses new pods.
	refused map[inject.Workload]string
	// unknown are sentences about what could not be read.
	unknown []string
}

// known returns the Deployments that ask for sidecars, and those that have a fork,
// with whether they ask.
func (s *survey) known(ctx context.Context) (map[inject.Workload]bool, error) {
	forked := s.forked(ctx)
	asking, err := s.askingNamespaces(ctx)
	if err != nil {
		return nil, err
	}
	known := map[inject.Workload]bool{}
	err = pages(ctx, s.reader, s.ask.Namespace, pageSize, func(l *appsv1.DeploymentList) {
		for i := range l.Items {
			d := &l.Items[i]
			annotations, w := d.Spec.Template.Annotations, deployment(d.Namespace, d.Name)
			asks := inject.Asks(annotations[inject.AnnotationInject])
			s.labels[w] = d.Spec.Template.Labels
			s.note(w, d)
			if _, said := annotations[crdv1.AnnotationInject]; !said {
				asks = asking[d.Namespace]
			}
			if d.Labels[crdv1.LabelForkedWorkload] == "" && (asks || forked[w]) {
				known[w] = asks
			}
		}
	})
	if err != nil {
		return nil, mayNot("deployments", s.ask.Namespace, err)
	}
	s.rollouts(ctx)
	return known, nil
}

// note records the API server's words if it refuses new pods of a workload.
func (s *survey) note(w inject.Workload, o client.Object) {
	if words := baseline.PodsRefused(o); words != "" {
		s.refused[w] = words
	}
}

// rollouts notes which Rollouts are refused new pods. A cluster may have no such kind, and users
// without the right to list them miss these words alone.
func (s *survey) rollouts(ctx context.Context) {
	for next := ""; ; {
		l := baseline.NewRolloutList()
		if err := s.reader.List(ctx, l, client.InNamespace(s.ask.Namespace), client.Limit(pageSize), client.Continue(next)); err != nil {
			return
		}
		for i := range l.Items {
			w := inject.Workload{Kind: baseline.RoutedKind(crdv1.ObjectRef{Kind: baseline.KindRollout}), Namespace: l.Items[i].GetNamespace(), Name: l.Items[i].GetName()}
			s.note(w, &l.Items[i])
		}
		if next = l.GetContinue(); next == "" {
			return
		}
	}
}

// forked returns the baselines of forks.
func (s *survey) forked(ctx context.Context) map[inject.Workload]bool {
	forked := map[inject.Workload]bool{}
	err := pages(ctx, s.reader, s.ask.Namespace, pageSize, func(l *crdv1.ForkedWorkloadList) {
		for i := range l.Items {
			forked[deployment(l.Items[i].Namespace, l.Items[i].Spec.Baseline.Name)] = true
		}
	})
	if err != nil {
		s.unknown = append(s.unknown, "workloads that have a fork and no sidecar at all are not shown: "+err.Error())
	}
	return forked
}

// askingNamespaces returns the namespaces that ask for sidecars by a label, and an error when the one
// of the question does not exist.
func (s *survey) askingNamespaces(ctx context.Context) (map[string]bool, error) {
	asking := map[string]bool{}
	add := func(n *corev1.Namespace) { asking[n.Name] = inject.Asks(n.Labels[inject.AnnotationInject]) }
	var err error
	if s.ask.Namespace == "" {
		err = pages(ctx, s.reader, "", pageSize, func(l *corev1.NamespaceList) {
			for i := range l.Items {
				add(&l.Items[i])
			}
		})
	} else {
		var one corev1.Namespace
		if err = s.reader.Get(ctx, client.ObjectKey{Name: s.ask.Namespace}, &one); err == nil {
			add(&one)
		}
		if apierrors.IsNotFound(err) {
			return nil, exit.Failed.Errorf("there is no namespace %s", s.ask.Namespace)
		}
	}
	if err != nil {
		s.unknown = append(s.unknown, "workloads for which only their namespace asks, and that have no sidecar at all, are not shown: "+err.Error())
	}
	return asking, nil
}

// injected returns what pods get from their injection now: the environment of the
// manager's Deployment and the operator's configuration say it. What cannot be read
// is left empty, and said.
func (s *survey) injected(ctx context.Context) inject.Settings {
	unknown := func(err error) inject.Settings {
		s.unknown = append(s.unknown, "nobody knows here which sidecars are outdated: "+err.Error())
		return inject.Settings{}
	}
	getenv, err := managerEnv(ctx, s.reader, s.ask.Operator)
	if err != nil {
		return unknown(err)
	}
	config, err := inject.FromEnv(getenv)
	if err != nil {
		return unknown(fmt.Errorf("what Deployment %s/%s injects: %w", s.ask.Operator, managerName, err))
	}
	cluster, err := configuration(ctx, s.reader, s.ask.Operator)
	if err != nil {
		s.unknown = append(s.unknown, "sidecars with another routing.iptablesMode than the operator's are not found: "+err.Error())
		now := config.Settings()
		now.IptablesMode = ""
		return now
	}
	config.IptablesMode = cluster.IptablesMode
	return config.Settings()
}

// managerEnv returns the environment of the manager's Deployment.
func managerEnv(ctx context.Context, reader client.Reader, operator string) (func(string) string, error) {
	var deployed appsv1.Deployment
	if err := reader.Get(ctx, client.ObjectKey{Namespace: operator, Name: managerName}, &deployed); err != nil {
		return nil, err
	}
	env := map[string]string{}
	for i := range deployed.Spec.Template.Spec.Containers {
		for _, v := range deployed.Spec.Template.Spec.Containers[i].Env {
			env[v.Name] = v.Value
		}
	}
	return func(name string) string { return env[name] }, nil
}

// routedByMesh returns the workloads that meshes route.
func (s *survey) routedByMesh(ctx context.Context) map[inject.Workload]bool {
	var all []crdv1.MeshRoute
	if err := meshRoutes(ctx, s.reader, func(r crdv1.MeshRoute) { all = append(all, r) }); err != nil {
		s.unknown = append(s.unknown, "nobody knows here which workloads a mesh routes, so that they need no sidecar: "+err.Error())
	}
	return routing.RoutedByMesh(all)
}

// led returns what reports whether requests to a workload need a sidecar: a Service leads to it,
// and no mesh routes them; nil when Services or
// EndpointSlices may not be read, so that nobody knows. The template of an Argo Rollout is
// not read: its pods say whether a Service leads to it, and without pods it counts as led to.
func (s *survey) led(ctx context.Context) func(inject.Workload, []*corev1.Pod) bool {
	var services []corev1.Service
	var endpoints []discoveryv1.EndpointSlice
	if err := errors.Join(
		pages(ctx, s.reader, s.ask.Namespace, pageSize, func(l *corev1.ServiceList) { services = append(services, l.Items...) }),
		pages(ctx, s.reader, s.ask.Namespace, pageSize, func(l *discoveryv1.EndpointSliceList) { endpoints = append(endpoints, l.Items...) }),
	); err != nil {
		s.unknown = append(s.unknown, "nobody knows here which workloads no Service leads to, so that they need no sidecar: "+err.Error())
		return nil
	}
	paths, meshed := baseline.NewPaths(services, endpoints), s.routedByMesh(ctx)
	return func(w inject.Workload, pods []*corev1.Pod) bool {
		if meshed[w] {
			return false
		}
		labels, known := s.labels[w]
		return !known && len(pods) == 0 || paths.LeadTo(w.Namespace, labels, pods)
	}
}

func deployment(namespace, name string) inject.Workload {
	return inject.Workload{Kind: "Deployment", Namespace: namespace, Name: name}
}

// pages reads all objects of a kind, in one namespace or in all, so many at once,
// and gives each page, which is then the caller's.
func pages[T any, L interface {
	*T
	client.ObjectList
}](ctx context.Context, reader client.Reader, namespace string, size int64, each func(L)) error {
	for next := ""; ; {
		list := L(new(T))
		if err := reader.List(ctx, list, client.InNamespace(namespace), client.Limit(size), client.Continue(next)); err != nil {
			return err
		}
		each(list)
		if next = list.GetContinue(); next == "" {
			return nil
		}
	}
}

// mayNot returns what to do about an error of a list without which nothing can be
// said.
func mayNot(what, namespace string, err error) error {
	switch {
	case apierrors.IsForbidden(err) && namespace == "":
		return fmt.Errorf("the %s of all namespaces may not be listed: name one with --namespace, or ask for the right: %w", what, err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("the %s of namespace %s may not be listed: ask for the right: %w", what, namespace, err)
	}
	return fmt.Errorf("list %s: %w", what, err)
}

// shown returns a report as the command shows it.
func shown(r coverage.Report) sidecars.Workload {
	pods := func(s coverage.State, known bool) []string {
		if !known {
			return nil
		}
		return append([]string{}, r.Pods[s]...)
	}
	out := sidecars.Workload{
		Kind: r.Workload.Kind, Namespace: r.Workload.Namespace, Name: r.Workload.Name,
		Asks: r.Asks, Covered: r.Full(), Pods: r.Total,
		OK: pods(coverage.OK, true), Outdated: pods(coverage.Outdated, r.SettingsKnown), Behind: pods(coverage.Behind, r.ConnectionsKnown),
		NotReady: pods(coverage.NotReady, true), Missing: pods(coverage.Missing, true), NotNeeded: pods(coverage.NotNeeded, true),
		ToDo: append([]string{}, r.ToDo()...),
	}
	if len(r.Differ) > 0 {
		out.Differ, out.Restart, out.Differences = r.Differ, r.Restart(), map[string]string{}
		for pod, names := range r.Differ {
			out.Differences[pod] = inject.Differences(names)
		}
	}
	return out
}
