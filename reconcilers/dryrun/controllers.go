package dryrun

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/externalworkload"
	"switchyard.dev/reconcilers/forkedworkload"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/reconcilers/routegroup"
	"switchyard.dev/reconcilers/routingconfig"
	"switchyard.dev/reconcilers/sandbox"
	"switchyard.dev/reconcilers/unsupported"
	"switchyard.dev/reconcilers/virtualworkload"
)

// controllersOn gives the real controllers, at work on a world, by the kind that they
// look at.
func controllersOn(w *world, facts *statements, c Config, now time.Time) (map[string]reconcile.Reconciler, error) {
	access := apply.Access{Client: w, Live: w, Now: func() time.Time { return now }}
	needs := member.Needs{Access: access, Publisher: facts}
	sandboxes, err := sandbox.New(sandbox.Config{Access: access, Namespaces: c.Namespaces, OperatorNamespace: c.OperatorNamespace})
	if err != nil {
		return nil, err
	}
	groups, err := routegroup.New(routegroup.Config{Access: access})
	if err != nil {
		return nil, err
	}
	forks, err := forkedworkload.New(forkedworkload.Config{
		Needs: needs, Powers: c.Powers, AuthorsAsked: true, OperatorNamespace: c.OperatorNamespace,
		Dial: func(context.Context, string) error { return nil }, // Nothing runs that could answer.
	})
	if err != nil {
		return nil, err
	}
	externals, err := externalworkload.New(externalworkload.Config{Needs: needs})
	if err != nil {
		return nil, err
	}
	virtuals, err := virtualworkload.New(virtualworkload.Config{Needs: needs})
	if err != nil {
		return nil, err
	}
	routes, err := routingconfig.New(routingconfig.Config{Access: access, Publisher: facts, Namespaces: c.Namespaces})
	if err != nil {
		return nil, err
	}
	all := map[string]reconcile.Reconciler{
		crdv1.KindSandbox: sandboxes, crdv1.KindRouteGroup: groups, crdv1.KindRoutingConfig: routes,
		crdv1.KindForkedWorkload: forks, crdv1.KindExternalWorkload: externals, crdv1.KindVirtualWorkload: virtuals,
	}
	for _, kind := range unsupported.Kinds() {
		if all[kind.Name], err = unsupported.New(access, kind); err != nil {
			return nil, err
		}
	}
	return all, nil
}
