package member

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
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

// Ending returns what ends the members of a controller that makes objects of these kinds
// for them: empty lists, each with the index IndexMaker.
func (n Needs) Ending(makes ...client.ObjectList) Ending {
	return Ending{Writer: n.Writer(), Publisher: n.Publisher, Now: n.Now, Makes: makes}
}

// Begin begins each look at a member: it reads the one of this name into m, and reports
// whether to go on. When it says no, the member is gone or is being deleted, which is
// done here; or what a former one of its name left is in the way, whose end leads back
// to it. An error means that it should be tried again.
func (e Ending) Begin(ctx context.Context, name types.NamespacedName, m interface {
	crdv1.Member
	client.Object
}) (bool, error) {
	if err := e.Writer.Client.Get(ctx, name, m); apierrors.IsNotFound(err) {
		return false, e.Gone(ctx, m.MemberKind(), name.Namespace, name.Name)
	} else if err != nil {
		return false, fmt.Errorf("read %s %s: %w", m.MemberKind(), name, err)
	}
	if m.GetDeletionTimestamp() != nil {
		return false, e.Deleted(ctx, m)
	}
	if err := e.Release(ctx, m); err != nil {
		return false, err
	}
	left, err := e.Clear(ctx, m)
	return err == nil && !left, err
}
