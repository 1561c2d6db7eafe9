package sandbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"switchyard.dev/eventbus/lists"
	"switchyard.dev/eventbus/wake"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/controller"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/reconcilers/routingkey"
	"switchyard.dev/reconcilers/sandbox/census"
	"switchyard.dev/reconcilers/sandbox/middleware"
)

// Config configures a Reconciler.
type Config struct {
	apply.Access
	// Namespaces are the namespaces in which members are allowed; empty means all.
	Namespaces []string
	// OperatorNamespace is the namespace of external workloads without a baseline.
	OperatorNamespace string
	// KeyHeaders are the custom headers that carry routing keys.
	KeyHeaders []string
}

// Reconciler keeps the parts of sandboxes. Create one with New.
type Reconciler struct {
	config Config
	writer apply.Writer
	census *census.Census
}

// New returns a Reconciler.
func New(c Config) *Reconciler {
	return &Reconciler{config: c, writer: c.Writer(), census: census.New(c.Live)}
}

// Reconcile brings one sandbox into line.
//
// +kubebuilder:rbac:groups=signadot.com,resources=signadotsandboxes,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=signadot.com,resources=signadotsandboxes/status,verbs=patch
func (r *Reconciler) Reconcile(ctx context.Context, s *crdv1.SignadotSandbox) (time.Duration, error) {
	left, over, err := r.expire(ctx, s)
	if err != nil || over {
		return 0, err
	}
	in, err := gather(ctx, r.config.Client, s, r.config)
	if err != nil {
		return 0, err
	}
	if s.DeletionTimestamp != nil {
		return r.delete(ctx, in)
	}
	if err := r.writer.AddFinalizer(ctx, s); err != nil {
		return 0, err
	}
	in, provided := provide(ctx, r.writer, in)
	decision := Decide(in)
	made, acted := act(ctx, r.config.Client, r.writer, in, decision)
	taken, found := inTheWay(ctx, r.writer, in, made)
	made.Taken = taken
	after := Conclude(in, decision, made, metav1.NewTime(r.config.Now()))
	err = errors.Join(provided, acted, found, r.writer.Status(ctx, s, after))
	if made.refused() || taken != nil || in.refusedResource() || !in.acceptKey().IsTrue() {
		return wake.Sooner(left, apply.RefusedAgain), err
	}
	return left, err
}

// Gone deletes parts of a deleted sandbox that the cache did not have: a leader with a stale cache may
// have created one after the deletion. An event of each such part triggers it.
func (r *Reconciler) Gone(ctx context.Context, name types.NamespacedName) error {
	lists := lists.Map(crdv1.MadeKinds(), func(kind crdv1.Kind) client.ObjectList { return kind.NewList() })
	_, err := r.writer.DeleteOrphans(ctx, apply.Maker{Kind: crdv1.KindSandbox, Name: name.Name}, "", lists...)
	return err
}

// delete deletes the parts and then removes the finalizer of the sandbox.
func (r *Reconciler) delete(ctx context.Context, in Input) (time.Duration, error) {
	if after, done, err := r.release(ctx, in); err != nil || !done {
		return after, err
	}
	waitsFor, asked, err := remove(ctx, r.writer, r.census, in)
	switch {
	case err != nil, asked:
		return apply.RefusedAgain, err
	case waitsFor == "":
		return 0, r.writer.RemoveFinalizer(ctx, in.Sandbox)
	}
	after := ConcludeDeletion(in, waitsFor, metav1.NewTime(r.config.Now()))
	// The deletion of each part requeues the sandbox, and so do results of the census; the delay is for
	// parts that were found past the cache only.
	return apply.RefusedAgain, r.writer.Status(ctx, in.Sandbox, after)
}

// gather reads all inputs of a sandbox from the cache, and past the cache if the cache shows that the
// sandbox has lost its key.
//
// +kubebuilder:rbac:groups=signadot.com,resources=resources;routingconfigs,verbs=get;list;watch
func gather(ctx context.Context, c client.Reader, s *crdv1.SignadotSandbox, config Config) (Input, error) {
	in := Input{Sandbox: s, Namespaces: config.Namespaces, OperatorNamespace: config.OperatorNamespace, KeyHeaders: config.KeyHeaders}
	var err error
	if in.Members, err = member.OwnedBy(ctx, c, s.UID); err != nil {
		return in, err
	}
	var resources crdv1.ResourceList
	if err := c.List(ctx, &resources, client.MatchingFields{apply.IndexOwner: string(s.UID)}, client.UnsafeDisableDeepCopy); err != nil {
		return in, fmt.Errorf("list Resources of SignadotSandbox %s: %w", s.Name, err)
	}
	in.Resources = lists.Pointers(resources.Items)
	if in.Configs, err = member.ConfigsOf(ctx, c, s.UID); err != nil {
		return in, err
	}
	groups, err := member.Groups(ctx, c, s.Name)
	if err != nil {
		return in, err
	}
	in.Groups = middleware.Own(groups, s)
	in = in.ordered()
	in.Claims, in.KeyConfig, err = routingkey.Look(ctx, c, config.Live, s.Spec.ID, routingkey.OfSandbox(s))
	return in, err
}

// Watch adds the sources of events about sandboxes: their parts, others that claim their keys, baselines
// that appear, and what the census has found.
func (r *Reconciler) Watch(b *builder.Builder, mgr ctrl.Manager) error {
	r.census.Again = make(chan event.GenericEvent)
	for _, kind := range crdv1.MadeKinds() {
		b.Owns(kind.New())
	}
	rivals, spec := routingkey.Claimants(r.config.Client, crdv1.KindSandbox), builder.WithPredicates(controller.Updates(controller.SpecChanged))
	b.Watches(&crdv1.SignadotSandbox{}, rivals, spec).
		Watches(&crdv1.SignadotRouteGroup{}, rivals, spec).
		Watches(&crdv1.RoutingConfig{}, rivals, spec).
		WatchesRawSource(source.Channel(r.census.Again, &handler.EnqueueRequestForObject{}))
	b.Watches(&crdv1.TrafficCapture{}, controller.Enqueue(func(_ context.Context, o client.Object) []reconcile.Request {
		c, is := o.(*crdv1.TrafficCapture)
		if !is || metav1.GetControllerOfNoCopy(c) == nil {
			return nil // It is a user's.
		}
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: c.Spec.Sandbox}}}
	}))
	b.Watches(&crdv1.SignadotRouteGroup{}, controller.Enqueue(func(_ context.Context, o client.Object) []reconcile.Request {
		return lists.Map(member.SandboxesOf(o), func(name string) reconcile.Request {
			return reconcile.Request{NamespacedName: client.ObjectKey{Name: name}}
		})
	}), builder.WithPredicates(controller.Updates(middleware.Changed)))
	member.WatchBaselines(b, mgr.GetClient())
	return nil
}
