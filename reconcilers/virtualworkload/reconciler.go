package virtualworkload

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/member"
)

// Config configures a Reconciler.
type Config struct {
	member.Needs
}

// Reconciler keeps virtual workloads. Create one with New.
type Reconciler struct {
	config Config
	member.Lifecycle
}

// New returns a Reconciler.
func New(c Config) *Reconciler {
	// It creates no objects, so a deleted one leaves only its fact.
	return &Reconciler{config: c, Lifecycle: c.Lifecycle(crdv1.KindVirtualWorkload)}
}

// Reconcile brings one VirtualWorkload into line.
//
// +kubebuilder:rbac:groups=signadot.com,resources=virtualworkloads,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=signadot.com,resources=virtualworkloads/status,verbs=patch
func (r *Reconciler) Reconcile(ctx context.Context, w *crdv1.VirtualWorkload) (time.Duration, error) {
	if goOn, err := r.Begin(ctx, w); err != nil || !goOn {
		return 0, err
	}
	in, err := gather(ctx, r.config.Client, w)
	if err != nil {
		return 0, err
	}
	in.Injected = r.config.Injected
	after := Conclude(in, Decide(in), metav1.NewTime(r.config.Now()))
	return in.ReachAgain(), r.Finish(ctx, w, after, Observed(after), true, nil, nil)
}
