package fork

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
)

// Environment variables by which a fork knows for whom it runs.
const (
	EnvSandboxName = "SIGNADOT_SANDBOX_NAME"
	EnvRoutingKey  = "SIGNADOT_SANDBOX_ROUTING_KEY"
)

// Plan is what makes a fork out of a baseline.
type Plan struct {
	// Identity says whose fork it is.
	Identity Identity
	// Patches are applied in order.
	Patches []crdv1.Patch
	// PreservedLabels are RE2 expressions for keys of baseline labels that stay.
	PreservedLabels []string
	// Neighbours are all Services of the namespace that are not a fork's own.
	Neighbours []corev1.Service
}

// Object is a workload of any kind, as clients take one.
type Object interface {
	metav1.Object
	runtime.Object
}

// Fork is a workload that runs beside its baseline.
type Fork struct {
	// Object is the whole clone, to be made Writable and applied: an
	// *appsv1.Deployment, or a Rollout as *unstructured.Unstructured. It is without
	// status and without what the API server fills in.
	Object Object
	// Template is what its pods are made from.
	Template *corev1.PodTemplateSpec
	// Replicas is how many pods it is to have; 0 is possible when a patch says so.
	Replicas int32
}

// Clone gives the fork of a live workload. The workload is not changed. A Problem
// means that there is no such fork.
func Clone(live *baseline.Workload, plan Plan) (*Fork, *Problem) {
	deployment, ok := live.Object.(*appsv1.Deployment)
	if !ok {
		return nil, problem(ReasonNotSupportedYet, "%s cannot be forked yet: this version forks Deployments", live)
	}
	keep, p := keepLabels(plan.PreservedLabels)
	if p != nil {
		return nil, p
	}
	clone, p := patched(deployment, plan.Patches)
	if p != nil {
		return nil, p
	}
	finish(clone, deployment, plan.Identity, keep)
	if p := guardLabels(clone, deployment, plan); p != nil {
		return nil, p
	}
	replicas := int32(1) // As the API server takes a null.
	if clone.Spec.Replicas != nil {
		replicas = *clone.Spec.Replicas
	}
	return &Fork{Object: clone, Template: &clone.Spec.Template, Replicas: replicas}, nil
}

// patched applies the patches one after the other.
func patched(baseline *appsv1.Deployment, patches []crdv1.Patch) (*appsv1.Deployment, *Problem) {
	current := bare(baseline)
	book := newPortBook(current.Spec.Template.Spec)
	for i, patch := range patches {
		at := patchPlace{index: i, count: len(patches), baseline: baseline}
		next, p := applyPatch(current, patch, at)
		if p != nil {
			return nil, p
		}
		if p := checkPatched(next, baseline, at); p != nil {
			return nil, p
		}
		if c := book.enter(i, current.Spec.Template.Spec, next.Spec.Template.Spec); c != nil {
			return nil, problem(ReasonPortConflict,
				"%s: container port %s is given by %s and again by %s: give it in one of them only",
				at, c.port, c.first, c.second)
		}
		current = next
	}
	return current, nil
}

// patchPlace names a patch in messages.
type patchPlace struct {
	index, count int
	baseline     *appsv1.Deployment
}

func (at patchPlace) String() string {
	return fmt.Sprintf("patch %d of %d for Deployment %s/%s", at.index+1, at.count, at.baseline.Namespace, at.baseline.Name)
}

// applyPatch gives the Deployment with one patch applied.
func applyPatch(current *appsv1.Deployment, patch crdv1.Patch, at patchPlace) (*appsv1.Deployment, *Problem) {
	if patch.Template {
		return nil, problem(ReasonNotSupportedYet,
			"%s is a template: this version does not substitute variables in patches; write the values and leave template out", at)
	}
	form, err := formOf(patch)
	if err != nil {
		return nil, problem(ReasonInvalidPatch, "%s %v", at, err)
	}
	document, err := encode(current)
	if err != nil {
		return nil, problem(ReasonPatchFailed, "%s: the baseline cannot be written as JSON: %v", at, err)
	}
	document, err = form.apply(document)
	if err != nil {
		return nil, problem(ReasonPatchFailed, "%s (%s) does not apply: %v", at, form.name, err)
	}
	next, err := decode(document)
	if err != nil {
		return nil, problem(ReasonPatchFailed, "%s (%s) does not give a Deployment: %v", at, form.name, err)
	}
	return next, nil
}

// checkPatched refuses a result that is no fork of the baseline any more, or
// that the API server would not take for a reason that can be said better here.
func checkPatched(next, baseline *appsv1.Deployment, at patchPlace) *Problem {
	switch {
	case next.Kind != kindDeployment || next.APIVersion != apiVersion:
		return problem(ReasonPatchFailed, "%s changes kind or apiVersion: leave them out of the patch", at)
	case next.Name != baseline.Name || next.Namespace != baseline.Namespace:
		return problem(ReasonPatchFailed, "%s changes metadata.name or metadata.namespace: leave them out of the patch", at)
	case metav1.FormatLabelSelector(next.Spec.Selector) != metav1.FormatLabelSelector(baseline.Spec.Selector):
		return problem(ReasonPatchFailed, "%s changes spec.selector, which every fork has of its own: leave it out of the patch", at)
	case len(next.Spec.Template.Spec.Containers) == 0:
		return problem(ReasonPatchFailed, "%s leaves no container: keep at least one", at)
	}
	for _, c := range next.Spec.Template.Spec.Containers {
		if c.Image == "" {
			return problem(ReasonPatchFailed,
				"%s gives container %q no image: the baseline has the containers %s; use one of these names or give an image",
				at, c.Name, containerNames(baseline.Spec.Template.Spec))
		}
	}
	return nil
}

// containerNames lists the containers of a pod for a message.
func containerNames(pod corev1.PodSpec) string {
	names := make([]string, 0, len(pod.Containers))
	for _, c := range pod.Containers {
		names = append(names, c.Name)
	}
	return strings.Join(names, ", ")
}
