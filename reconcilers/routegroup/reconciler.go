package routegroup

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/atrest"
)

// Config is what a Reconciler needs.
type Config struct {
	apply.Access
	// KeyHeaders are the custom headers that carry routing keys.
	KeyHeaders []string
}

// Reconciler keeps the RoutingConfigs of route groups. Make one with New.
type Reconciler struct {
	config Config
	writer apply.Writer
}

// New returns a Reconciler, or what is wrong with the configuration.
func New(c Config) (*Reconciler, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("routegroup: %w", err)
	}
	return &Reconciler{config: c, writer: c.Writer()}, nil
}

// Reconcile brings one route group into line.
//
// +kubebuilder:rbac:groups=signadot.com,resources=signadotroutegroups,verbs=get;list;watch
// +kubebuilder:rbac:groups=signadot.com,resources=signadotroutegroups/status,verbs=patch
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	g := &crdv1.SignadotRouteGroup{}
	if err := r.config.Client.Get(ctx, req.NamespacedName, g); err != nil {
		if client.IgnoreNotFound(err) != nil {
			return reconcile.Result{}, err
		}
		return apply.Again(deleteOrphans(ctx, r.config.Client, r.writer, req.Name, ""))
	}
	if err := deleteOrphans(ctx, r.config.Client, r.writer, g.Name, g.UID); err != nil {
		return apply.Again(err)
	}
	in, err := gather(ctx, r.config, g)
	if err != nil {
		return reconcile.Result{}, err
	}
	if g.DeletionTimestamp != nil {
		return r.delete(ctx, in)
	}
	decision := Decide(in)
	made, acted := act(ctx, r.writer, in, decision)
	after := Conclude(in, decision, made, metav1.NewTime(r.config.Now()))
	if err := errors.Join(acted, r.writer.Status(ctx, g, after)); err != nil {
		return apply.Again(err)
	}
	if made.Refusal != nil || !mayRoute(in) {
		return reconcile.Result{RequeueAfter: apply.RefusedAgain}, nil
	}
	return reconcile.Result{}, nil
}

// delete removes what a group has made that somebody else keeps from going.
func (r *Reconciler) delete(ctx context.Context, in Input) (reconcile.Result, error) {
	var all []*crdv1.RoutingConfig
	for i := range in.Configs {
		all = append(all, &in.Configs[i])
	}
	if atrest.Shown(in.Group) && len(all) == 0 {
		return reconcile.Result{}, nil // What its status says then, it was put to rest with.
	}
	after := ConcludeDeletion(in.Group, len(all), metav1.NewTime(r.config.Now()))
	return apply.Again(errors.Join(remove(ctx, r.writer, all), r.writer.Status(ctx, in.Group, after)))
}
