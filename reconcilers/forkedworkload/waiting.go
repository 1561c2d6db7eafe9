package forkedworkload

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/reconcilers/fork"
)

// waitsFor returns what must be done before the fork can be created or changed; "" if nothing.
func (in Input) waitsFor() string { return in.Workload.Annotations[crdv1.AnnotationWaitsFor] }

// held returns a message for users about what the clone waits for; "" if it can be written, or the fork
// already matches the clone. clone is nil if it could not be rendered.
func (in Input) held(clone *fork.Fork) string {
	what := in.waitsFor()
	if what == "" || clone != nil && in.ownFork() != nil && apply.InLine(fork.Writable(clone.Object), in.Fork, leftOf(clone)) {
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
