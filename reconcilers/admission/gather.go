package admission

import (
	"context"
	"slices"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
)

// input returns the Input for an object, without its baselines.
func (r *Reviewer) input(o crdv1.Object) Input {
	return Input{Object: o, OperatorNamespace: r.config.OperatorNamespace, Powers: r.config.Powers, Limits: r.config.Limits}
}

// gather reads the baselines that patches of an object are for, from the cache.
//
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch
func (r *Reviewer) gather(ctx context.Context, in Input) (Input, error) {
	in.Baselines = map[crdv1.ObjectRef]Baseline{}
	for _, ref := range References(in.Object, r.config.OperatorNamespace) {
		if n := r.config.Namespaces; len(n) > 0 && !slices.Contains(n, ref.Namespace) {
			in.Baselines[ref] = Baseline{Missing: "is where the operator may not look (allowedNamespaces)"}
			continue
		}
		live, err := baseline.Read(ctx, r.config.Client, ref)
		if err != nil {
			return in, err
		}
		switch {
		case live == nil:
			in.Baselines[ref] = Baseline{Missing: "does not exist"}
		case live.Problem != "":
			in.Baselines[ref] = Baseline{Missing: "cannot be forked: " + live.Problem}
		default:
			in.Baselines[ref] = Baseline{Live: live}
		}
	}
	return in, nil
}
