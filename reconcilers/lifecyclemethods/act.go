package lifecyclemethods

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/workflows/engine"
	"switchyard.dev/workflows/execunit"
)

// act makes the pods of units that begin, records everything, and then lets go or takes away
// what is of no use any more.
func (r *Reconciler) act(ctx context.Context, in Input, d Decision) (time.Duration, error) {
	graph, units := &d.Pre, in.Object.Spec.PreStart
	if d.Posts {
		graph, units = &d.Post, in.Object.Spec.PostStop
	}
	refused, err := r.begin(ctx, in, units, graph)
	if err != nil {
		return 0, err // What was made is found again, and has run nothing.
	}
	after := Conclude(in, d)
	if err := r.writer.Status(ctx, in.Object, after); err != nil {
		return 0, err
	}
	if err := r.release(ctx, in, after, *graph); err != nil {
		return 0, err
	}
	if refused && (d.After == 0 || d.After > apply.RefusedAgain) {
		d.After = apply.RefusedAgain
	}
	return d.After, nil
}

// begin makes the pods of the units that begin, and notes them in the status of the graph. It
// reports whether one was refused.
//
// +kubebuilder:rbac:groups="",resources=pods,verbs=create;patch;delete
func (r *Reconciler) begin(ctx context.Context, in Input, units []crdv1.WorkUnit, d *engine.Decision) (refused bool, err error) {
	for i, u := range units {
		if !slices.Contains(d.Begin, u.Name) {
			continue
		}
		st := &d.Status[i]
		pod, refusal, err := r.make(ctx, in, u, st.Attempt+1)
		switch {
		case err != nil:
			return refused, err
		case refusal != nil:
			refused = true
			*st = engine.Refused(u, *st, refusal.Reason, refusal.Message, in.Now)
		default:
			*st = engine.Began(u, *st, crdv1.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, string(pod.UID), in.Now)
		}
	}
	return refused, nil
}

// make makes the pod of an attempt, or returns the one that a former look made.
func (r *Reconciler) make(ctx context.Context, in Input, u crdv1.WorkUnit, attempt int32) (*corev1.Pod, *apply.Refusal, error) {
	pod := execunit.Pod(u, in.identity(u.Name, attempt), in.Settings)
	want := pod.DeepCopy()
	err := r.config.Client.Create(ctx, pod, apply.FieldOwner)
	if apierrors.IsAlreadyExists(err) {
		have := &corev1.Pod{}
		if err := r.config.Live.Get(ctx, client.ObjectKeyFromObject(want), have); err != nil {
			return nil, nil, fmt.Errorf("read pod %s/%s of unit %s: %w", want.Namespace, want.Name, u.Name, err)
		}
		if !apply.IsOwned(have, in.Object.UID) {
			return nil, &apply.Refusal{Reason: apply.ReasonNameTaken, Message: fmt.Sprintf(
				"Pod %s/%s is there and was not made for this unit. Delete or rename it.", have.Namespace, have.Name)}, nil
		}
		return have, nil, nil
	}
	if err == nil {
		return pod, nil, nil
	}
	if refusal := apply.RefusalOf(want, err); refusal != nil {
		return nil, refusal, nil
	}
	return nil, nil, fmt.Errorf("make pod %s/%s of unit %s: %w", want.Namespace, want.Name, u.Name, err)
}

// release lets go, or takes away, pods whose attempt has ended. after has the status as it is
// recorded now.
func (r *Reconciler) release(ctx context.Context, in Input, after *crdv1.SignadotObjectLifecycleMethods, d engine.Decision) error {
	recorded := slices.Concat(after.Status.PreCreate, after.Status.PostStop)
	var errs []error
	for _, p := range in.Pods {
		fate := FateOf(p, recorded, d.Begin)
		if fate == Keep && slices.Contains(d.End, p.Labels[crdv1.LabelUnit]) {
			errs = append(errs, r.writer.Delete(ctx, p)) // Its end is seen, and recorded, later.
			continue
		}
		switch fate {
		case Remove:
			errs = append(errs, r.remove(ctx, p))
		case Release:
			errs = append(errs, r.letGo(ctx, p))
		case Keep:
		}
	}
	return errors.Join(errs...)
}

// remove takes a pod away. It is let go first: to delete it would make it another version than the
// one that we have seen.
func (r *Reconciler) remove(ctx context.Context, p *corev1.Pod) error {
	return errors.Join(r.letGo(ctx, p), r.writer.Delete(ctx, p))
}

// letGo takes our finalizer off a pod.
func (r *Reconciler) letGo(ctx context.Context, p *corev1.Pod) error {
	if !controllerutil.ContainsFinalizer(p, crdv1.Finalizer) {
		return nil
	}
	before := p.DeepCopy()
	changed := p.DeepCopy()
	controllerutil.RemoveFinalizer(changed, crdv1.Finalizer)
	// The pod that we have seen, and no other of its name.
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	err := r.config.Client.Patch(ctx, changed, patch, apply.FieldOwner)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("let go pod %s/%s: %w", p.Namespace, p.Name, err)
	}
	return nil
}

// end takes away all that was made for an object, and lets it go.
func (r *Reconciler) end(ctx context.Context, in Input, d Decision) error {
	if len(d.LeftBehind) > 0 {
		left := strings.Join(d.LeftBehind, ", ")
		log.FromContext(ctx).Info("gave up, as its annotation asks: what these units would have removed may be left behind", "units", left)
		r.writer.Tell(ctx, in.Object, apply.Event{Type: corev1.EventTypeWarning, Reason: "GaveUp", Note: "What these units would have removed may be left behind: " + left + "."})
	}
	if err := r.writer.Status(ctx, in.Object, Conclude(in, d)); err != nil {
		return err
	}
	var errs []error
	for _, p := range in.Pods {
		errs = append(errs, r.remove(ctx, p))
	}
	errs = append(errs, r.values.DeleteAll(ctx, in.Object))
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return r.writer.RemoveFinalizer(ctx, in.Object)
}

// held reports whether an object has our finalizer.
func held(o client.Object) bool { return controllerutil.ContainsFinalizer(o, crdv1.Finalizer) }
