package member

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/event"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/publish"
)

// Lifecycle is what all members go through, from their controllers' first look at them to
// what they leave behind. They have no finalizer, so the first that a controller hears of the
// end of one may be that it is not there any more (Gone). A member that is still there and is
// being deleted, because others keep it, ends as well (Deleted), and before anything is made
// for any other, what one of the same name has left is deleted, since there may have been one.
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
type Lifecycle struct {
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

// Begin begins each look at a member, and reports whether to go on. When it says no, the
// member is being deleted, which is done here; or what a former one of its name left is in
// the way, whose end leads back to it. An error means that it should be tried again.
func (l Lifecycle) Begin(ctx context.Context, m crdv1.Member) (bool, error) {
	if m.GetDeletionTimestamp() != nil {
		return false, l.Deleted(ctx, m)
	}
	if err := l.release(ctx, m); err != nil {
		return false, err
	}
	left, err := l.clear(ctx, m)
	return err == nil && !left, err
}

// Finish puts the fact of a member on the log (there is none where ok is false), then deletes
// what is surplus, to which requests are sent as long as the log names it, then writes the
// status: after is before with what was concluded. acted is what went wrong when that was acted on; then nothing is
// deleted. The error is all that should be tried again.
func (l Lifecycle) Finish(ctx context.Context, before, after crdv1.Member, fact event.Fact, ok bool, acted error, surplus []client.Object) error {
	stated, err := State(ctx, l.Publisher, after, fact, ok, l.Now())
	if stated && acted == nil {
		acted = l.Writer.DeleteSurplus(ctx, before, surplus...)
	}
	return errors.Join(acted, err, l.Writer.Status(ctx, before, after))
}

// Gone ends a member that the cache does not have. It may be called as often as it
// pleases: what is done already costs one read. When the API server has one of that
// name, which the cache will soon have too, it is not withdrawn: until it states
// how it is reached, requests go to what the former one made, and fail. An error
// means that it should be tried again.
func (l Lifecycle) Gone(ctx context.Context, name types.NamespacedName) error {
	live, err := l.live(ctx, name)
	if err != nil {
		return err
	}
	if live == "" {
		if err := l.withdraw(ctx, withdrawnByName(l.Kind, name.Namespace, name.Name)); err != nil {
			return err
		}
	}
	_, err = l.Writer.DeleteMade(ctx, l.maker(name), l.Makes, func(maker types.UID) (bool, error) { return maker != live, nil })
	return err
}

// clear deletes what a former member of the same kind and name has left, and reports
// whether something is left of it: then nothing should be made now, because the
// names are taken; the end of what was deleted leads back to the member. It reads
// from the cache alone as long as nothing is left.
func (l Lifecycle) clear(ctx context.Context, m crdv1.Member) (left bool, err error) {
	return l.Writer.DeleteOrphans(ctx, l.maker(client.ObjectKeyFromObject(m)), m.GetUID(), l.Makes...)
}

// Deleted ends a member that is being deleted and still there: it is withdrawn, what
// it made is deleted, and a finalizer that an older version of ours has put there is
// taken off. An error means that it should be tried again: so does a conflict, where
// the cache is behind and the API server has another member of that name, which may have
// been stated already. It is not taken back; the cache will hear of it.
func (l Lifecycle) Deleted(ctx context.Context, m crdv1.Member) error {
	live, err := l.live(ctx, client.ObjectKeyFromObject(m))
	if err != nil {
		return err
	}
	if live != "" && live != m.GetUID() {
		return apply.Overtaken(l.Kind, m.GetName(), "it was replaced by another object of the same name")
	}
	if err := l.withdraw(ctx, Withdrawn(m)); err != nil {
		return err
	}
	own := func(maker types.UID) (bool, error) { return maker == m.GetUID(), nil }
	if _, err := l.Writer.DeleteMade(ctx, l.maker(client.ObjectKeyFromObject(m)), l.Makes, own); err != nil {
		return err
	}
	return l.release(ctx, m)
}

// release takes off the finalizer that older versions have put on members. Without
// one it costs nothing.
func (l Lifecycle) release(ctx context.Context, m crdv1.Member) error {
	return l.Writer.RemoveFinalizer(ctx, m)
}

// withdraw states that a member is gone, which the publisher puts on the log only
// when that says otherwise.
func (l Lifecycle) withdraw(ctx context.Context, f event.Fact) error {
	f.Time = l.Now()
	ctx, cancel := context.WithTimeout(ctx, publish.PutTimeout)
	defer cancel()
	if _, err := l.Publisher.Put(ctx, f); err != nil {
		return fmt.Errorf("state that a member is gone: %w", err)
	}
	return nil
}

// live returns the UID of the member of this name, past the cache; empty when there
// is none.
func (l Lifecycle) live(ctx context.Context, name types.NamespacedName) (types.UID, error) {
	return l.Writer.LiveUID(ctx, crdv1.GroupVersion().WithKind(l.Kind), name)
}

// maker names the member of this name as one that made something.
func (l Lifecycle) maker(name types.NamespacedName) apply.Maker {
	return apply.Maker{Kind: l.Kind, Namespace: name.Namespace, Name: name.Name}
}
