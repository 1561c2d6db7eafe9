package apply

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// DeleteSurplus deletes what an object does not ask for any more. Where there is
// something to delete, it first asks past the cache whether the object is still the
// version that the caller has read: an old one, as the cache of a leader that starts
// may have, does not know yet what is asked for, and what is wanted would go. Then it
// returns a conflict, and should be tried again.
func (w Writer) DeleteSurplus(ctx context.Context, of client.Object, surplus ...client.Object) error {
	if len(surplus) == 0 {
		return nil
	}
	kind, err := w.Client.GroupVersionKindFor(of)
	if err != nil {
		return fmt.Errorf("find the kind of %s: %w", Describe(of), err)
	}
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(kind)
	if err := w.Live.Get(ctx, client.ObjectKeyFromObject(of), live); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("read %s %s: %w", kind.Kind, client.ObjectKeyFromObject(of), err)
	}
	if live.UID != of.GetUID() || live.ResourceVersion != of.GetResourceVersion() {
		return apierrors.NewConflict(schema.GroupResource{Group: kind.Group, Resource: kind.Kind}, of.GetName(),
			errors.New("it changed since it was read, so it is not deleted"))
	}
	var errs []error
	for _, o := range surplus {
		own, ok := o.DeepCopyObject().(client.Object)
		if ok {
			errs = append(errs, w.Delete(ctx, own))
		}
	}
	return errors.Join(errs...)
}
