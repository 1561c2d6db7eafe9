package tunnelholders

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	events "k8s.io/client-go/kubernetes/typed/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"

	"switchyard.dev/eventbus/wake"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/publish"
	"switchyard.dev/reconcilers/tunnelholders/holders"
)

// changes are the external workloads to reconcile, each once however often it changed.
type changes struct {
	again publish.Again
	some  chan struct{}
	mu    sync.Mutex
	names map[holders.Workload]bool
}

func newChanges(again publish.Again) *changes {
	return &changes{again: again, some: make(chan struct{}, 1), names: map[holders.Workload]bool{}}
}

// add adds one, without blocking.
func (c *changes) add(w holders.Workload) {
	c.mu.Lock()
	c.names[holders.Workload{Namespace: w.Namespace, Name: w.Name}] = true
	c.mu.Unlock()
	wake.Notify(c.some)
}

// run hands them over until ctx ends.
func (c *changes) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.some:
		}
		c.mu.Lock()
		names := slices.Collect(maps.Keys(c.names))
		clear(c.names)
		c.mu.Unlock()
		for _, n := range names {
			o := &crdv1.SignadotExternalWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: n.Namespace, Name: n.Name}}
			select {
			case c.again <- ctrlevent.GenericEvent{Object: o}:
			case <-ctx.Done():
				return
			}
		}
	}
}

// countIf returns the number of elements for which is returns true.
func countIf[T any](all iter.Seq[T], is func(T) bool) int {
	n := 0
	for one := range all {
		if is(one) {
			n++
		}
	}
	return n
}

// Events reports takeovers as Events of sandboxes.
type Events struct {
	// Client reads external workloads.
	Client client.Reader
	// Create creates Events in namespace default, where those of cluster-scoped objects are.
	Create events.EventInterface
	// Logger logs Events that cannot be recorded.
	Logger *slog.Logger
}

// Report records an Event of the sandbox after a user took its tunnel. It logs a failure: the
// takeover is effective in any case. It creates one Event for each takeover: an EventRecorder would
// count a second one as a repetition of the first, and not name its user.
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
	_, err := e.Create.Create(ctx, takeoverEvent(t, &w, owner, metav1.NowMicro()), metav1.CreateOptions{})
	return err
}

// takeoverEvent returns the Event of a sandbox about a tunnel that a user took.
func takeoverEvent(t Takeover, w *crdv1.SignadotExternalWorkload, owner *metav1.OwnerReference, now metav1.MicroTime) *eventsv1.Event {
	return &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, GenerateName: "tunnel-taken-"},
		EventTime:           now,
		ReportingController: crdv1.FieldManager, ReportingInstance: crdv1.FieldManager,
		Regarding: corev1.ObjectReference{APIVersion: owner.APIVersion, Kind: owner.Kind, Name: owner.Name, UID: owner.UID},
		Type:      corev1.EventTypeNormal, Reason: "TunnelTaken", Action: "Take",
		Note: fmt.Sprintf("%.253s took the tunnel of external workload %s from %.253s. Its requests go to that user's workstation.", t.By, w.Spec.Name, t.From),
	}
}
