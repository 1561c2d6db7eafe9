package virtualworkload

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/member"
)

// Config is what a Reconciler needs.
type Config struct {
	member.Needs
}

// Reconciler keeps virtual workloads. Make one with New.
type Reconciler struct {
	config Config
	writer apply.Writer
	ending member.Ending
}

// New returns a Reconciler, or what is wrong with the configuration.
func New(c Config) (*Reconciler, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("virtualworkload: %w", err)
	}
	// It makes nothing, so nothing is left of one but its fact.
	return &Reconciler{config: c, writer: c.Writer(), ending: c.Ending()}, nil
}

// Reconcile brings one VirtualWorkload into line.
//
// +kubebuilder:rbac:groups=signadot.com,resources=virtualworkloads,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=signadot.com,resources=virtualworkloads/status,verbs=patch
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	w := &crdv1.VirtualWorkload{}
	if goOn, err := r.ending.Begin(ctx, req.NamespacedName, w); err != nil || !goOn {
		return apply.Again(err)
	}
	in, err := gather(ctx, r.config.Client, w)
	if err != nil {
		return apply.Again(err)
	}
	in.Injected = r.config.Injected
	now := r.config.Now()
	after := Conclude(in, Decide(in), metav1.NewTime(now))
	_, err = member.State(ctx, r.config.Publisher, after, Observed(after), true, now)
	return apply.Again(errors.Join(err, r.writer.Status(ctx, w, after)))
}
