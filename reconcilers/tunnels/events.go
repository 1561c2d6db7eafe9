package tunnels

import (
	"context"
	"fmt"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// Events reports takeovers as Events of sandboxes.
type Events struct {
	// Client reads external workloads and creates Events.
	Client client.Client
	// Logger logs Events that cannot be recorded.
	Logger *slog.Logger
}

// Report records an Event of the sandbox whose tunnel a user took. It logs a failure: the
// takeover is effective in any case.
//
// The chart grants create on Events in namespace default, where those of cluster-scoped objects are.
func (e Events) Report(ctx context.Context, t Takeover) {
	if err := e.record(ctx, t); err != nil {
		e.Logger.Warn("an Event about a tunnel that was taken cannot be recorded", "workload", t.Workload.Namespace+"/"+t.Workload.Name, "error", err)
	}
}

func (e Events) record(ctx context.Context, t Takeover) error {
	var w crdv1.SignadotExternalWorkload
	if err := e.Client.Get(ctx, types.NamespacedName{Namespace: t.Workload.Namespace, Name: t.Workload.Name}, &w); err != nil {
		return err
	}
	owner := metav1.GetControllerOfNoCopy(&w)
	if string(w.UID) != t.Workload.UID || owner == nil || owner.Kind != crdv1.KindSandbox {
		return nil // the sandbox was deleted
	}
	return e.Client.Create(ctx, takeoverEvent(t, &w, owner, metav1.Now()))
}

// takeoverEvent returns the Event of a sandbox about a tunnel that a user took.
func takeoverEvent(t Takeover, w *crdv1.SignadotExternalWorkload, owner *metav1.OwnerReference, now metav1.Time) *corev1.Event {
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, GenerateName: "tunnel-taken-"},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: owner.APIVersion, Kind: owner.Kind, Name: owner.Name, UID: owner.UID,
		},
		Type: corev1.EventTypeNormal, Reason: "TunnelTaken",
		Message:        fmt.Sprintf("%.253s took the tunnel of external workload %s from %.253s. Its requests go to that user's workstation.", t.By, w.Spec.Name, t.From),
		Source:         corev1.EventSource{Component: "signadot-controller-manager"},
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}
}
