package forkedworkload

import (
	"context"
	"maps"
	"net"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/fork"
	"switchyard.dev/reconcilers/member"
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

// A Service accepts connections only some time after its pods are ready, when the proxies on the nodes
// have been updated. Clients send requests as soon as a sandbox is ready, so the fork is not available
// before its Services accept connections from the operator. A network policy can prevent that permanently,
// so the wait is bounded.
const (
	// reachFor is how long a Service may be unreachable after its creation, or after its pods became
	// ready.
	reachFor = 5 * time.Second
	// reachAgain is the time between two attempts, and bounds one of them.
	reachAgain = 100 * time.Millisecond
)

// Dial opens a TCP connection to host:port and closes it; it returns an error if that fails.
type Dial func(ctx context.Context, address string) error

// DialTCP is the Dial of real networks.
func DialTCP(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, reachAgain)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return conn.Close()
}

// silent returns the name of a Service of the fork that does not answer although the fork's pods
// or the Service itself became ready a moment ago; empty when there is none. A Service that
// answered is not asked again.
func (r *Reconciler) silent(ctx context.Context, w *crdv1.ForkedWorkload, made Made) string {
	for _, from := range slices.Sorted(maps.Keys(made.Services)) {
		service := made.Services[from]
		if !member.Reachable(service) || !r.awaited(w, made.Fork, service) {
			continue
		}
		for _, port := range service.Spec.Ports {
			if port.Protocol != corev1.ProtocolTCP {
				continue
			}
			address := net.JoinHostPort(service.Spec.ClusterIP, strconv.Itoa(int(port.Port)))
			if r.config.Dial(ctx, address) != nil {
				return service.Name
			}
		}
	}
	return ""
}

// awaited reports whether a Service of the fork may not answer yet: the fork was not available
// before and has served for less than reachFor, or the Service is younger than that and the fork
// has not become available after it was created.
func (r *Reconciler) awaited(w *crdv1.ForkedWorkload, fork client.Object, service *corev1.Service) bool {
	if !serves(fork) {
		return false
	}
	was := crdv1.IsTrue(w.Status.Conditions, crdv1.ConditionForkAvailable, w.Generation)
	if r.recent(service.CreationTimestamp.Time) {
		since := crdv1.FindCondition(w.Status.Conditions, crdv1.ConditionForkAvailable)
		return !was || !since.LastTransitionTime.After(service.CreationTimestamp.Time)
	}
	return !was && r.recent(progressOf(fork).since)
}

// recent reports whether a time is less than reachFor away; the clock of the API server can be
// ahead.
func (r *Reconciler) recent(t time.Time) bool {
	return !t.IsZero() && r.config.Now().Sub(t).Abs() < reachFor
}
