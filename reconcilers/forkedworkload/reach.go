package forkedworkload

import (
	"context"
	"maps"
	"net"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/member"
)

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
