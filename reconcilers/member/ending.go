package member

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/event"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/publish"
)

// Ending ends what members leave behind. They have no finalizer, so the first that
// a controller hears of the end of one may be that it is not there any more: then
// call Gone. A member that is still there and is being deleted, because others keep
// it, is for Deleted; for every other member call Clear before anything is made for
// it, since one of the same name may have been there before.
//
// The log comes first, always: only what it does not name any more is deleted. What
// is deleted are objects whose controller, by kind and name, is the member, and
// whose UID is not that of the live one, for which the API server is asked past the
// cache: the cache may not have heard yet that a member is gone, or that there is a
// new one. So a new life of a member keeps what it made, nothing that others made is
// touched, and nothing depends on the garbage collection of the cluster, which does
// the same in its own time.
//
// Until the withdrawal is on the log requests go to what the member made. As that
// goes they fail; none goes to the baseline before.
type Ending struct {
	// Kind is the kind of the members.
	Kind string
	// Writer deletes, and asks the API server past the cache.
	Writer apply.Writer
	// Publisher puts the withdrawal on the log.
	Publisher publish.Publisher
	// Now gives the time of facts.
	Now func() time.Time
	// Makes are empty lists of the kinds of objects that the controller makes for its
	// members, each with the index apply.IndexMaker. They are read from the cache.
	Makes []client.ObjectList
}

// Gone ends a member that the cache does not have. It may be called as often as it
// pleases: what is done already costs one read. When the API server has one of that
// name, which the cache will soon have too, it is not withdrawn: until it states
// how it is reached, requests go to what the former one made, and fail. An error
// means that it should be tried again.
func (e Ending) Gone(ctx context.Context, name types.NamespacedName) error {
	live, err := e.live(ctx, name)
	if err != nil {
		return err
	}
	if live == "" {
		if err := e.withdraw(ctx, withdrawnByName(e.Kind, name.Namespace, name.Name)); err != nil {
			return err
		}
	}
	_, err = e.Writer.DeleteMade(ctx, e.maker(name), e.Makes, func(maker types.UID) (bool, error) { return maker != live, nil })
	return err
}

// Clear deletes what a former member of the same kind and name has left, and reports
// whether something is left of it: then nothing should be made now, because the
// names are taken; the end of what was deleted leads back to the member. It reads
// from the cache alone as long as nothing is left.
func (e Ending) Clear(ctx context.Context, m crdv1.Member) (left bool, err error) {
	return e.Writer.DeleteOrphans(ctx, e.maker(client.ObjectKeyFromObject(m)), m.GetUID(), e.Makes...)
}

// Deleted ends a member that is being deleted and still there: it is withdrawn, what
// it made is deleted, and a finalizer that an older version of ours has put there is
// taken off. An error means that it should be tried again: so does a conflict, where
// the cache is behind and the API server has another member of that name, which may have
// been stated already. It is not taken back; the cache will hear of it.
func (e Ending) Deleted(ctx context.Context, m crdv1.Member) error {
	live, err := e.live(ctx, client.ObjectKeyFromObject(m))
	if err != nil {
		return err
	}
	if live != "" && live != m.GetUID() {
		return apply.Overtaken(e.Kind, m.GetName(), "it was replaced by another object of the same name")
	}
	if err := e.withdraw(ctx, Withdrawn(m)); err != nil {
		return err
	}
	own := func(maker types.UID) (bool, error) { return maker == m.GetUID(), nil }
	if _, err := e.Writer.DeleteMade(ctx, e.maker(client.ObjectKeyFromObject(m)), e.Makes, own); err != nil {
		return err
	}
	return e.Release(ctx, m)
}

// Release takes off the finalizer that older versions have put on members. Without
// one it costs nothing.
func (e Ending) Release(ctx context.Context, m crdv1.Member) error {
	return e.Writer.RemoveFinalizer(ctx, m)
}

// withdraw states that a member is gone, which the publisher puts on the log only
// when that says otherwise.
func (e Ending) withdraw(ctx context.Context, f event.Fact) error {
	f.Time = e.Now()
	ctx, cancel := context.WithTimeout(ctx, publish.PutTimeout)
	defer cancel()
	if _, err := e.Publisher.Put(ctx, f); err != nil {
		return fmt.Errorf("state that a member is gone: %w", err)
	}
	return nil
}

// live returns the UID of the member of this name, past the cache; empty when there
// is none.
func (e Ending) live(ctx context.Context, name types.NamespacedName) (types.UID, error) {
	return e.Writer.LiveUID(ctx, crdv1.GroupVersion().WithKind(e.Kind), name)
}

// maker names the member of this name as one that made something.
func (e Ending) maker(name types.NamespacedName) apply.Maker {
	return apply.Maker{Kind: e.Kind, Namespace: name.Namespace, Name: name.Name}
}
