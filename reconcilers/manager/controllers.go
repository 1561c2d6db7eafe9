package manager

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/externalworkload"
	"switchyard.dev/reconcilers/forkedworkload"
	"switchyard.dev/reconcilers/forkedworkload/fork"
	"switchyard.dev/reconcilers/indexes"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/reconcilers/publish"
	"switchyard.dev/reconcilers/routegroup"
	"switchyard.dev/reconcilers/routingconfig"
	"switchyard.dev/reconcilers/sandbox"
	"switchyard.dev/reconcilers/settle"
	"switchyard.dev/reconcilers/unsupported"
	"switchyard.dev/reconcilers/virtualworkload"
	"switchyard.dev/sidecars/inject"
)

// Parts are what the controllers need beside a manager. Publisher, Objects, Live,
// Now and OperatorNamespace are required.
type Parts struct {
	// Publisher puts facts on the routing log.
	Publisher publish.Publisher
	// Objects brings objects that are to be looked at again.
	Objects *publish.Objects
	// Live reads past the cache, and shows objects as it does.
	Live client.Reader
	// Now gives the time for conditions and facts.
	Now func() time.Time
	// Namespaces are those in which forks may be made; empty means all.
	Namespaces []string
	// OperatorNamespace is where the operator lives, and what belongs to no other
	// namespace. Required.
	OperatorNamespace string
	// PatchPowers are those that patches may give a fork though its baseline has them not.
	PatchPowers fork.Powers
	// AuthorsAsked: the API server asks what authors of patches may read.
	AuthorsAsked bool
	// Receipts tells who has acknowledged a routing key; nil when nobody is asked.
	Receipts routingconfig.Receipts
	// KeyHeaders are the custom headers that carry routing keys, by precedence.
	KeyHeaders []string
	// Injected is what pods get from their injection now; empty fields are not known.
	Injected inject.Settings
	// ExternalWorkloads say when a tunnel counts as connected; zero for the defaults.
	ExternalWorkloads externalworkload.Limits
}

// Controllers makes all controllers part of the manager.
func Controllers(ctx context.Context, mgr ctrl.Manager, p Parts) error {
	access := apply.Access{Client: mgr.GetClient(), Live: p.Live, Now: p.Now, Events: mgr.GetEventRecorder(crdv1.FieldManager)}
	needs := member.Needs{Access: access, Publisher: p.Publisher, Injected: p.Injected}
	sandboxes, err := sandbox.New(sandbox.Config{Access: access, Namespaces: p.Namespaces, OperatorNamespace: p.OperatorNamespace})
	if err != nil {
		return err
	}
	forks, err := forkedworkload.New(forkedworkload.Config{
		Needs: needs, Powers: p.PatchPowers, AuthorsAsked: p.AuthorsAsked, OperatorNamespace: p.OperatorNamespace,
	})
	if err != nil {
		return err
	}
	externals, err := externalworkload.New(externalworkload.Config{
		Needs: needs, Limits: p.ExternalWorkloads, Namespaces: p.Namespaces, OperatorNamespace: p.OperatorNamespace,
	})
	if err != nil {
		return err
	}
	virtuals, err := virtualworkload.New(virtualworkload.Config{Needs: needs})
	if err != nil {
		return err
	}
	routes, err := routingconfig.New(routingconfig.Config{
		Access: access, Publisher: p.Publisher, Namespaces: p.Namespaces, Receipts: p.Receipts,
		KeyHeaders: publish.KeyHeaders(p.KeyHeaders, p.OperatorNamespace),
	})
	if err != nil {
		return err
	}
	groups, err := routegroup.New(routegroup.Config{Access: access})
	if err != nil {
		return err
	}
	if err := indexes.Add(ctx, mgr.GetFieldIndexer(), p.ExternalWorkloads.Also()...); err != nil {
		return err
	}
	for _, setup := range []func() error{
		func() error { return sandboxes.Setup(mgr, options()) },
		func() error { return groups.Setup(mgr, options()) },
		func() error { return forks.Setup(mgr, p.Objects.Members[crdv1.KindForkedWorkload], options()) },
		func() error {
			return externals.Setup(mgr, p.Objects.Members[crdv1.KindExternalWorkload], options())
		},
		func() error { return virtuals.Setup(mgr, p.Objects.Members[crdv1.KindVirtualWorkload], options()) },
		func() error { return routes.Setup(mgr, p.Objects.RoutingConfigs, options()) },
	} {
		if err := setup(); err != nil {
			return fmt.Errorf("set up the controllers: %w", err)
		}
	}
	return standIns(mgr, access)
}

// standIns makes the controllers of the kinds that nothing acts on part of the manager.
func standIns(mgr ctrl.Manager, access apply.Access) error {
	for _, kind := range unsupported.Kinds() {
		standIn, err := unsupported.New(access, kind)
		if err != nil {
			return err
		}
		if err := standIn.Setup(mgr, options()); err != nil {
			return fmt.Errorf("set up the controller of %s: %w", kind.Name, err)
		}
	}
	return nil
}

// How controllers work.
const (
	// workers look at objects of one kind at the same time.
	workers = 4
	// firstRetry and longestRetry bound the wait after an error. The longest is
	// how much later than possible an object may be looked at once what it
	// needs (such as the log) is back.
	firstRetry, longestRetry = 5 * time.Millisecond, 10 * time.Second
	// moment is how long what happens to an object adds up after a look at it.
	moment = 200 * time.Millisecond
	// reconciliation bounds one look at one object.
	reconciliation = 30 * time.Second
)

// options are those of every controller. Each needs a rate limiter of its own.
func options() controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: workers,
		ReconciliationTimeout:   reconciliation,
		NewQueue:                settle.Queue(moment),
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](
			firstRetry, longestRetry),
	}
}
