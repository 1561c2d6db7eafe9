package lifecyclemethods

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"switchyard.dev/eventbus/lists"
	"switchyard.dev/eventbus/wake"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/workflows/engine"
	"switchyard.dev/workflows/execunit"
	"switchyard.dev/workflows/grant"
)

// act records the names of pods, creates them, records their UIDs, and then releases or deletes pods that
// are no longer needed.
func (r *Reconciler) act(ctx context.Context, in Input, d Decision) (time.Duration, error) {
	graph, units := &d.Pre, in.Object.Spec.PreStart
	if d.Posts {
		graph, units = &d.Post, in.Object.Spec.PostStop
	}
	in, err := r.record(ctx, in, units, d, graph)
	if err != nil {
		return 0, err
	}
	again, err := r.begin(ctx, in, units, graph)
	if err != nil {
		return 0, err // A pod that was created and is not recorded gets nothing, and is deleted later.
	}
	after := Conclude(in, d)
	if err := r.writer.Status(ctx, in.Object, after); err != nil {
		return 0, err
	}
	if err := r.release(ctx, in, after, *graph); err != nil {
		return 0, err
	}
	return wake.Sooner(d.After, again), nil
}

// record writes a random name for the pod of each unit that begins into the status, unless it has one, and returns the
// input with the object as it is then. Where all names were recorded before, it verifies that the
// object is the newest version instead, so that no pod is created twice because a cache is old.
func (r *Reconciler) record(ctx context.Context, in Input, units []crdv1.WorkUnit, d Decision, graph *engine.Decision) (Input, error) {
	fresh := false
	for i, u := range units {
		namespace := execunit.Namespace(u, in.Settings)
		if st := &graph.Status[i]; slices.Contains(graph.Begin, u.Name) && engine.Unnamed(*st, namespace) {
			who := in.identity(u.Name, st.Attempt+1)
			*st = engine.Named(u, *st, crdv1.NamespacedName{Namespace: namespace, Name: execunit.PodName(who, r.config.Random())})
			fresh = true
		}
	}
	switch {
	case fresh:
		recorded := Conclude(in, d)
		if err := r.writer.Status(ctx, in.Object, recorded); err != nil {
			return in, err
		}
		in.Object = recorded
	case len(graph.Begin) > 0:
		live := &crdv1.SignadotObjectLifecycleMethods{}
		if err := r.config.Live.Get(ctx, client.ObjectKeyFromObject(in.Object), live); err != nil {
			return in, fmt.Errorf("read %s %s: %w", crdv1.KindLifecycleMethods, in.Object.Name, err)
		}
		if live.UID != in.Object.UID || live.ResourceVersion != in.Object.ResourceVersion {
			return in, apply.Overtaken(crdv1.KindLifecycleMethods, in.Object.Name, "it changed since it was read")
		}
	}
	return in, nil
}

// random returns 80 random bits as lower-case letters and digits.
func random() string { return strings.ToLower(rand.Text())[:16] }

// begin creates the pods of the units that begin, and notes them in the status of the graph. It
// returns when to try again what did not succeed; 0: all did.
//
// +kubebuilder:rbac:groups="",resources=pods,verbs=create;patch;delete
func (r *Reconciler) begin(ctx context.Context, in Input, units []crdv1.WorkUnit, d *engine.Decision) (again time.Duration, err error) {
	if len(d.Begin) > 0 {
		// Without the authority's key a pod would be created in vain.
		if _, err := r.config.Sign(nil); err != nil {
			return 0, fmt.Errorf("sign grants of pods: %w", err)
		}
	}
	for i, u := range units {
		if !slices.Contains(d.Begin, u.Name) {
			continue
		}
		wait, err := r.create(ctx, in, u, &d.Status[i])
		if err != nil {
			return again, err
		}
		again = wake.Sooner(again, wait)
	}
	return again, nil
}

// nameTakenAgain is the delay before a unit gets another name after its pod's name was taken.
const nameTakenAgain = 500 * time.Millisecond

// create creates the pod of an attempt and notes it in the unit's status. A pod that has the name
// already is never adopted: the unit gets another name. It returns when to try again; 0: it need
// not be.
func (r *Reconciler) create(ctx context.Context, in Input, u crdv1.WorkUnit, st *crdv1.WorkUnitStatus) (again time.Duration, err error) {
	who := in.identity(u.Name, st.Attempt+1)
	who.Pod = st.ExecUnit.Name
	pod := execunit.Pod(u, who, in.Settings)
	pod.Namespace = st.ExecUnit.Namespace
	want := pod.DeepCopy()
	err = r.config.Client.Create(ctx, pod, apply.FieldOwner)
	if apierrors.IsAlreadyExists(err) {
		*st = engine.Renamed(*st, apply.ReasonNameTaken, fmt.Sprintf("Pod %s/%s exists already. Another name is chosen.", want.Namespace, want.Name), in.Now)
		return nameTakenAgain, nil
	}
	if err != nil {
		if refusal := RefusedPod(u.Name, want, err); refusal != nil {
			*st = engine.Refused(*st, refusal.Reason, refusal.Message, in.Now)
			return apply.RefusedAgain, nil
		}
		return 0, fmt.Errorf("create pod %s/%s of step %s: %w", want.Namespace, want.Name, u.Name, err)
	}
	signed, err := grant.Sign(grant.Grant{
		Lifecycle: in.Object.UID, Unit: u.Name, Attempt: who.Attempt, Form: engine.Form(u),
		Namespace: pod.Namespace, Pod: pod.Name, PodUID: string(pod.UID), Rights: execunit.RightsOf(u, in.Settings),
	}, r.config.Sign)
	if err != nil {
		return 0, err
	}
	*st = engine.Began(u, *st, string(pod.UID), signed, in.Now)
	return 0, nil
}

// RefusedPod returns the refusal of a unit's pod, with the remedy, if err, from its creation, is permanent;
// nil if a retry can succeed.
func RefusedPod(unit string, pod *corev1.Pod, err error) *apply.Refusal {
	refusal := apply.RefusalOf(pod, err)
	if refusal == nil {
		return nil
	}
	refusal.Message = execunit.Refused(execunit.OwnerOf(unit), pod.Namespace, err.Error())
	if gone := refusal.Reason == apply.ReasonNamespaceTerminating; gone || refusal.Reason == apply.ReasonNamespaceNotFound {
		refusal.Message = execunit.WithoutNamespace(execunit.OwnerOf(unit), pod.Namespace, gone)
	}
	return refusal
}

// release removes the finalizer of pods with a recorded end, and deletes pods that are no longer needed.
// after has the status as it is recorded now.
func (r *Reconciler) release(ctx context.Context, in Input, after *crdv1.SignadotObjectLifecycleMethods, d engine.Decision) error {
	recorded := slices.Concat(after.Status.PreCreate, after.Status.PostStop)
	var errs []error
	for _, p := range in.Pods {
		fate := FateOf(p, recorded)
		if fate == Keep && slices.Contains(d.End, p.Labels[crdv1.LabelUnit]) {
			errs = append(errs, r.writer.Delete(ctx, p)) // Its end is seen, and recorded, later.
			continue
		}
		switch fate {
		case Remove:
			errs = append(errs, r.remove(ctx, p))
		case Release:
			errs = append(errs, r.writer.RemoveFinalizer(ctx, p.DeepCopy()))
		case Keep:
		}
	}
	return errors.Join(errs...)
}

// remove deletes a pod. It removes the finalizer first, because the deletion would change the resource
// version that was read.
func (r *Reconciler) remove(ctx context.Context, p *corev1.Pod) error {
	return errors.Join(r.writer.RemoveFinalizer(ctx, p.DeepCopy()), r.writer.Delete(ctx, p))
}

// end deletes the pods and values of an object, and then removes its finalizer.
func (r *Reconciler) end(ctx context.Context, in Input, d Decision) error {
	if len(d.LeftBehind) > 0 {
		left := strings.Join(d.LeftBehind, ", ")
		log.FromContext(ctx).Info("gave up, as its annotation requests: objects that these steps would have deleted may remain", "units", left)
		r.writer.Record(ctx, in.Object, apply.Event{Type: corev1.EventTypeWarning, Reason: "GaveUp", Note: "Objects that these steps would have deleted may remain: " + left + "."})
	}
	if err := r.writer.Status(ctx, in.Object, Conclude(in, d)); err != nil {
		return err
	}
	errs := lists.Map(in.Pods, func(p *corev1.Pod) error { return r.remove(ctx, p) })
	errs = append(errs, r.values.DeleteAll(ctx, in.Object))
	if err := errors.Join(errs...); err != nil {
		return err
	}
	r.synced.Delete(in.Object.UID)
	return r.writer.RemoveFinalizer(ctx, in.Object)
}

// held reports whether an object has the operator's finalizer.
func held(o client.Object) bool { return controllerutil.ContainsFinalizer(o, crdv1.Finalizer) }

// orphans deletes the pods of previous objects of this name: those that belong neither to the object in
// the cache (known; empty if the cache has none) nor to the object at the API server. A manager with a
// stale cache can create a pod for a deleted object; the pod runs nothing, but the operator's finalizer
// would keep it.
func (r *Reconciler) orphans(ctx context.Context, name string, known types.UID) error {
	pods, err := r.podsOf(ctx, name)
	if err != nil {
		return err
	}
	var errs []error
	live, asked := types.UID(""), false
	for _, p := range pods {
		owner := metav1.GetControllerOfNoCopy(p)
		if owner.UID == known {
			continue
		}
		if !asked {
			if live, err = r.writer.LiveUID(ctx, crdv1.GroupVersion().WithKind(crdv1.KindLifecycleMethods), client.ObjectKey{Name: name}); err != nil {
				return err
			}
			asked = true
		}
		if owner.UID != live {
			errs = append(errs, r.remove(ctx, p))
		}
	}
	return errors.Join(errs...)
}
