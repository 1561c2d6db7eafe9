package jobrunnergroup

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/controller"
	"switchyard.dev/workflows/execunit"
	"switchyard.dev/workflows/jobpod"
)

// gather reads what counts for a group.
//
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups=signadot.com,resources=jobs,verbs=get;list;watch
func (r *Reconciler) gather(ctx context.Context, g *crdv1.JobRunnerGroup) (Input, error) {
	m := r.memory(g.UID)
	in := Input{
		Group: g, Settings: r.config.Settings, Limits: r.config.Limits, Now: r.now(),
		Refusal: m.refusal, Retry: m.refused.Add(apply.RefusedAgain),
	}
	if r.config.CA != nil {
		in.Settings.CA = r.config.CA()
	}
	in.redirection()
	var pods corev1.PodList
	if err := r.config.Pods.List(ctx, &pods, client.InNamespace(g.Namespace), client.MatchingLabels(jobpod.Labels(g.Name))); err != nil {
		return in, fmt.Errorf("list the pods of runner group %s/%s: %w", g.Namespace, g.Name, err)
	}
	for i := range pods.Items {
		if apply.IsOwned(&pods.Items[i], g.UID) {
			in.Pods = append(in.Pods, &pods.Items[i])
		}
	}
	if err := r.missing(ctx, &in); err != nil {
		return in, err
	}
	r.pulls(ctx, &in)
	var jobs crdv1.JobList
	if err := r.config.Client.List(ctx, &jobs, client.UnsafeDisableDeepCopy, client.MatchingFields{apply.IndexRunnerGroup: g.Namespace + "/" + g.Name}); err != nil {
		return in, fmt.Errorf("list the jobs of runner group %s/%s: %w", g.Namespace, g.Name, err)
	}
	for i := range jobs.Items {
		in.Jobs = append(in.Jobs, &jobs.Items[i])
	}
	return in, nil
}

// missing reads the recorded pods that the cache does not have, from the API server.
func (r *Reconciler) missing(ctx context.Context, in *Input) error {
	g := in.Group
	for _, recorded := range g.Status.Runners {
		if slices.ContainsFunc(in.Pods, func(p *corev1.Pod) bool { return p.UID == recorded.UID }) {
			continue
		}
		pod := &corev1.Pod{}
		err := r.config.Live.Get(ctx, client.ObjectKey{Namespace: g.Namespace, Name: recorded.Name}, pod)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("read pod %s/%s of runner group %s: %w", g.Namespace, recorded.Name, g.Name, err)
		}
		if err == nil && pod.UID == recorded.UID {
			in.Pods = append(in.Pods, pod)
		}
	}
	return nil
}

// pulls reads the Events about the pod that is starting, since its status does not show that its image is pulled. Without them the
// condition states less.
//
// +kubebuilder:rbac:groups="",resources=events,verbs=list
func (r *Reconciler) pulls(ctx context.Context, in *Input) {
	p := in.starting()
	if p == nil || in.Now.Sub(p.CreationTimestamp.Time) < askPulls {
		return
	}
	var events corev1.EventList
	if err := r.config.Live.List(ctx, &events, client.InNamespace(p.Namespace), client.MatchingFields{"involvedObject.uid": string(p.UID)}); err != nil {
		log.FromContext(ctx).Info("the Events of a pod cannot be read", "namespace", p.Namespace, "pod", p.Name, "why", err)
		return
	}
	in.Pulls = map[types.UID]*execunit.Pull{p.UID: execunit.PullOf(p, events.Items)}
}

// Watch adds watches for the pods and Services of groups, and for jobs that get a pod or end.
func (r *Reconciler) Watch(b *builder.Builder, _ ctrl.Manager) error {
	b.Owns(&corev1.Service{})
	b.WatchesRawSource(r.config.Pods.Source(controller.Enqueue(func(_ context.Context, o client.Object) []reconcile.Request {
		owner, is := controller.OwnerOf(o, crdv1.KindJobRunnerGroup)
		if !is {
			return nil
		}
		return []reconcile.Request{{NamespacedName: owner}}
	})))
	b.Watches(&crdv1.Job{}, controller.Enqueue(func(_ context.Context, o client.Object) []reconcile.Request {
		j, is := o.(*crdv1.Job)
		if !is {
			return nil
		}
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: j.Spec.RunnerGroup.Namespace, Name: j.Spec.RunnerGroup.Name}}}
	}), builder.WithPredicates(controller.Updates(turned), predicate.Funcs{CreateFunc: func(e event.CreateEvent) bool { return e.IsInInitialList }}))
	return nil
}

// turned reports whether a job got a pod or ended.
func turned(before, after client.Object) bool {
	a, is := before.(*crdv1.Job)
	b, too := after.(*crdv1.Job)
	return is && too && (a.Status.Runner == nil) != (b.Status.Runner == nil) || ended(a) != ended(b)
}

// ended reports whether a job has ended.
func ended(j *crdv1.Job) bool {
	return j != nil && j.Status.State != nil && j.Status.State.Terminated != nil
}
