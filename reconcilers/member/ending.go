package member

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/event"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/publish"
)

// IndexMaker is the name of an index that finds what members made by the kind and
// name of the member; MakerOf is what it is made with, and Maker gives its values.
// A name alone never makes something ours: see Ending.
const IndexMaker = "metadata.controller.member"

// Maker returns the value of IndexMaker for the member of this kind and name.
func Maker(kind, name string) string { return kind + "/" + name }

// MakerOf returns the member that is the controller of an object, if one is.
func MakerOf(o client.Object) []string {
	ref := metav1.GetControllerOfNoCopy(o)
	if ref == nil || ref.APIVersion != crdv1.APIVersion {
		return nil
	}
	if !crdv1.IsMember(ref.Kind) {
		return nil
	}
	return []string{Maker(ref.Kind, ref.Name)}
}

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
	// Writer deletes, and asks the API server past the cache.
	Writer apply.Writer
	// Publisher puts the withdrawal on the log.
	Publisher publish.Publisher
	// Now gives the time of facts.
	Now func() time.Time
	// Makes are empty lists of the kinds of objects that the controller makes for its
	// members, each with the index IndexMaker. They are read from the cache.
	Makes []client.ObjectList
}

// Gone ends a member that the cache does not have. It may be called as often as it
// pleases: what is done already costs one read. When the API server has one of that
// name, which the cache will soon have too, it is not withdrawn: until it states
// how it is reached, requests go to what the former one made, and fail. An error
// means that it should be tried again.
func (e Ending) Gone(ctx context.Context, kind, namespace, name string) error {
	live, err := e.live(ctx, kind, namespace, name)
	if err != nil {
		return err
	}
	if live == "" {
		if err := e.withdraw(ctx, withdrawnByName(kind, namespace, name)); err != nil {
			return err
		}
	}
	_, err = e.sweep(ctx, kind, namespace, name, func(maker types.UID) (bool, error) { return maker != live, nil })
	return err
}

// Clear deletes what a former member of the same kind and name has left, and reports
// whether something is left of it: then nothing should be made now, because the
// names are taken; the end of what was deleted leads back to the member. It reads
// from the cache alone as long as nothing is left.
func (e Ending) Clear(ctx context.Context, m crdv1.Member) (left bool, err error) {
	kind, namespace, name := m.MemberKind(), m.GetNamespace(), m.GetName()
	var live types.UID
	return e.sweep(ctx, kind, namespace, name, func(maker types.UID) (bool, error) {
		if maker == m.GetUID() {
			return false, nil
		}
		if live == "" {
			if live, err = e.live(ctx, kind, namespace, name); err != nil {
				return false, err
			}
		}
		// When the live one is another, the cache is behind, and what was made for it
		// may not be touched; what was made for this one goes when it is heard of.
		return live == m.GetUID(), nil
	})
}

// Deleted ends a member that is being deleted and still there: it is withdrawn, what
// it made is deleted, and a finalizer that an older version of ours has put there is
// taken off. An error means that it should be tried again: so does a conflict, where
// the cache is behind and the API server has another member of that name, which may have
// been stated already. It is not taken back; the cache will hear of it.
func (e Ending) Deleted(ctx context.Context, m crdv1.Member) error {
	live, err := e.live(ctx, m.MemberKind(), m.GetNamespace(), m.GetName())
	if err != nil {
		return err
	}
	if live != "" && live != m.GetUID() {
		return apierrors.NewConflict(schema.GroupResource{Group: crdv1.GroupVersion().Group, Resource: m.MemberKind()}, m.GetName(),
			errors.New("it was replaced by another object of the same name"))
	}
	if err := e.withdraw(ctx, Withdrawn(m)); err != nil {
		return err
	}
	own := func(maker types.UID) (bool, error) { return maker == m.GetUID(), nil }
	if _, err := e.sweep(ctx, m.MemberKind(), m.GetNamespace(), m.GetName(), own); err != nil {
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
func (e Ending) live(ctx context.Context, kind, namespace, name string) (types.UID, error) {
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(crdv1.GroupVersion().WithKind(kind))
	err := e.Writer.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, o)
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("ask whether %s %s/%s is still there: %w", kind, namespace, name, err)
	}
	return o.UID, nil
}

// sweep deletes what members of this kind and name made, where condemned says so of
// the UID of the member that made it, and reports whether it said so of any. What is
// being deleted already counts as well.
func (e Ending) sweep(ctx context.Context, kind, namespace, name string, condemned func(maker types.UID) (bool, error)) (left bool, err error) {
	for _, list := range e.Makes {
		fresh, ok := list.DeepCopyObject().(client.ObjectList)
		if !ok {
			return left, fmt.Errorf("%T is not a list", list)
		}
		err := e.Writer.Client.List(ctx, fresh, client.InNamespace(namespace),
			client.MatchingFields{IndexMaker: Maker(kind, name)}, client.UnsafeDisableDeepCopy)
		if err != nil {
			return left, fmt.Errorf("look for what %s %s/%s has left: %w", kind, namespace, name, err)
		}
		err = meta.EachListItem(fresh, func(item runtime.Object) error {
			o, ok := item.(client.Object)
			if !ok {
				return fmt.Errorf("%T is not an object", item)
			}
			yes, err := condemned(metav1.GetControllerOfNoCopy(o).UID)
			if err != nil || !yes {
				return err
			}
			left = true
			own, _ := o.DeepCopyObject().(client.Object) // It is shared with the cache.
			return e.Writer.Delete(ctx, own)
		})
		if err != nil {
			return left, err
		}
	}
	return left, nil
}
