package routegroup

import (
	"context"
	"errors"

	"switchyard.dev/reconcilers/apply"
)

// act brings about what was decided: the new key before an old one goes. What is
// refused is noted in Made. An error means that it should be tried again.
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
			return Made{Config: in.KeyConfig}, err // What is not wanted any more stays until the new is there.
		default:
			made.Config = have
		}
	}
	return made, w.DeleteSurplus(ctx, in.Group, apply.Objects(d.Surplus)...)
}
