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

// A Service answers only some time after its pods are ready: proxies on the
// nodes have to hear of it. Who is told that a sandbox is ready sends a request
// at once, so the fork is not called available before its Services answer here.
// They may never do so here, where a network policy keeps us out; so this waits
// only for so long.
const (
	// reachFor is how long after the pods are ready a Service may stay silent.
	reachFor = 5 * time.Second
	// reachAgain is the time between two attempts, and bounds one of them.
	reachAgain = 100 * time.Millisecond
)

// Dial opens a TCP connection to host:port and closes it again; the error says
// why it could not.
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

// silent returns the name of a Service of the fork that does not answer although
// the fork's pods have just become ready; empty when there is none, or nothing
// is to be waited for. A fork that was available is not asked again.
func (r *Reconciler) silent(ctx context.Context, w *crdv1.ForkedWorkload, made Made) string {
	if crdv1.IsTrue(w.Status.Conditions, crdv1.ConditionForkAvailable, w.Generation) || !r.justReady(made.Fork) {
		return ""
	}
	for _, from := range slices.Sorted(maps.Keys(made.Services)) {
		service := made.Services[from]
		for _, port := range service.Spec.Ports {
			if !member.Reachable(service) || port.Protocol != corev1.ProtocolTCP {
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

// justReady reports whether the fork serves, and has done so for less than
// reachFor.
func (r *Reconciler) justReady(o client.Object) bool {
	if !serves(o) {
		return false
	}
	since := progressOf(o).since
	return !since.IsZero() && r.config.Now().Sub(since) < reachFor
}
