// Package kinds makes the controller of every kind of custom resource. It is the only
// package that knows all of them: who runs controllers, on a cluster or in a simulation,
// has them from here.
package kinds

import (
	"errors"
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"switchyard.dev/eventbus/event"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/externalworkload"
	"switchyard.dev/reconcilers/fork"
	"switchyard.dev/reconcilers/forkedworkload"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/reconcilers/publish"
	"switchyard.dev/reconcilers/routegroup"
	"switchyard.dev/reconcilers/routingconfig"
	"switchyard.dev/reconcilers/sandbox"
	"switchyard.dev/reconcilers/unsupported"
	"switchyard.dev/reconcilers/virtualworkload"
)

// Controller looks at the objects of one kind.
type Controller interface {
	reconcile.Reconciler
	// Setup makes it part of a manager. again brings objects that are to be looked at
	// although they have not changed; kinds without facts of their own have none.
	Setup(mgr ctrl.Manager, again publish.Again, o controller.Options) error
}

// Config is what the controllers need.
type Config struct {
	member.Needs
	// Namespaces are those in which members may be made; empty means all.
	Namespaces []string
	// OperatorNamespace is where the operator lives, and what belongs to no other
	// namespace. Required.
	OperatorNamespace string
	// PatchPowers are those that patches may give a fork though its baseline has them not.
	PatchPowers fork.Powers
	// AuthorsAsked: the API server asks what authors of patches may read (package authors).
	AuthorsAsked bool
	// Dial tries whether a fork's Services answer; nil for forkedworkload.DialTCP.
	Dial forkedworkload.Dial
	// Receipts tells who has acknowledged a routing key; nil when nobody is asked.
	Receipts routingconfig.Receipts
	// KeyHeaders is the fact about the custom headers that carry routing keys
	// (publish.KeyHeaders); the zero Fact when none is stated.
	KeyHeaders event.Fact
	// ExternalWorkloads say when a tunnel counts as connected; zero for the defaults.
	ExternalWorkloads externalworkload.Limits
}

// Controllers returns the controller of each of crdv1.Kinds, by the name of the kind.
func Controllers(c Config) (map[string]Controller, error) {
	out := map[string]Controller{}
	var errs []error
	add := func(kind string, made Controller, err error) {
		if _, twice := out[kind]; twice {
			err = errors.Join(err, fmt.Errorf("%s has two controllers", kind))
		}
		out[kind] = made
		errs = append(errs, err)
	}
	headers := publish.HeadersOf(c.KeyHeaders)
	sandboxes, err := sandbox.New(sandbox.Config{
		Access: c.Access, Namespaces: c.Namespaces, OperatorNamespace: c.OperatorNamespace, KeyHeaders: headers,
	})
	add(crdv1.KindSandbox, sandboxes, err)
	groups, err := routegroup.New(routegroup.Config{Access: c.Access, KeyHeaders: headers})
	add(crdv1.KindRouteGroup, groups, err)
	forks, err := forkedworkload.New(forkedworkload.Config{
		Needs: c.Needs, Powers: c.PatchPowers, AuthorsAsked: c.AuthorsAsked, OperatorNamespace: c.OperatorNamespace, Dial: c.Dial,
	})
	add(crdv1.KindForkedWorkload, forks, err)
	externals, err := externalworkload.New(externalworkload.Config{
		Needs: c.Needs, Limits: c.ExternalWorkloads, Namespaces: c.Namespaces, OperatorNamespace: c.OperatorNamespace,
	})
	add(crdv1.KindExternalWorkload, externals, err)
	virtuals, err := virtualworkload.New(virtualworkload.Config{Needs: c.Needs})
	add(crdv1.KindVirtualWorkload, virtuals, err)
	routes, err := routingconfig.New(routingconfig.Config{
		Access: c.Access, Publisher: c.Publisher, Namespaces: c.Namespaces, Receipts: c.Receipts, KeyHeaders: c.KeyHeaders,
	})
	add(crdv1.KindRoutingConfig, routes, err)
	for _, kind := range unsupported.Kinds() {
		standIn, err := unsupported.New(c.Access, kind)
		add(kind.Name, standIn, err)
	}
	for _, kind := range crdv1.Kinds() {
		if out[kind.Name] == nil {
			errs = append(errs, fmt.Errorf("%s has no controller", kind.Name))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("make the controllers: %w", err)
	}
	return out, nil
}
