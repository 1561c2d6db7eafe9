package jobrunnergroup

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/lists"
	"switchyard.dev/eventbus/wake"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/workflows/execunit"
	"switchyard.dev/workflows/jobpod"
)

const (
	// pace is the shortest time between two writes of the status of a group.
	pace = 500 * time.Millisecond
	// atOnce is the maximum number of pods that are created before they are recorded.
	atOnce = 50
)

// act drains and deletes pods, creates others, and records them with the status.
func (r *Reconciler) act(ctx context.Context, in Input, d Decision) (time.Duration, error) {
	if err := r.current(ctx, in, d); err != nil {
		return 0, err
	}
	refused, err := r.serve(ctx, in)
	if err != nil {
		return 0, err
	}
	for _, s := range d.Steps {
		if err := r.step(ctx, in.Group, s); err != nil {
			return 0, err
		}
	}
	m := r.memory(in.Group.UID)
	if wait := m.wrote.Add(pace).Sub(r.config.Now()); wait > 0 {
		if d.Create > 0 || !equality.Semantic.DeepEqual(in.Group.Status, Conclude(in, d, nil, firstOf(refused, in.Refusal)).Status) {
			d.After = wake.Sooner(d.After, wait)
		}
		return d.After, nil
	}
	created, err := r.create(ctx, &in, &d, &m)
	if d.Create == 0 && in.Refusal != nil && in.Retry.Before(in.Now.Time) {
		m.refusal = nil
	}
	after := Conclude(in, d, created, firstOf(refused, m.refusal))
	if !equality.Semantic.DeepEqual(in.Group, after) {
		m.wrote = r.config.Now()
		err = errors.Join(err, r.writer.Status(ctx, in.Group, after))
	}
	r.memories.Store(in.Group.UID, m)
	if refused != nil || m.refusal != nil {
		d.After = wake.Sooner(d.After, apply.RefusedAgain)
	}
	return d.After, err
}

// firstOf returns the first refusal; nil if there is none.
func firstOf(refusals ...*apply.Refusal) *apply.Refusal {
	for _, r := range refusals {
		if r != nil {
			return r
		}
	}
	return nil
}

// current returns a conflict unless the API server has the version of the group that the decision is about, if
// pods are created or deleted.
func (r *Reconciler) current(ctx context.Context, in Input, d Decision) error {
	if d.Create == 0 && len(d.Steps) == 0 {
		return nil
	}
	g, live := in.Group, &crdv1.JobRunnerGroup{}
	if err := r.config.Live.Get(ctx, client.ObjectKeyFromObject(g), live); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read runner group %s/%s: %w", g.Namespace, g.Name, err)
	}
	if live.UID != g.UID || live.ResourceVersion != g.ResourceVersion {
		return apply.Overtaken(crdv1.KindJobRunnerGroup, g.Name, "it changed since it was read")
	}
	return nil
}

// serve writes the Service of a group, or deletes it when the group ends.
//
// +kubebuilder:rbac:groups="",resources=services,verbs=get;list;watch;create;patch;delete
func (r *Reconciler) serve(ctx context.Context, in Input) (*apply.Refusal, error) {
	want, have := jobpod.Service(in.Group), &corev1.Service{}
	err := r.config.Client.Get(ctx, client.ObjectKeyFromObject(want), have)
	if apierrors.IsNotFound(err) {
		have, err = nil, nil
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the Service of runner group %s/%s: %w", in.Group.Namespace, in.Group.Name, err)
	case in.ending() && have != nil && apply.IsOwned(have, in.Group.UID):
		return nil, r.writer.Delete(ctx, have)
	case in.ending():
		return nil, nil
	}
	_, refused, err := apply.Try(ctx, r.writer, want, have)
	return refused, err
}

// step acts on one pod, if it has not changed since it was read.
//
// +kubebuilder:rbac:groups="",resources=pods,verbs=patch;delete
func (r *Reconciler) step(ctx context.Context, g *crdv1.JobRunnerGroup, s Step) error {
	p := s.Pod
	if len(s.Annotations) > 0 {
		p = s.Pod.DeepCopy()
		p.Annotations = lists.Merged(p.Annotations, s.Annotations)
		patch := client.MergeFromWithOptions(s.Pod, client.MergeFromWithOptimisticLock{})
		if err := r.config.Client.Patch(ctx, p, patch, apply.FieldOwner); apierrors.IsNotFound(err) {
			return nil
		} else if err != nil {
			return fmt.Errorf("drain pod %s/%s: %w", p.Namespace, p.Name, err)
		}
	}
	if s.Dropped != "" {
		r.writer.Record(ctx, g, apply.Event{Type: corev1.EventTypeWarning, Reason: "ResultsDropped", Note: "Pod " + p.Name + ": " + s.Dropped})
	}
	if !s.Delete {
		return nil
	}
	err := r.config.Client.Delete(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}},
		client.Preconditions{UID: &p.UID, ResourceVersion: &p.ResourceVersion})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete pod %s/%s: %w", p.Namespace, p.Name, err)
	}
	return nil
}

// create creates pods until the API server refuses one, and returns those that exist now. The input has whether they
// redirect connections, and the decision their version.
//
// +kubebuilder:rbac:groups="",resources=pods,verbs=create
func (r *Reconciler) create(ctx context.Context, in *Input, d *Decision, m *memory) (created []crdv1.RunnerPod, err error) {
	if d.Create == 0 {
		return nil, nil
	}
	if r.config.CA != nil && in.Settings.CA == "" {
		return nil, fmt.Errorf("create the pods of runner group %s/%s: the certificates of the manager's authority are not known yet", in.Group.Namespace, in.Group.Name)
	}
	proof, err := r.config.Signer()
	if err != nil {
		return nil, fmt.Errorf("create the pods of runner group %s/%s: %w", in.Group.Namespace, in.Group.Name, err)
	}
	for range min(d.Create, atOnce) {
		pod, refused, err := r.createPod(ctx, in)
		d.Version = jobpod.Version(in.Group, in.Settings)
		if m.refusal, m.refused = refused, r.config.Now(); pod == nil {
			return created, err
		}
		created = append(created, crdv1.RunnerPod{Name: pod.Name, UID: pod.UID, Version: d.Version, Proof: proof(in.Group.UID, pod.UID)})
	}
	return created, nil
}

// refusal returns the refusal of a pod, with the remedy; nil if a retry can succeed.
func refusal(g *crdv1.JobRunnerGroup, pod *corev1.Pod, err error) *apply.Refusal {
	out := apply.RefusalOf(pod, err)
	if out == nil {
		return nil
	}
	out.Message = execunit.Refused(jobpod.OwnerOf(g), pod.Namespace, err.Error())
	if gone := out.Reason == apply.ReasonNamespaceTerminating; gone || out.Reason == apply.ReasonNamespaceNotFound {
		out.Message = execunit.WithoutNamespace(jobpod.OwnerOf(g), pod.Namespace, gone)
	}
	return out
}

// end records that a group has no pods, and removes its finalizer. The API server is asked, since a cache may
// lack a pod.
func (r *Reconciler) end(ctx context.Context, in Input, d Decision) error {
	g := in.Group
	var pods corev1.PodList
	if err := r.config.Live.List(ctx, &pods, client.InNamespace(g.Namespace), client.MatchingLabels(jobpod.Labels(g.Name))); err != nil {
		return fmt.Errorf("list the pods of runner group %s/%s: %w", g.Namespace, g.Name, err)
	}
	for i := range pods.Items {
		if apply.IsOwned(&pods.Items[i], g.UID) {
			return apply.Overtaken(crdv1.KindJobRunnerGroup, g.Name, "the cache lacks its pod "+pods.Items[i].Name)
		}
	}
	if _, err := r.serve(ctx, in); err != nil {
		return err
	}
	if err := r.writer.Status(ctx, g, Conclude(in, d, nil, nil)); err != nil {
		return err
	}
	r.memories.Delete(g.UID)
	return r.writer.RemoveFinalizer(ctx, g)
}
