package apply

import (
	"context"
	"errors"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/lists"
)

// DeleteSurplus deletes objects that their owner no longer needs. If there are any, it first confirms
// with an uncached read that the owner still has the version that the caller used: a stale one, as in
// the cache of a leader that has just started, would make it delete needed objects. Otherwise it
// returns a conflict, to be retried.
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
		return Overtaken(kind.Kind, of.GetName(), "it changed since it was read, so objects that it does not request are not deleted")
	}
	return errors.Join(lists.Map(surplus, func(o client.Object) error { return w.Delete(ctx, o) })...)
}

// Objects returns the objects of a list of one kind.
func Objects[O client.Object](list []O) []client.Object {
	return lists.Map(list, func(o O) client.Object { return o })
}

// Try is Apply with a refusal as a result of its own: then it returns no object. With an error
// that another attempt may clear it returns have.
func Try[T any, P Object[T]](ctx context.Context, w Writer, want, have P) (P, *Refusal, error) {
	now, err := Apply(ctx, w, want, have)
	if r := new(Refusal); errors.As(err, &r) {
		return nil, r, nil
	}
	if err != nil {
		return have, nil, err
	}
	return now, nil, nil
}
