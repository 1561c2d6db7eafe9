package forkedworkload

import (
	"context"
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/event"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/condition"
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
	var also error
	services.CaptureRefusals, also = d.beside(ctx, w, in)
	made := Made{Made: services}
	return made, errors.Join(err, also, made.applyFork(ctx, w, in, d))
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

// waitsFor returns what must be done before the fork can be created or changed; "" if nothing.
func (in Input) waitsFor() string { return in.Workload.Annotations[crdv1.AnnotationWaitsFor] }

// held returns a message for users about what the clone waits for; "" if it can be written, or the fork
// already matches the clone. clone is nil if it could not be rendered.
func (in Input) held(clone *fork.Fork) string {
	what := in.waitsFor()
	if what == "" || clone != nil && in.ownFork() != nil && apply.InLine(in.desired(clone), in.Fork, leftOf(clone)) {
		return ""
	}
	until := "requests with the key fail and do not reach the baseline."
	if in.ownFork() != nil || clone == nil && len(in.ownForks()) > 0 { // With a clone, those of other baselines go.
		until = "the fork that was made before keeps running as it is."
	}
	return fmt.Sprintf("The fork of %s waits for %s (annotation %s of ForkedWorkload %s/%s): find out what delays it, "+
		"or remove the annotation to start without it. Until then %s",
		in.baselineName(), what, crdv1.AnnotationWaitsFor, in.Workload.Namespace, in.Workload.Name, until)
}

// notApplied returns the condition Accepted for patches that cannot be applied. For a fork that waits, a
// template may refer to a value that it waits for.
func (in Input) notApplied(p *fork.Problem) condition.Condition {
	if in.waitsFor() != "" && p.Reason == fork.ReasonInvalidTemplate {
		return condition.Unknown(crdv1.ReasonWaitsFor, p.Message+" (it waits for "+in.waitsFor()+")")
	}
	if p.Reason == fork.ReasonSiblingWithoutService { // It may be about to get one.
		return condition.Unknown(p.Reason, p.Message+in.stillRunning())
	}
	return condition.False(p.Reason, p.Message+in.stillRunning())
}

// ownFork returns the workload of the fork if the ForkedWorkload owns it; otherwise nil.
func (in Input) ownFork() fork.Object {
	if in.Fork == nil || !apply.IsOwned(in.Fork, in.Workload.UID) {
		return nil
	}
	return in.Fork
}

// running returns the pod of the fork that runs, and that is left as it is; planned when
// none runs.
func (in Input) running(planned corev1.PodSpec) corev1.PodSpec {
	if pod := in.runningPod(); pod != nil {
		return *pod
	}
	return planned
}

// runningPod returns the pod of the fork that runs; nil when none does.
func (in Input) runningPod() *corev1.PodSpec {
	switch o := in.ownFork().(type) {
	case *appsv1.Deployment:
		return &o.Spec.Template.Spec
	case *unstructured.Unstructured:
		var pod corev1.PodSpec
		fields, _, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "template", "spec")
		if spec, ok := fields.(map[string]any); ok && runtime.DefaultUnstructuredConverter.FromUnstructured(spec, &pod) == nil {
			return &pod
		}
	}
	return nil
}
