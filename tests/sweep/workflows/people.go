package workflows

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tools/wait"
)

const (
	// lookPause is the poll interval of users and of the other components of the cluster.
	lookPause = 50 * time.Millisecond
	// thinking is the response time of a user: long enough to see that no paused unit runs without
	// an answer.
	thinking = 400 * time.Millisecond
)

// Held is a unit that waited for a person.
type Held struct{ Unit, Phase, Reason, Message string }

// answer is a person that retries units that are held, as their messages advise.
func (r *run) answer(ctx context.Context) {
	for n := 1; ctx.Err() == nil; n++ {
		var err error
		for err == nil && len(r.waiting(ctx)) == 0 {
			err = wait.For(ctx, lookPause)
		}
		if wait.For(ctx, thinking) != nil {
			return
		}
		r.mu.Lock()
		for _, st := range r.waiting(ctx) {
			r.held[st.PodUID] = Held{st.Name, st.Phase, st.Reason, st.Message}
		}
		r.mu.Unlock()
		o := &crdv1.Resource{}
		o.Name = name
		patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"answer %d"}}}`, crdv1.AnnotationRetry, n))
		if err := r.w.people.Patch(ctx, o, patch); client.IgnoreNotFound(err) != nil && ctx.Err() == nil {
			r.w.logger.Warn("a person tries again", "error", err)
		}
		_ = wait.For(ctx, thinking) // until it is acted on
	}
}

// waiting returns the units that wait for a person.
func (r *run) waiting(ctx context.Context) []crdv1.WorkUnitStatus {
	o := &crdv1.SignadotObjectLifecycleMethods{}
	if err := r.w.people.Get(ctx, client.ObjectKey{Name: name}, o); err != nil {
		return nil // There is none, or it is looked for again.
	}
	return slices.DeleteFunc(slices.Concat(o.Status.PreCreate, o.Status.PostStop), func(st crdv1.WorkUnitStatus) bool {
		return st.Phase != crdv1.UnitFailed && st.Phase != crdv1.UnitLost
	})
}

// tidy deletes pods that have ended and have no finalizer.
func (r *run) tidy(ctx context.Context) {
	var pods corev1.PodList
	err := r.w.people.List(ctx, &pods, client.InNamespace(operatorNamespace), client.HasLabels{crdv1.LabelLifecycle})
	for i := range pods.Items {
		if p := &pods.Items[i]; ended(p) && len(p.Finalizers) == 0 {
			err = errors.Join(err, client.IgnoreNotFound(r.w.people.Delete(ctx, p, client.Preconditions{UID: &p.UID})))
		}
	}
	if err != nil && ctx.Err() == nil {
		r.w.logger.Error("pods that have ended are not deleted", "error", err)
	}
}

func ended(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// collect deletes objects that have lost their owner, as Kubernetes does.
func (r *run) collect(ctx context.Context) {
	for ctx.Err() == nil {
		if err := r.w.collectOnce(ctx); err != nil && ctx.Err() == nil {
			r.w.logger.Warn("the collector of garbage tries again", "error", err)
		}
		_ = wait.For(ctx, lookPause)
	}
}

func (w *World) collectOnce(ctx context.Context) error {
	var pods corev1.PodList
	var secrets corev1.SecretList
	var resources crdv1.ResourceList
	var methods crdv1.SignadotObjectLifecycleMethodsList
	// Dependents are read first: an owner that is not found then was deleted.
	if err := errors.Join(w.people.List(ctx, &pods), w.people.List(ctx, &secrets)); err != nil {
		return err
	}
	if err := errors.Join(w.people.List(ctx, &resources), w.people.List(ctx, &methods)); err != nil {
		return err
	}
	lives := map[types.UID]bool{}
	for i := range resources.Items {
		lives[resources.Items[i].UID] = true
	}
	for i := range methods.Items {
		lives[methods.Items[i].UID] = true
	}
	var all []client.Object
	for i := range pods.Items {
		all = append(all, &pods.Items[i])
	}
	for i := range secrets.Items {
		all = append(all, &secrets.Items[i])
	}
	var errs []error
	for _, o := range all {
		if owner := metav1.GetControllerOfNoCopy(o); owner != nil && !lives[owner.UID] && o.GetDeletionTimestamp() == nil {
			uid := o.GetUID()
			errs = append(errs, client.IgnoreNotFound(w.people.Delete(ctx, o, client.Preconditions{UID: &uid})))
		}
	}
	return errors.Join(errs...)
}
