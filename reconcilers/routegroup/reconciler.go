package routegroup

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/atrest"
	"switchyard.dev/reconcilers/controller"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/reconcilers/routingkey"
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

// gather reads all inputs of a route group from the cache, and past the cache if the cache shows that the
// group has lost its key.
//
// +kubebuilder:rbac:groups=signadot.com,resources=routingconfigs;signadotsandboxes;trafficcaptures,verbs=get;list;watch
func gather(ctx context.Context, config Config, g *crdv1.SignadotRouteGroup) (Input, error) {
	c := config.Client
	in := Input{Group: g, Sandboxes: map[string]Sandbox{}, KeyHeaders: config.KeyHeaders}
	var err error
	if in.Configs, err = member.ConfigsOf(ctx, c, g.UID); err != nil {
		return in, err
	}
	for _, name := range in.names() {
		s := &crdv1.SignadotSandbox{}
		err := c.Get(ctx, client.ObjectKey{Name: name}, s)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return in, fmt.Errorf("read SignadotSandbox %s: %w", name, err)
		}
		members, err := member.OwnedBy(ctx, c, s.UID)
		if err != nil {
			return in, err
		}
		in.Sandboxes[name] = Sandbox{Object: s, Members: members}
	}
	var captures crdv1.TrafficCaptureList
	if err := c.List(ctx, &captures, client.MatchingLabels{crdv1.LabelRouteGroup: crdv1.LabelValue(g.Name)}, client.UnsafeDisableDeepCopy); err != nil {
		return in, fmt.Errorf("list the TrafficCaptures of SignadotRouteGroup %s: %w", g.Name, err)
	}
	in.Captures = captures.Items
	in.Claims, in.KeyConfig, err = routingkey.Look(ctx, c, config.Live, g.Spec.RoutingKey, routingkey.OfGroup(g))
	return in, err
}

// Watch adds watches for RoutingConfigs of route groups, for other claimants of their keys, and for their
// sandboxes and members.
func (r *Reconciler) Watch(b *builder.Builder, _ ctrl.Manager) error {
	rivals, spec := routingkey.Claimants(r.config.Client, crdv1.KindRouteGroup), builder.WithPredicates(controller.Updates(controller.SpecChanged))
	b.Owns(&crdv1.RoutingConfig{}).
		Watches(&crdv1.SignadotRouteGroup{}, rivals, spec).
		Watches(&crdv1.SignadotSandbox{}, rivals, spec).
		Watches(&crdv1.RoutingConfig{}, rivals, spec).
		Watches(&crdv1.SignadotSandbox{}, controller.Enqueue(r.ofSandbox))
	for _, kind := range crdv1.MemberKinds() {
		b.Watches(kind.New(), controller.Enqueue(r.ofMember))
	}
	b.Watches(&crdv1.TrafficCapture{}, controller.Enqueue(func(ctx context.Context, o client.Object) []reconcile.Request {
		if c, is := o.(*crdv1.TrafficCapture); is && c.Labels[crdv1.LabelRouteGroup] != "" {
			return r.naming(ctx, c.Spec.Sandbox)
		}
		return nil
	}))
	return nil
}

// Index adds the indexes that a Reconciler uses, in addition to apply.IndexOwner and those of package
// routingkey.
func Index(ctx context.Context, indexer client.FieldIndexer) error {
	return indexer.IndexField(ctx, &crdv1.SignadotRouteGroup{}, member.IndexGroup, member.SandboxesOf)
}

// ofSandbox maps a sandbox to the groups that list it.
func (r *Reconciler) ofSandbox(ctx context.Context, o client.Object) []reconcile.Request {
	return r.naming(ctx, o.GetName())
}

// ofMember maps a member to the groups that list its sandbox.
func (r *Reconciler) ofMember(ctx context.Context, o client.Object) []reconcile.Request {
	ref := metav1.GetControllerOfNoCopy(o)
	if ref == nil || ref.Kind != crdv1.KindSandbox {
		return nil
	}
	return r.naming(ctx, ref.Name)
}

// naming returns requests for the groups that name a sandbox.
func (r *Reconciler) naming(ctx context.Context, sandbox string) []reconcile.Request {
	return controller.Requests(ctx, r.config.Client, &crdv1.SignadotRouteGroupList{}, client.MatchingFields{member.IndexGroup: sandbox})
}
