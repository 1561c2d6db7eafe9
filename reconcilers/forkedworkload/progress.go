package forkedworkload

import (
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"switchyard.dev/reconcilers/baseline"

	"switchyard.dev/reconcilers/fork"
)

// progress is the rollout progress of a fork's workload, for both kinds. Updates of the workload that keep
// it equal are ignored.
type progress struct {
	// name is its kind and name, for messages.
	name string
	// wanted is the desired number of pods, replicas the existing ones, updated those of the newest
	// revision, and available the available ones.
	wanted, replicas, updated, available int32
	// paused is set if the workload is paused: its pods are not updated.
	paused bool
	// seen reports whether its controller has observed its current generation.
	seen bool
	// refused is the error with which the API server rejects its pods, failed another failure that its
	// controller reports; "" if there is none.
	refused, failed string
	// since is when it became available; zero when it is not.
	since time.Time
}

// complete reports whether all pods exist, are of the newest revision, and are available.
func (p progress) complete() bool {
	return p.updated >= p.wanted && p.available >= p.wanted && p.replicas == p.updated
}

// fresh returns the minimum number of available pods of the newest revision: all existing pods of older
// revisions may be among the available ones.
func (p progress) fresh() int32 { return max(0, p.available-max(0, p.replicas-p.updated)) }

// progressOf reads how far a workload is.
func progressOf(o fork.Object) progress {
	switch o := o.(type) {
	case *appsv1.Deployment:
		return deploymentProgress(o)
	case *unstructured.Unstructured:
		return rolloutProgress(o)
	}
	return progress{}
}

func deploymentProgress(d *appsv1.Deployment) progress {
	s := d.Status
	p := progress{
		name: baseline.KindDeployment + " " + d.Namespace + "/" + d.Name, wanted: 1, seen: s.ObservedGeneration >= d.Generation,
		replicas: s.Replicas, updated: s.UpdatedReplicas, available: s.AvailableReplicas, paused: d.Spec.Paused,
	}
	if d.Spec.Replicas != nil {
		p.wanted = *d.Spec.Replicas
	}
	for _, c := range s.Conditions {
		p.read(string(c.Type), c.Status, c.Message, c.LastTransitionTime)
	}
	return p
}

// rolloutStatus has the fields of a Rollout's status that the operator reads.
type rolloutStatus struct {
	Replicas          int32 `json:"replicas"`
	UpdatedReplicas   int32 `json:"updatedReplicas"`
	AvailableReplicas int32 `json:"availableReplicas"`
	// ObservedGeneration is a number as text; very old versions of Argo write a hash.
	ObservedGeneration string             `json:"observedGeneration"`
	Phase              string             `json:"phase"`
	Message            string             `json:"message"`
	Conditions         []rolloutCondition `json:"conditions"`
}

type rolloutCondition struct {
	Type               string                 `json:"type"`
	Status             corev1.ConditionStatus `json:"status"`
	Message            string                 `json:"message"`
	LastTransitionTime metav1.Time            `json:"lastTransitionTime"`
}

// Words in the status of a Rollout.
const (
	rolloutDegraded    = "Degraded"
	rolloutInvalidSpec = "InvalidSpec"
)

func rolloutProgress(u *unstructured.Unstructured) progress {
	p := progress{name: baseline.KindRollout + " " + u.GetNamespace() + "/" + u.GetName(), wanted: 1}
	if n, ok, _ := unstructured.NestedInt64(u.Object, "spec", "replicas"); ok {
		p.wanted = int32(n)
	}
	p.paused, _, _ = unstructured.NestedBool(u.Object, "spec", "paused")
	var s rolloutStatus
	content, _, _ := unstructured.NestedFieldNoCopy(u.Object, "status")
	if status, ok := content.(map[string]any); ok {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(status, &s); err != nil {
			p.seen, p.failed = true, "its status cannot be read: "+err.Error()
			return p
		}
	}
	p.replicas, p.updated, p.available = s.Replicas, s.UpdatedReplicas, s.AvailableReplicas
	generation, err := strconv.ParseInt(s.ObservedGeneration, 10, 64)
	p.seen = s.ObservedGeneration != "" && (err != nil || generation >= u.GetGeneration())
	if p.paused && !p.seen { // Argo does not process new revisions of a paused Rollout.
		p.seen, p.updated = true, 0
	}
	for _, c := range s.Conditions {
		p.read(c.Type, c.Status, c.Message, c.LastTransitionTime)
		if c.Type == rolloutInvalidSpec && c.Status == corev1.ConditionTrue {
			p.failed = c.Message
		}
	}
	if s.Phase == rolloutDegraded && p.failed == "" && p.refused == "" {
		p.failed = s.Message
	}
	return p
}

// read reads a condition; those of Deployments and Rollouts have the same meaning.
func (p *progress) read(conditionType string, status corev1.ConditionStatus, message string, since metav1.Time) {
	is := status == corev1.ConditionTrue
	switch appsv1.DeploymentConditionType(conditionType) {
	case appsv1.DeploymentReplicaFailure:
		if is {
			p.refused = message
		}
	case appsv1.DeploymentProgressing:
		if status == corev1.ConditionFalse {
			p.failed = message
		}
	case appsv1.DeploymentAvailable:
		if is {
			p.since = since.Time
		}
	}
}

// kindOf returns the kind of a fork's workload. Objects from a cache have no type metadata.
func kindOf(o fork.Object) schema.GroupVersionKind {
	if _, ok := o.(*unstructured.Unstructured); ok {
		return baseline.RolloutKind()
	}
	return appsv1.SchemeGroupVersion.WithKind(baseline.KindDeployment)
}
