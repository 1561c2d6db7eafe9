package externalworkload

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/reconcilers/tunnelholders/holders"
)

// Config configures a Reconciler.
type Config struct {
	member.Needs
	// Limits are the limits of tunnels; zero fields have defaults.
	Limits Limits
	// Namespaces are those in which the operator may work; empty means all.
	Namespaces []string
	// OperatorNamespace is the namespace of tunnel proxies; if it is empty, only pods in the namespace of
	// an external workload can hold its tunnel.
	OperatorNamespace string
	// Tunnels returns which of the operator's proxies holds a tunnel; nil if they are not polled and only
	// other components write status.tunnel.
	Tunnels Tunnels
}

// Tunnels returns which tunnel proxy holds a tunnel (package tunnels).
type Tunnels interface {
	// Look returns the holder of the tunnel of an external workload; false if no proxy has reported to
	// hold it.
	Look(w holders.Workload) (holders.Holder, bool)
	// Awaited reports whether the proxy in this pod has not reported its tunnels yet.
	Awaited(pod string) bool
}

// Reconciler keeps the Services and endpoints of external workloads. Create one with New.
type Reconciler struct {
	config Config
	member.Lifecycle
}

// New returns a Reconciler.
func New(c Config) *Reconciler {
	c.Limits = c.Limits.withDefaults()
	makes := []client.ObjectList{&corev1.ServiceList{}, &discoveryv1.EndpointSliceList{}}
	if c.Limits.WriteEndpoints {
		makes = append(makes, &oldEndpointsList{})
	}
	return &Reconciler{config: c, Lifecycle: c.Lifecycle(crdv1.KindExternalWorkload, makes...)}
}

// Reconcile brings one external workload into line.
//
// +kubebuilder:rbac:groups=signadot.com,resources=signadotexternalworkloads,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=signadot.com,resources=signadotexternalworkloads/status,verbs=patch
func (r *Reconciler) Reconcile(ctx context.Context, w *crdv1.SignadotExternalWorkload) (time.Duration, error) {
	if goOn, err := r.Begin(ctx, w); err != nil || !goOn {
		return 0, err
	}
	in, err := r.gather(ctx, w)
	if err != nil {
		return 0, err
	}
	decision := Decide(in)
	if decision.Delete {
		return 0, forget(ctx, r.Writer, w)
	}
	return r.carryOut(ctx, in, decision)
}

// carryOut applies a decision, publishes the resulting fact and writes the status.
func (r *Reconciler) carryOut(ctx context.Context, in Input, d Decision) (time.Duration, error) {
	made, acted := act(ctx, r.Writer, in, d)
	after := Conclude(in, d, made, metav1.NewTime(in.Now))
	fact, ok := Fact(after, d, made)
	err := r.Finish(ctx, in.written(), after, fact, ok, acted, apply.Objects(d.Surplus))
	return lookAgain(in, d, made, after, r.config.Now()), err
}

// holderAgain is the interval at which a pod at the end of a tunnel is checked if it is outside the
// operator's namespace: unless it has a sidecar, it is not watched.
const holderAgain = 5 * time.Second

// lookAgain returns the time after which to reconcile again without a watched change; zero for never. o
// has the new status.
func lookAgain(in Input, d Decision, made Made, o *crdv1.SignadotExternalWorkload, now time.Time) time.Duration {
	var after time.Duration
	if !d.Tunnel.Turns.IsZero() {
		after = max(d.Tunnel.Turns.Sub(now), time.Millisecond)
	}
	within := func(most time.Duration) {
		if after == 0 || after > most {
			after = most
		}
	}
	if len(made.ServiceRefusals) > 0 || made.EndpointsRefusal != nil {
		within(apply.RefusedAgain)
	}
	if in.holderUnwatched() {
		within(holderAgain)
	}
	if again := in.ReachAgain(); again > 0 {
		within(again)
	}
	if refreshed := in.refreshAt(o.Status.Tunnel); !refreshed.IsZero() {
		within(max(refreshed.Sub(now), time.Millisecond))
	}
	return after
}
