package apply

import (
	"context"
	"errors"
	"fmt"

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
	live, err := w.live(ctx, kind, client.ObjectKeyFromObject(of))
	if err != nil {
		return err
	}
	if live == nil || live.UID != of.GetUID() || live.ResourceVersion != of.GetResourceVersion() {
		return Overtaken(kind.Kind, of.GetName(), "it changed since it was read, so what it does not ask for is not deleted")
	}
	var errs []error
	for _, o := range surplus {
		errs = append(errs, w.Delete(ctx, o))
	}
	return errors.Join(errs...)
}

// Objects returns the objects of a list of one kind.
func Objects[O client.Object](list []O) []client.Object {
	out := make([]client.Object, 0, len(list))
	for _, o := range list {
		out = append(out, o)
	}
	return out
}
