package routegroup

import (
	"context"
	"errors"

	"switchyard.dev/reconcilers/apply"
)

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
