package baseline

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/sidecars/inject"
)

// RolloutDefinition is the name of the CustomResourceDefinition of Rollouts.
const RolloutDefinition = "rollouts.argoproj.io"

// RolloutKind returns the kind of Argo Rollouts. A cluster has it only if Argo Rollouts is installed.
func RolloutKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "argoproj.io", Version: "v1alpha1", Kind: KindRollout}
}

// NewRollout returns an empty Rollout. We know it without its Go types: its fields are
// many and change with the versions of Argo, and a fork keeps all of them.
func NewRollout() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(RolloutKind())
	return u
}

// NewRolloutList returns an empty list of Rollouts.
func NewRolloutList() *unstructured.UnstructuredList {
	l := &unstructured.UnstructuredList{}
	l.SetGroupVersionKind(RolloutKind().GroupVersion().WithKind(KindRollout + "List"))
	return l
}

// rolloutSpec has the fields of a Rollout's spec that the operator reads.
type rolloutSpec struct {
	Selector    *metav1.LabelSelector   `json:"selector"`
	Template    *corev1.PodTemplateSpec `json:"template"`
	WorkloadRef *rolloutRef             `json:"workloadRef"`
}

// rolloutRef names a workload that a Rollout takes its pod template from.
type rolloutRef struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
}

// ReferredDeployment returns the name of the Deployment in the spec.workloadRef of a Rollout; false if the
// Rollout has its own pod template, or refers to another kind.
func ReferredDeployment(u *unstructured.Unstructured) (string, bool) {
	ref, _, _ := unstructured.NestedStringMap(u.Object, "spec", "workloadRef")
	return ref["name"], ref["kind"] == KindDeployment && ref["name"] != ""
}

// readRollout reads a Rollout; nil when there is none, or no such kind.
//
// +kubebuilder:rbac:groups=argoproj.io,resources=rollouts,verbs=get;list;watch
func readRollout(ctx context.Context, c client.Reader, key client.ObjectKey) (*Workload, error) {
	u := NewRollout()
	err := c.Get(ctx, key, u)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read Rollout %s: %w", key, err)
	}
	var referred *appsv1.Deployment
	if name, ok := ReferredDeployment(u); ok {
		d := &appsv1.Deployment{}
		err := c.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: name}, d)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("read Deployment %s/%s: %w", key.Namespace, name, err)
		}
		if err == nil {
			referred = d
		}
	}
	return OfRollout(u, referred), nil
}

// RunByRollout returns the problem of a Deployment that has no pods because a Rollout runs its
// template by spec.workloadRef: sidecars of the Rollout's pods have the routes of the Rollout. others
// are the pods that the Deployment's selector selects and that it does not own. Empty: no such
// Rollout owns any of them.
func RunByRollout(ctx context.Context, c client.Reader, w *Workload, others []corev1.Pod) (string, error) {
	if w.Ref.Kind != KindDeployment {
		return "", nil
	}
	seen := map[string]bool{}
	for i := range others {
		owner, _ := inject.OwnerOf(&others[i], others[i].Namespace)
		if owner.Kind != RoutedKind(crdv1.ObjectRef{Kind: KindRollout}) || seen[owner.Name] {
			continue
		}
		seen[owner.Name] = true
		u := NewRollout()
		err := c.Get(ctx, client.ObjectKey{Namespace: owner.Namespace, Name: owner.Name}, u)
		if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("read Rollout %s/%s: %w", owner.Namespace, owner.Name, err)
		}
		if name, ok := ReferredDeployment(u); ok && name == w.Ref.Name {
			return fmt.Sprintf("%s has no pods of its own: Rollout %s runs them (spec.workloadRef). Name that Rollout instead: apiVersion %s, kind %s, name %s",
				w, owner.Name, RolloutKind().GroupVersion(), KindRollout, owner.Name), nil
		}
	}
	return "", nil
}

// OfRollout returns a Rollout as a Workload. referred is the Deployment that its
// spec.workloadRef names, nil when it names none or there is none.
func OfRollout(u *unstructured.Unstructured, referred *appsv1.Deployment) *Workload {
	w := &Workload{UID: u.GetUID(), Generation: u.GetGeneration(), Object: u, Template: &corev1.PodTemplateSpec{}}
	w.Ref.APIVersion, w.Ref.Kind = RolloutKind().ToAPIVersionAndKind()
	w.Ref.Namespace, w.Ref.Name = u.GetNamespace(), u.GetName()
	spec, err := specOf(u)
	if err != nil {
		w.Problem = fmt.Sprintf("%s cannot be read: %v", w, err)
		return w
	}
	w.Selector = spec.Selector
	switch ref := spec.WorkloadRef; {
	case ref == nil && spec.Template == nil:
		w.Problem = fmt.Sprintf("%s has neither spec.template nor spec.workloadRef", w)
	case ref == nil:
		w.Template = spec.Template
	case ref.Kind != KindDeployment:
		w.Problem = fmt.Sprintf("%s takes its pods from %s %s by spec.workloadRef: only a Rollout that takes them from a Deployment, or has a template of its own, can be forked",
			w, ref.Kind, ref.Name)
	case referred == nil:
		w.Problem = fmt.Sprintf("%s takes its pods from Deployment %s by spec.workloadRef, which does not exist: create it", w, ref.Name)
	default:
		w.Template = &referred.Spec.Template
		w.Selector = cmp.Or(w.Selector, referred.Spec.Selector)
	}
	return w
}

// specOf decodes the fields of a Rollout's spec that the operator reads.
func specOf(u *unstructured.Unstructured) (rolloutSpec, error) {
	var out rolloutSpec
	spec, ok, err := unstructured.NestedFieldNoCopy(u.Object, "spec")
	if err != nil || !ok {
		return out, errors.Join(errors.New("it has no spec"), err)
	}
	content, ok := spec.(map[string]any)
	if !ok {
		return out, errors.New("its spec is not an object")
	}
	return out, runtime.DefaultUnstructuredConverter.FromUnstructured(content, &out)
}

// KeepProgress leaves of the status of a Rollout how far a fork is.
func KeepProgress(o metav1.Object) {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return
	}
	status, ok := u.Object["status"].(map[string]any)
	if !ok {
		return
	}
	kept := map[string]any{}
	for _, field := range []string{"replicas", "updatedReplicas", "availableReplicas", "observedGeneration", "phase", "message", "conditions"} {
		if value, ok := status[field]; ok {
			kept[field] = value
		}
	}
	u.Object["status"] = kept
}

// PodsRefused returns the API server's words when it refuses new pods of a Deployment or a
// Rollout: the message of its condition ReplicaFailure while that is True; otherwise empty.
func PodsRefused(o client.Object) string {
	switch o := o.(type) {
	case *appsv1.Deployment:
		for _, c := range o.Status.Conditions {
			if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
				return c.Message
			}
		}
	case *unstructured.Unstructured:
		conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
		for _, one := range conditions {
			c, _ := one.(map[string]any)
			if c["type"] == string(appsv1.DeploymentReplicaFailure) && c["status"] == string(corev1.ConditionTrue) {
				message, _ := c["message"].(string)
				return message
			}
		}
	}
	return ""
}
