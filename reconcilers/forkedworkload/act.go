package forkedworkload

import (
	"context"
	"errors"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/event"
	crdv1 "switchyard.dev/protos/crd/v1"
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

// Observed returns the fact that the fork exists, with its Services; w has the status that Conclude
// returned. It returns false while the pod template of the baseline is not known, or a wanted Service has
// no address yet (member.Made.Pairs).
//
// A fact without Services means that no Service selects the baseline, so it is not published before that
// is known. Until then status.routingConfig is empty too: RoutingConfigs and sandboxes take that as
// routing that is not determined yet, and are not ready.
func Observed(w *crdv1.ForkedWorkload, d Decision, made Made) (event.Fact, bool) {
	fact, ok := member.Observed(w)
	if !ok || w.Status.RoutingConfig == nil {
		return event.Fact{}, false
	}
	fact.Ready = serves(made.Fork)
	if fact.Services, ok = made.Pairs(d.Services); !ok {
		return event.Fact{}, false
	}
	return member.Fact(w, fact), true
}

// Fact returns the fact about the fork: that of Observed, or its withdrawal while the pod template of the
// baseline is not known, since the log may have the fact of a previous fork of that name or of a previous
// baseline. It returns false if there is nothing to publish now.
func Fact(w *crdv1.ForkedWorkload, d Decision, made Made) (event.Fact, bool) {
	if w.Status.Baseline == nil || w.Status.RoutingConfig == nil {
		return member.Withdrawn(w), true
	}
	return Observed(w, d, made)
}
