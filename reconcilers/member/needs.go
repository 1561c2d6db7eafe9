package member

import (
	"context"
	"errors"

	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/publish"
	"switchyard.dev/sidecars/inject"
)

// Needs are what the controllers of members of every kind need. All fields but Injected
// and the Events of Access are required.
type Needs struct {
	apply.Access
	// Publisher puts facts on the routing log.
	Publisher publish.Publisher
	// Injected is what pods get from their injection now; what is empty is not known,
	// and no pod is called outdated for it.
	Injected inject.Settings
}

// Validate names what is missing.
func (n Needs) Validate() error {
	if n.Publisher == nil {
		return errors.New("a Publisher is required")
	}
	return n.Access.Validate()
}

// Ending returns what ends members of a kind, for which a controller makes objects of these
// kinds: empty lists, each with the index apply.IndexMaker.
func (n Needs) Ending(kind string, makes ...client.ObjectList) Ending {
	return Ending{Kind: kind, Writer: n.Writer(), Publisher: n.Publisher, Now: n.Now, Makes: makes}
}

// Begin begins each look at a member, and reports whether to go on. When it says no, the
// member is being deleted, which is done here; or what a former one of its name left is in
// the way, whose end leads back to it. An error means that it should be tried again.
func (e Ending) Begin(ctx context.Context, m crdv1.Member) (bool, error) {
	if m.GetDeletionTimestamp() != nil {
		return false, e.Deleted(ctx, m)
	}
	if err := e.Release(ctx, m); err != nil {
		return false, err
	}
	left, err := e.Clear(ctx, m)
	return err == nil && !left, err
}
