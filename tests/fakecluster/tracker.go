package fakecluster

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/inmemory"
)

// tracker stores the objects. On writes it adds the fields that an API server sets.
type tracker struct {
	clienttesting.ObjectTracker
	now func() time.Time
	// writes counts writes, made the objects that were given a UID.
	writes atomic.Int64
	made   int
}

func newTracker(s *runtime.Scheme, now func() time.Time) *tracker {
	return &tracker{now: now, ObjectTracker: inmemory.NewTracker(s)}
}

// Create implements clienttesting.ObjectTracker. Who creates an object learns its UID.
func (t *tracker) Create(gvr schema.GroupVersionResource, o runtime.Object, ns string, options ...metav1.CreateOptions) error {
	if _, err := t.complete(nil, o); err != nil {
		return err
	}
	err := t.ObjectTracker.Create(gvr, o, ns, options...)
	if err == nil {
		t.writes.Add(1)
	}
	return err
}

// Update implements clienttesting.ObjectTracker.
func (t *tracker) Update(gvr schema.GroupVersionResource, o runtime.Object, ns string, options ...metav1.UpdateOptions) error {
	return t.write(gvr, o, ns, func() error { return t.ObjectTracker.Update(gvr, o, ns, options...) })
}

// Patch implements clienttesting.ObjectTracker.
func (t *tracker) Patch(gvr schema.GroupVersionResource, o runtime.Object, ns string, options ...metav1.PatchOptions) error {
	return t.write(gvr, o, ns, func() error { return t.ObjectTracker.Patch(gvr, o, ns, options...) })
}

// Apply implements clienttesting.ObjectTracker.
func (t *tracker) Apply(gvr schema.GroupVersionResource, o runtime.Object, ns string, options ...metav1.PatchOptions) error {
	return t.write(gvr, o, ns, func() error { return t.ObjectTracker.Apply(gvr, o, ns, options...) })
}

// Delete implements clienttesting.ObjectTracker.
func (t *tracker) Delete(gvr schema.GroupVersionResource, ns, name string, options ...metav1.DeleteOptions) error {
	err := t.ObjectTracker.Delete(gvr, ns, name, options...)
	if err == nil {
		t.writes.Add(1)
	}
	return err
}

// trials returns the tracker for writes that restore an object, which count for nothing: nor does
// the write before.
func (t *tracker) trials() clienttesting.ObjectTracker { return trials{t.ObjectTracker, t} }

type trials struct {
	clienttesting.ObjectTracker
	of *tracker
}

// Update implements clienttesting.ObjectTracker.
func (t trials) Update(gvr schema.GroupVersionResource, o runtime.Object, ns string, options ...metav1.UpdateOptions) error {
	t.of.writes.Add(-1)
	return t.ObjectTracker.Update(gvr, o, ns, options...)
}

// write writes an object and adds the missing fields. Writes are serialized by a lock of the fake
// client.
func (t *tracker) write(gvr schema.GroupVersionResource, o runtime.Object, ns string, do func() error) error {
	m, err := meta.Accessor(o)
	if err != nil {
		return err
	}
	before, err := t.Get(gvr, ns, m.GetName())
	if err != nil {
		before = nil
	}
	if err := do(); err != nil {
		return err
	}
	t.writes.Add(1)
	after, err := t.Get(gvr, ns, m.GetName())
	if err != nil {
		return err
	}
	if changed, err := t.complete(before, after); err != nil || !changed {
		return err
	}
	return t.ObjectTracker.Update(gvr, after, ns)
}

// complete adds what an API server adds, and reports whether that was anything: before is the
// object as it was, nil for a new one.
func (t *tracker) complete(before, after runtime.Object) (changed bool, err error) {
	now, err := meta.Accessor(after)
	if err != nil {
		return false, err
	}
	service, _ := after.(*corev1.Service)
	if before == nil {
		t.made++
		now.SetUID(types.UID(fmt.Sprintf("uid-%d", t.made)))
		now.SetGeneration(1)
		if made := now.GetCreationTimestamp(); made.IsZero() { // A scenario can set an earlier time.
			now.SetCreationTimestamp(metav1.NewTime(t.now()))
		}
		if service != nil && service.Spec.ClusterIP == "" {
			service.Spec.ClusterIP = fmt.Sprintf("10.96.0.%d", t.made)
		}
		return true, nil
	}
	was, err := meta.Accessor(before)
	if err != nil {
		return false, err
	}
	if was.GetDeletionTimestamp() == nil && now.GetDeletionTimestamp() != nil {
		deleted := metav1.NewTime(t.now())
		now.SetDeletionTimestamp(&deleted)
		changed = true
	}
	same, err := sameSpec(before, after)
	if _, ok := after.(*appsv1.Deployment); ok { // Of these annotations count as well.
		same = same && maps.Equal(was.GetAnnotations(), now.GetAnnotations())
	}
	if same && now.GetUID() == was.GetUID() || err != nil {
		return changed, err
	}
	now.SetUID(was.GetUID())
	now.SetCreationTimestamp(was.GetCreationTimestamp())
	now.SetGeneration(was.GetGeneration())
	if !same {
		now.SetGeneration(was.GetGeneration() + 1)
	}
	if service != nil && service.Spec.ClusterIP == "" {
		service.Spec.ClusterIP = before.(*corev1.Service).Spec.ClusterIP
	}
	return true, nil
}

// sameSpec reports whether two objects have the same spec.
func sameSpec(a, b runtime.Object) (bool, error) {
	of := runtime.DefaultUnstructuredConverter
	inA, err := of.ToUnstructured(a)
	if err != nil {
		return false, err
	}
	inB, err := of.ToUnstructured(b)
	return reflect.DeepEqual(inA["spec"], inB["spec"]), err
}

// replicaSets is a kind that the cluster has no objects of: Collect keeps pods that name one as their owner.
const replicaSets = "ReplicaSet"

// Collect deletes the dependents of deleted controllers, as the garbage collector of Kubernetes does.
func (w *Cluster) Collect(ctx context.Context) error {
	lists := []client.ObjectList{&corev1.ServiceList{}, &appsv1.DeploymentList{}, &discoveryv1.EndpointSliceList{}, &corev1.PodList{}, &corev1.SecretList{}}
	for _, kind := range crdv1.Kinds() {
		lists = append(lists, kind.NewList())
	}
	there := map[types.UID]bool{}
	var all []client.Object
	for _, list := range lists {
		items, err := w.list(ctx, list)
		if err != nil {
			return err
		}
		for _, o := range items {
			there[o.GetUID()] = true
		}
		all = append(all, items...)
	}
	for _, o := range all {
		if ref := metav1.GetControllerOfNoCopy(o); ref != nil && ref.Kind != replicaSets && !there[ref.UID] && o.GetDeletionTimestamp() == nil {
			if err := client.IgnoreNotFound(w.Client.Delete(ctx, o)); err != nil {
				return err
			}
		}
	}
	return nil
}
