package routegroup

import (
	"context"
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/atrest"
)

// Config configures a Reconciler.
type Config struct {
	apply.Access
	// KeyHeaders are the custom headers that carry routing keys.
	KeyHeaders []string
}

// Reconciler keeps the RoutingConfigs of route groups. Create one with New.
type Reconciler struct {
	config Config
	writer apply.Writer
}

// New returns a Reconciler.
func New(c Config) *Reconciler { return &Reconciler{config: c, writer: c.Writer()} }

// Reconcile brings one route group into line.
//
// +kubebuilder:rbac:groups=signadot.com,resources=signadotroutegroups,verbs=get;list;watch
// +kubebuilder:rbac:groups=signadot.com,resources=signadotroutegroups/status,verbs=patch
func (r *Reconciler) Reconcile(ctx context.Context, g *crdv1.SignadotRouteGroup) (time.Duration, error) {
	if err := r.deleteOrphans(ctx, g.Name, g.UID); err != nil {
		return 0, err
	}
	in, err := gather(ctx, r.config, g)
	if err != nil {
		return 0, err
	}
	if g.DeletionTimestamp != nil {
		return 0, r.delete(ctx, in)
	}
	decision := Decide(in)
	made, acted := act(ctx, r.writer, in, decision)
	after := Conclude(in, decision, made, metav1.NewTime(r.config.Now()))
	err = errors.Join(acted, r.writer.Status(ctx, g, after))
	if made.Refusal != nil || !in.acceptKey().IsTrue() {
		return apply.RefusedAgain, err
	}
	return 0, err
}

// Gone deletes RoutingConfigs of a deleted group that the cache did not have.
func (r *Reconciler) Gone(ctx context.Context, name types.NamespacedName) error {
	return r.deleteOrphans(ctx, name.Name, "")
}

// deleteOrphans deletes RoutingConfigs of previous groups of this name, for clusters without garbage
// collection or with a slow one. now is the UID of the group in the cache.
func (r *Reconciler) deleteOrphans(ctx context.Context, name string, now types.UID) error {
	_, err := r.writer.DeleteOrphans(ctx, apply.Maker{Kind: crdv1.KindRouteGroup, Name: name}, now, &crdv1.RoutingConfigList{})
	return err
}

// delete deletes the RoutingConfigs of a group that is being deleted but still exists because of a
// finalizer.
func (r *Reconciler) delete(ctx context.Context, in Input) error {
	errs := lists.Map(lists.Pointers(in.Configs), func(o *crdv1.RoutingConfig) error { return r.writer.Delete(ctx, o) })
	if atrest.Shown(in.Group) && len(in.Configs) == 0 {
		return nil // The status at rest was written when the group was put to rest.
	}
	after := ConcludeDeletion(in.Group, len(in.Configs), metav1.NewTime(r.config.Now()))
	return errors.Join(append(errs, r.writer.Status(ctx, in.Group, after))...)
}

// act applies the decision: it writes the new key before it deletes an old one. A refused write is
// recorded in Made. An error means that the call should be retried.
//
// +kubebuilder:rbac:groups=signadot.com,resources=routingconfigs,verbs=create;patch;delete
// +kubebuilder:rbac:groups=signadot.com,resources=signadotroutegroups/finalizers,verbs=update
func act(ctx context.Context, w apply.Writer, in Input, d Decision) (Made, error) {
	made := Made{}
	if d.Config != nil {
		have, err := apply.Apply(ctx, w, d.Config, in.KeyConfig)
		switch {
		case errors.As(err, &made.Refusal):
		case err != nil:
			return Made{Config: in.KeyConfig}, err // Surplus objects stay until the new one exists.
		default:
			made.Config = have
		}
	}
	return made, w.DeleteSurplus(ctx, in.Group, apply.Objects(d.Surplus)...)
}
