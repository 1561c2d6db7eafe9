package manager

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/publish"
)

// Reasons of Events about the size of the routing log.
const (
	reasonCrowded = "RoutingLogCrowded"
	reasonRoomy   = "RoutingLogHasRoom"
)

// countingPatience is the timeout for counting the objects in the cache.
const countingPatience = 5 * time.Second

// tellCrowded records an Event on the ConfigMap with the state of the routing log when the log uses half
// of its maximum size (crowded), or no longer does.
func (m *Main) tellCrowded(crowded bool, kept eventbus.Kept) {
	ctx, cancel := context.WithTimeout(context.Background(), countingPatience)
	defer cancel()
	about := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: m.config.Namespace, Name: publish.EpochConfigMap}
	if err := m.manager.GetAPIReader().Get(ctx, key, about); err != nil {
		m.config.Logger.Warn("cannot record an Event about the size of the routing log", "error", err)
		return
	}
	kind, reason, note := corev1.EventTypeNormal, reasonRoomy, "The routing log has room again."
	if crowded {
		kind, reason = corev1.EventTypeWarning, reasonCrowded
		note = fmt.Sprintf("The routing log takes %d of %d MiB, so history is forgotten sooner than it is to be. "+
			"Set eventBus.history.size to more (and eventBus.persistence.size to 1.6 times that), or keep less: eventBus.history.events, eventBus.history.age.",
			kept.Bytes>>20, kept.MaxBytes>>20)
	}
	ref := &corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: about.Namespace, Name: about.Name, UID: about.UID}
	m.manager.GetEventRecorder(crdv1.FieldManager).Eventf(ref, nil, kind, reason, "Write", "%s", note)
}
