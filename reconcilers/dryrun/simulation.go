package dryrun

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/controller"
	"switchyard.dev/reconcilers/dryrun/meshtrial"
	"switchyard.dev/reconcilers/kinds"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/reconcilers/routingkey"
)

// mostLooks bounds the reconciliations of a simulation. A sandbox takes about ten for each of its
// forks.
const mostLooks = 10_000

// overtaken is the upper bound of a RequeueAfter that means that the reconciled version was stale. A
// longer one waits for time to pass, which it does not in a simulation.
const overtaken = 100 * time.Millisecond

// simulation runs the controllers on a world until no object has to be reconciled.
type simulation struct {
	config      Config
	world       *world
	statements  *statements
	controllers map[string]controller.Controller
	meshes      *meshtrial.Routers
	// waited are the RoutingConfigs for which time has passed (route).
	waited map[identity]bool
	// queue has the objects to reconcile, each once; looked has all that were reconciled, in order.
	queue  []identity
	looked []identity
	// touched are the writes that spread has not processed yet.
	touched []touch
	// refusals are of the objects that were asked about.
	refusals []Refusal
	// waiting are findings about steps: the API server would refuse their pods.
	waiting []Finding
}

func newSimulation(ctx context.Context, c Config, scheme *runtime.Scheme, now time.Time) (*simulation, error) {
	facts, err := newStatements(ctx)
	if err != nil {
		return nil, err
	}
	s := &simulation{config: c, statements: facts, waited: map[identity]bool{}}
	if s.world, err = newWorld(ctx, c, scheme, now); err != nil {
		return nil, err
	}
	s.world.changed = s.notify
	s.meshes = routersOn(s.world, c)
	s.controllers, err = controllersOn(s.world, facts, c, s.meshes)
	return s, err
}

// begin enqueues the object and its parts, even if nothing was changed, so that a plan contains all of
// their facts and findings and not only pending ones.
func (s *simulation) begin(ctx context.Context, subject identity) error {
	s.enqueue(subject)
	o := s.world.current(subject)
	if o == nil {
		return nil
	}
	members, err := member.OwnedBy(ctx, s.world, o.GetUID())
	if err != nil {
		return err
	}
	configs, err := member.ConfigsOf(ctx, s.world, o.GetUID())
	if err != nil {
		return err
	}
	for _, m := range members {
		s.enqueue(identityOf(m.MemberKind(), m.GetNamespace(), m.GetName()))
	}
	for i := range configs {
		s.enqueue(identityOf(crdv1.KindRoutingConfig, "", configs[i].Name))
	}
	return nil
}

// settle reconciles objects until none has to be reconciled again, and meshes report nothing new.
func (s *simulation) settle(ctx context.Context) error {
	ctx = log.IntoContext(ctx, logr.Discard())
	for range mostLooks {
		if err := s.spread(ctx); err != nil {
			return err
		}
		if len(s.queue) == 0 {
			if err := s.route(ctx); err != nil || len(s.queue) == 0 {
				return err
			}
		}
		if err := s.look(ctx); err != nil {
			return err
		}
	}
	return fmt.Errorf("the controllers do not converge; the next object to reconcile is %s", s.queue[0].object())
}

// look reconciles the first object of the queue.
func (s *simulation) look(ctx context.Context) error {
	id := s.queue[0]
	s.queue = s.queue[1:]
	if !slices.Contains(s.looked, id) {
		s.looked = append(s.looked, id)
	}
	result, err := s.controllers[id.Kind].Reconcile(ctx, reconcile.Request{NamespacedName: id.ObjectKey})
	if err != nil {
		return fmt.Errorf("%s: %w", id.object(), err)
	}
	if again := result.RequeueAfter; again > 0 && again < overtaken {
		s.enqueue(id) // The reconciled version was stale.
	}
	return nil
}

// enqueue adds an object to the queue, unless it is queued or its kind has no controller.
func (s *simulation) enqueue(id identity) {
	if id.Group == crdv1.GroupVersion().Group && s.controllers[id.Kind] != nil && !slices.Contains(s.queue, id) {
		s.queue = append(s.queue, id)
	}
}

// notify records a write: the object before and after it.
func (s *simulation) notify(id identity, before, after client.Object) {
	s.touched = append(s.touched, touch{id, before, after})
}

// spread enqueues the written objects and those that watch them.
func (s *simulation) spread(ctx context.Context) error {
	touched := s.touched
	s.touched = nil
	for _, t := range touched {
		s.enqueue(t.id)
		for _, o := range []client.Object{t.before, t.after} {
			if o == nil {
				continue
			}
			if ref := metav1.GetControllerOfNoCopy(o); ref != nil && ref.APIVersion == crdv1.APIVersion {
				s.enqueue(identityOf(ref.Kind, o.GetNamespace(), ref.Name))
			}
			if err := s.concerned(ctx, o); err != nil {
				return err
			}
		}
	}
	return nil
}

// concerned enqueues the objects that an object concerns without owning it: those with the same routing
// key, and those that name it.
func (s *simulation) concerned(ctx context.Context, o client.Object) error {
	key := routingkey.Of(o)
	for _, kind := range []string{crdv1.KindSandbox, crdv1.KindRouteGroup, crdv1.KindRoutingConfig} {
		// Not copied: there may be many, and each write causes this list.
		all, err := s.world.all(ctx, crdv1.GroupVersion().WithKind(kind))
		if err != nil {
			return err
		}
		for _, other := range all {
			if key != "" && routingkey.Of(other) == key || names(other, o) {
				s.enqueue(identityOf(kind, "", other.GetName()))
			}
		}
	}
	return nil
}

// names reports whether an object is about another: a RoutingConfig about its members, a
// route group about its sandboxes and their members.
func names(other, o client.Object) bool {
	switch other := other.(type) {
	case *crdv1.RoutingConfig:
		m, ok := o.(crdv1.Member)
		return ok && slices.ContainsFunc(other.Spec.SandboxedWorkloads, func(w crdv1.SandboxedWorkload) bool {
			return w.Kind == m.MemberKind() && w.Namespace == m.GetNamespace() && w.Name == m.GetName()
		})
	case *crdv1.SignadotRouteGroup:
		return slices.Contains(other.Spec.SandboxNames, sandboxOf(o))
	}
	return false
}

// sandboxOf names the sandbox that an object is, or is a member of; empty for any
// other.
func sandboxOf(o client.Object) string {
	if _, ok := o.(*crdv1.SignadotSandbox); ok {
		return o.GetName()
	}
	if _, ok := o.(crdv1.Member); ok {
		if ref := metav1.GetControllerOfNoCopy(o); ref != nil && ref.Kind == crdv1.KindSandbox {
			return ref.Name
		}
	}
	return ""
}

// identityOf returns the identity of an object of signadot.com.
func identityOf(kind, namespace, name string) identity {
	if !crdv1.Namespaced(kind) {
		namespace = ""
	}
	return identity{crdv1.GroupVersion().WithKind(kind).GroupKind(), client.ObjectKey{Namespace: namespace, Name: name}}
}

// touch is one write: the object before (nil: there was none) and after (nil:
// there is none any more).
type touch struct {
	id            identity
	before, after client.Object
}

// controllersOn returns the real controllers, with a world as their cluster, by the kind that they
// reconcile.
func controllersOn(w *world, facts *statements, c Config, m *meshtrial.Routers) (map[string]controller.Controller, error) {
	needs := kinds.Config{
		Needs: member.Needs{
			Access:    apply.Access{Client: w, Live: w, Now: func() time.Time { return w.now }},
			Publisher: facts,
		},
		Namespaces: c.Namespaces, OperatorNamespace: c.OperatorNamespace, PatchPowers: c.Powers, AuthorsAsked: true,
		Dial: func(context.Context, string) error { return nil }, // Nothing runs that could answer.
	}
	m.Wire(&needs)
	all, err := kinds.Controllers(needs)
	for _, kind := range pods() {
		delete(all, kind)
	}
	return all, err
}

// pods returns the kinds with controllers that run pods and depend on their results, which are not
// simulated.
func pods() []string {
	return []string{crdv1.KindResource, crdv1.KindLifecycleMethods, crdv1.KindJobRunnerGroup}
}

// simulated returns the kinds with simulated controllers.
func simulated() []string {
	return slices.DeleteFunc(crdv1.Names(crdv1.SupportedKinds()), func(kind string) bool { return slices.Contains(pods(), kind) })
}
