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
	"switchyard.dev/sidecars/inject"
)

// Lifecycle is the common life cycle of members, from the first reconciliation to cleanup. They have no
// finalizer, so a controller may first learn of a deletion when the member no longer exists (Gone). A
// member that others keep while it is being deleted is cleaned up as well (Deleted). Before objects are
// created for any other member, those of a previous member of the same name are deleted.
//
// The log always comes first: only objects that it no longer names are deleted. These have a controller
// with the member's kind and name, but not the UID of the live member, which is read from the API
// server: the cache may lack a deletion or a new member. So a re-created member keeps its objects,
// objects of other owners are not touched, and cleanup does not depend on the cluster's garbage
// collector.
//
// Until the withdrawal is on the log, requests are routed to the member's objects. They fail once these
// are deleted; none reaches the baseline before the withdrawal.
type Lifecycle struct {
	// Kind is the kind of the members.
	Kind string
	// Writer deletes objects, and has uncached reads.
	Writer apply.Writer
	// Publisher puts the withdrawal on the log.
	Publisher publish.Publisher
	// Now returns the time of facts.
	Now func() time.Time
	// Makes are empty lists of the kinds of objects that the controller makes for its
	// members, each with the index apply.IndexMaker. They are read from the cache.
	Makes []client.ObjectList
}

// Begin starts the reconciliation of a member. It returns false if reconciliation should stop: the
// member is being deleted, which Begin completes, or objects of a previous member of that name are
// still being deleted (their deletion requeues it). Errors are to be retried.
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

// Finish puts the fact of a member on the log (none if ok is false), then deletes surplus objects,
// which get requests as long as the log names them, then writes the status of after, a changed copy of
// before. acted is an earlier error of the reconciliation; if it is not nil, nothing is deleted. The
// returned error joins all errors to retry.
func (l Lifecycle) Finish(ctx context.Context, before, after crdv1.Member, fact event.Fact, ok bool, acted error, surplus []client.Object) error {
	stated, err := State(ctx, l.Publisher, after, fact, ok, l.Now())
	if stated && acted == nil {
		acted = l.Writer.DeleteSurplus(ctx, before, surplus...)
	}
	return errors.Join(acted, err, l.Writer.Status(ctx, before, after))
}

// Gone cleans up after a member that is not in the cache. It is idempotent; a repeated call costs one
// read. If the API server has a member of that name, which the cache does not have yet, it is not
// withdrawn: until its fact is on the log, requests are routed to the objects of the previous one, and
// fail. Errors are to be retried.
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

// clear deletes the objects of a previous member of the same kind and name, and reports whether some
// are left. Then nothing should be created yet, because the names are taken; their deletion requeues
// the member. It reads only from the cache if nothing is left.
func (l Lifecycle) clear(ctx context.Context, m crdv1.Member) (left bool, err error) {
	return l.Writer.DeleteOrphans(ctx, l.maker(client.ObjectKeyFromObject(m)), m.GetUID(), l.Makes...)
}

// Deleted cleans up a member that is being deleted and still exists: it withdraws it, deletes its
// objects, and removes a finalizer of an older version of the operator. Errors are to be retried. The
// error is a conflict if the API server has another member of that name, which may have its fact on the
// log already; that is not withdrawn.
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

// withdraw puts the withdrawal of a member on the log. The publisher skips it if the log has it
// already.
func (l Lifecycle) withdraw(ctx context.Context, f event.Fact) error {
	f.Time = l.Now()
	ctx, cancel := context.WithTimeout(ctx, publish.PutTimeout)
	defer cancel()
	if _, err := l.Publisher.Put(ctx, f); err != nil {
		return fmt.Errorf("publish the end of a member: %w", err)
	}
	return nil
}

// live returns the UID of the member of this name by an uncached read; empty if it does not exist.
func (l Lifecycle) live(ctx context.Context, name types.NamespacedName) (types.UID, error) {
	return l.Writer.LiveUID(ctx, crdv1.GroupVersion().WithKind(l.Kind), name)
}

// maker returns the Maker for the member of this name.
func (l Lifecycle) maker(name types.NamespacedName) apply.Maker {
	return apply.Maker{Kind: l.Kind, Namespace: name.Namespace, Name: name.Name}
}

// Write writes a member of any kind, as apply.Try does; have may be nil.
func Write(ctx context.Context, w apply.Writer, want, have crdv1.Member) (crdv1.Member, *apply.Refusal, error) {
	switch want := want.(type) {
	case *crdv1.ForkedWorkload:
		return writeAs(ctx, w, want, have)
	case *crdv1.SignadotExternalWorkload:
		return writeAs(ctx, w, want, have)
	case *crdv1.VirtualWorkload:
		return writeAs(ctx, w, want, have)
	}
	return nil, nil, fmt.Errorf("write a member: %T is none", want)
}

// writeAs writes a member of one kind.
func writeAs[T any, P interface {
	apply.Object[T]
	crdv1.Member
}](ctx context.Context, w apply.Writer, want P, have crdv1.Member) (crdv1.Member, *apply.Refusal, error) {
	mine, _ := have.(P) // nil when there is none
	now, refusal, err := apply.Try(ctx, w, want, mine)
	if now == nil {
		return nil, refusal, err
	}
	return now, refusal, err
}

// Needs has the common dependencies of the controllers of members. All fields but Injected and the
// Events of Access are required.
type Needs struct {
	apply.Access
	// Publisher puts facts on the routing log.
	Publisher publish.Publisher
	// Injected has the current settings of sidecar injection. Empty fields are unknown, and no pod is
	// reported as outdated because of them.
	Injected inject.Settings
}

// Validate returns an error if a required field is missing.
func (n Needs) Validate() error {
	if n.Publisher == nil {
		return errors.New("a Publisher is required")
	}
	return n.Access.Validate()
}

// Lifecycle returns the Lifecycle of the members of a kind. makes are empty lists of the kinds that its
// controller creates, each with the index apply.IndexMaker.
func (n Needs) Lifecycle(kind string, makes ...client.ObjectList) Lifecycle {
	return Lifecycle{Kind: kind, Writer: n.Writer(), Publisher: n.Publisher, Now: n.Now, Makes: makes}
}
