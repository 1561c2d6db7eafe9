package forkedworkload

import (
	"context"
	"errors"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/fork"
	"switchyard.dev/reconcilers/member"
)

// act applies the decision. Services come first: they do not depend on the pods, and once they have
// addresses requests can be routed to them. Refused writes are recorded in Made. An error means that the
// call should be retried; the other writes are still made, and Made lists the existing objects, so that a
// failure of one object does not hide the status of the others.
//
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=create;patch;delete
// +kubebuilder:rbac:groups=argoproj.io,resources=rollouts,verbs=create;patch;delete
// +kubebuilder:rbac:groups="",resources=services,verbs=create;patch;delete
// +kubebuilder:rbac:groups=signadot.com,resources=forkedworkloads/finalizers,verbs=update
func act(ctx context.Context, w apply.Writer, in Input, d Decision) (Made, error) {
	services, err := member.ApplyServices(ctx, w, in.Workload.UID, d.Services, in.Services, d.Standing)
	made := Made{Made: services}
	return made, errors.Join(err, made.applyFork(ctx, w, in, d))
}

// applyFork writes the workload of the fork. If none is wanted, or the write fails, the existing one
// stays, unless it is to be deleted.
func (m *Made) applyFork(ctx context.Context, w apply.Writer, in Input, d Decision) error {
	goes := func(o fork.Object) bool { return slices.Contains(d.SurplusForks, o) }
	if own := in.ownFork(); own != nil {
		m.Fork = own
	} else if staying := slices.DeleteFunc(in.ownForks(), goes); len(staying) > 0 {
		m.Fork = staying[0]
	}
	var made client.Object
	var err error
	switch want := d.Fork.(type) {
	case *appsv1.Deployment:
		made, err = applyWorkload(ctx, w, want, in.Fork, d.Left)
	case *unstructured.Unstructured:
		made, err = applyWorkload(ctx, w, want, in.Fork, d.Left)
	default:
		return nil
	}
	if refusal := new(apply.Refusal); errors.As(err, &refusal) {
		m.ForkRefusal = refusal
		return nil
	}
	if err == nil {
		m.Fork = made
	}
	return err
}

// applyWorkload writes a workload of one type. have is the existing one of that name, nil if there is none
// or it is of another kind.
func applyWorkload[T any, P apply.Object[T]](ctx context.Context, w apply.Writer, want P, have client.Object, left apply.Left) (client.Object, error) {
	same, _ := have.(P)
	return apply.Apply(ctx, w, want, same, left)
}
