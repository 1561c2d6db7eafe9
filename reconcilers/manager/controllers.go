package manager

import (
	"context"
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/kinds"
	"switchyard.dev/reconcilers/publish"
)

// addControllers adds the controllers of all kinds to the manager. again requeues objects that have not
// changed, by the name of the kind.
func addControllers(ctx context.Context, mgr ctrl.Manager, c kinds.Config, again map[string]publish.Again) error {
	controllers, err := kinds.Controllers(c)
	if err != nil {
		return err
	}
	if err := kinds.AddIndexes(ctx, mgr.GetFieldIndexer(), c.ExternalWorkloads.Also()...); err != nil {
		return err
	}
	for _, kind := range crdv1.Kinds() {
		if err := controllers[kind.Name].Setup(mgr, c.ControllerName(kind), again[kind.Name]); err != nil {
			return fmt.Errorf("set up the controller of %s: %w", kind.Name, err)
		}
	}
	return nil
}
