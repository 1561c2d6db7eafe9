package dryrun

import (
	"context"
	"slices"
	"time"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/controller"
	"switchyard.dev/reconcilers/dryrun/meshtrial"
	"switchyard.dev/reconcilers/kinds"
	"switchyard.dev/reconcilers/member"
)

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
func pods() []string { return []string{crdv1.KindResource, crdv1.KindLifecycleMethods} }

// simulated returns the kinds with simulated controllers.
func simulated() []string {
	return slices.DeleteFunc(crdv1.Names(crdv1.SupportedKinds()), func(kind string) bool { return slices.Contains(pods(), kind) })
}
