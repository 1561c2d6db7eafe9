package apply

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
)

// Writer writes objects to the API server.
type Writer struct {
	// Client writes.
	Client client.Client
	// Live reads from the API server. It is used only before creating an object, so that a stale cache
	// does not make the operator adopt or duplicate an object, or create one for an owner that is
	// deleted or at rest (the Live of package atrest).
	Live client.Reader
	// Events records Events about objects; nil: none are recorded.
	Events events.EventRecorder
}

// Object is a pointer to an object of type T.
type Object[T any] interface {
	*T
	client.Object
}

// Apply applies the object want and returns the stored object. want needs a kind, a name, and one of
// the operator's objects as its controller; have is the caller's copy, nil if there is none. It writes
// only if have is out of date. left lists fields that are left to other managers. The error is a
// *Refusal if a retry would not help. Any other error is to be retried, such as a conflict if the cache
// has an owner that is deleted or being deleted.
func Apply[T any, P Object[T]](ctx context.Context, w Writer, want, have P, left ...Left) (P, error) {
	owner := metav1.GetControllerOf(want)
	if owner == nil {
		return nil, fmt.Errorf("apply %s: it has no controller", Describe(want))
	}
	doc, err := document(want)
	if err != nil {
		return nil, fmt.Errorf("apply %s: %w", Describe(want), err)
	}
	uid, byPeople := types.UID(""), false
	switch {
	case have == nil:
		live, err := w.live(ctx, want.GetObjectKind().GroupVersionKind(), client.ObjectKeyFromObject(want))
		if err != nil {
			return nil, err
		}
		if live != nil && IsOwned(live, owner.UID) {
			uid = live.GetUID()
			break
		}
		if live != nil && !Restored(want, live) {
			return nil, taken(want, live)
		}
		if byPeople, err = w.lives(ctx, want, owner); err == nil && live != nil {
			uid, err = w.adopt(ctx, want, doc, left)
		}
		if err != nil {
			return nil, err
		}
	case !IsOwned(have, owner.UID) && Restored(want, have):
		return Apply[T, P](ctx, w, want, nil, left...) // It is compared with what the API server has.
	case !IsOwned(have, owner.UID):
		return nil, taken(want, have)
	default:
		if err := keep(doc, have, left); err != nil {
			return nil, fmt.Errorf("apply %s: %w", Describe(want), err)
		}
		if ok, err := inLine(doc, have); err != nil || ok {
			return have, err
		}
		uid = have.GetUID()
	}
	// With a UID the API server changes that very object or none.
	doc.SetUID(uid)
	out, err := write[T, P](ctx, w, want, doc, left)
	if err == nil && byPeople {
		// The owner may have been put to rest during the write; it then stays, so the garbage collector
		// never deletes the new object. The program that puts it to rest sets the mark before listing its
		// objects, and Apply checks the mark after the write, so that one of the two sees the other. If
		// the check fails, the new object is deleted too, and the next attempt re-creates it.
		if _, gone := w.lives(ctx, want, owner); gone != nil {
			return nil, errors.Join(gone, w.Delete(ctx, out))
		}
	}
	return out, err
}

// lives returns a conflict if the owner is deleted, replaced by another object of that name, being
// deleted, or at rest: an object created for it would run until something found it. byPeople is true if
// no object of the operator controls the owner, so that it can be put to rest.
func (w Writer) lives(ctx context.Context, want client.Object, owner *metav1.OwnerReference) (byPeople bool, err error) {
	key := client.ObjectKey{Name: owner.Name}
	if crdv1.Namespaced(owner.Kind) {
		key.Namespace = want.GetNamespace()
	}
	live, err := w.live(ctx, schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind), key)
	if err != nil {
		return false, err
	}
	if live != nil && live.GetUID() == owner.UID && live.GetDeletionTimestamp() == nil {
		return !isPart(live), nil
	}
	return false, Overtaken(want.GetObjectKind().GroupVersionKind().Kind, want.GetName(),
		fmt.Sprintf("%s %s, its owner, is missing, being deleted or at rest", owner.Kind, owner.Name))
}

// write applies the document and returns the answer in its type.
func write[T any, P Object[T]](ctx context.Context, w Writer, want P, doc *unstructured.Unstructured, left []Left) (P, error) {
	err := w.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(doc), FieldOwner)
	if yield(doc, err, left) {
		err = w.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(doc), FieldOwner)
	}
	if err != nil {
		err = refusalOf(doc, err)
		if errors.As(err, new(*Refusal)) {
			return nil, err
		}
		return nil, fmt.Errorf("apply %s: %w", Describe(want), err)
	}
	out := P(new(T))
	if u, ok := client.Object(out).(*unstructured.Unstructured); ok {
		u.Object = doc.Object
		return out, nil
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(doc.Object, out); err != nil {
		return nil, fmt.Errorf("read %s as it was written: %w", Describe(want), err)
	}
	return out, nil
}

// IsOwned reports whether the owner with this UID is the controller of the object. A name would not
// suffice, since names are reused.
func IsOwned(o metav1.Object, owner types.UID) bool {
	ref := metav1.GetControllerOfNoCopy(o)
	return ref != nil && ref.UID == owner && owner != ""
}

// Delete deletes this object, by UID, unless it is being deleted already. A missing object is not an
// error. o may be shared with a cache.
func (w Writer) Delete(ctx context.Context, o client.Object) error {
	if o.GetDeletionTimestamp() != nil {
		return nil
	}
	uid := o.GetUID()
	own, ok := o.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("delete %s: %T is not an object", Describe(o), o)
	}
	err := w.Client.Delete(ctx, own,
		client.Preconditions{UID: &uid}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("delete %s: %w", Describe(o), err)
	}
	return nil
}

// Overtaken returns a conflict: the cached version of an object is stale, for example on a leader that
// has just started. The object is reconciled again after the cache has been updated.
func Overtaken(kind, name, why string) error {
	return apierrors.NewConflict(schema.GroupResource{Resource: kind}, name, errors.New(why))
}

// LiveUID returns the UID of an object by an uncached read; empty if it does not exist.
func (w Writer) LiveUID(ctx context.Context, kind schema.GroupVersionKind, key client.ObjectKey) (types.UID, error) {
	live, err := w.live(ctx, kind, key)
	if err != nil || live == nil {
		return "", err
	}
	return live.UID, nil
}

// live reads the metadata of an object from the API server; nil if it does not exist.
func (w Writer) live(ctx context.Context, kind schema.GroupVersionKind, key client.ObjectKey) (*metav1.PartialObjectMetadata, error) {
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(kind)
	err := w.Live.Get(ctx, key, live)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s %s past the cache: %w", kind.Kind, strings.TrimPrefix(key.String(), "/"), err)
	}
	return live, nil
}

// RefusedAgain is the retry interval after a refusal, since its cause may change without a watched
// event: rights, or an object of another owner.
const RefusedAgain = 15 * time.Second

// Access is the access of every controller to the cluster. All fields but Events are required.
type Access struct {
	// Client reads from the cache and writes to the API server.
	Client client.Client
	// Live reads from the API server.
	Live client.Reader
	// Now returns the time for conditions and facts.
	Now func() time.Time
	// Events records Events about objects; nil: none are recorded.
	Events events.EventRecorder
}

// Validate returns an error if a required field is missing.
func (a Access) Validate() error {
	if a.Client == nil || a.Live == nil || a.Now == nil {
		return errors.New("Client, Live and Now are all required")
	}
	return nil
}

// Writer returns the Writer with this access.
func (a Access) Writer() Writer { return Writer{Client: a.Client, Live: a.Live, Events: a.Events} }

// Uncached returns a client with uncached reads, for objects that must not be kept in memory, such as
// Secrets.
func (a Access) Uncached() client.Client { return uncached{a.Client, a.Live} }

// uncached reads from the API server.
type uncached struct {
	client.Client
	live client.Reader
}

func (c uncached) Get(ctx context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	return c.live.Get(ctx, key, o, options...)
}

func (c uncached) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	return c.live.List(ctx, list, options...)
}

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
