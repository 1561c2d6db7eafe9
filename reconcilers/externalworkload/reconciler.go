package externalworkload

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/member"
)

// Config is what a Reconciler needs.
type Config struct {
	member.Needs
	// Limits say when a tunnel counts as connected, and what is written for it; zero for
	// the defaults.
	Limits Limits
	// Namespaces are those in which the operator may work; empty means all.
	Namespaces []string
	// OperatorNamespace is where tunnel proxies are; empty: nowhere, so that only pods of
	// an external workload's own namespace can hold its tunnel.
	OperatorNamespace string
}

// Reconciler keeps what leads to external workloads. Make one with New.
type Reconciler struct {
	config Config
	writer apply.Writer
	ending member.Ending
}

// New returns a Reconciler, or what is wrong with the configuration.
func New(c Config) (*Reconciler, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("externalworkload: %w", err)
	}
	c.Limits = c.Limits.withDefaults()
	makes := []client.ObjectList{&corev1.ServiceList{}, &discoveryv1.EndpointSliceList{}}
	if c.Limits.WriteEndpoints {
		makes = append(makes, &oldEndpointsList{})
	}
	return &Reconciler{config: c, writer: c.Writer(), ending: c.Ending(makes...)}, nil
}

// Reconcile brings one external workload into line.
//
// +kubebuilder:rbac:groups=signadot.com,resources=signadotexternalworkloads,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=signadot.com,resources=signadotexternalworkloads/status,verbs=patch
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	w := &crdv1.SignadotExternalWorkload{}
	if goOn, err := r.ending.Begin(ctx, req.NamespacedName, w); err != nil || !goOn {
		return apply.Again(err)
	}
	in, err := r.gather(ctx, w)
	if err != nil {
		return apply.Again(err)
	}
	decision := Decide(in)
	if decision.Delete {
		return apply.Again(forget(ctx, r.writer, w))
	}
	return r.carryOut(ctx, in, decision)
}

// carryOut acts on a decision, and puts on the log and into the status what is true
// then.
func (r *Reconciler) carryOut(ctx context.Context, in Input, d Decision) (reconcile.Result, error) {
	now := metav1.NewTime(in.Now)
	made, acted := act(ctx, r.writer, in, d)
	after := Conclude(in, d, made, now)
	fact, ok := Fact(after, d, made)
	stated, err := member.State(ctx, r.config.Publisher, after, fact, ok, r.config.Now())
	if stated && acted == nil {
		acted = prune(ctx, r.writer, in, d)
	}
	if err := errors.Join(acted, err, r.writer.Status(ctx, in.Workload, after)); err != nil {
		return apply.Again(err)
	}
	return reconcile.Result{RequeueAfter: lookAgain(in, d, made, r.config.Now())}, nil
}

// holderAgain is when the pod at the end of a tunnel is looked at again that is not of the
// operator's namespace: nobody tells of it, unless it has a sidecar.
const holderAgain = 5 * time.Second

// lookAgain returns after what time to look again although nothing has changed that we
// are told of; zero for never.
func lookAgain(in Input, d Decision, made Made, now time.Time) time.Duration {
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
	return after
}
