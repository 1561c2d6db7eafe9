package gatewayadapter

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/reconcilers/meshes"
	"switchyard.dev/reconcilers/policies"
	"switchyard.dev/reconcilers/policyreader"
)

// ReasonPoliciesUnreadable: policies of a kind that the cluster has cannot be read, so it is not
// known which routes may be derived.
const ReasonPoliciesUnreadable = "PoliciesUnreadable"

// readPolicies reads the policies, and returns the generation of each, by UID. Where a kind cannot
// be read, it sets the trouble if policies are a reason to derive nothing, and otherwise keeps
// the policies that it has read before.
func (c *cluster) readPolicies(ctx context.Context, from client.Reader, kinds meshes.Kinds) (map[types.UID]int64, error) {
	generations := map[types.UID]int64{}
	var all []policies.Policy
	for _, kind := range c.settings.PolicyKinds {
		found, err := policyreader.List(ctx, from, kinds, kind)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil && c.settings.Policies == policies.Report:
			return c.salient.policies, nil
		case err != nil:
			why := condition.False(ReasonPoliciesUnreadable, fmt.Sprintf("Objects of kind %s cannot be read, so no routes are derived: %v. Allow the controller manager to list them, or set policies.routes to report.", kind.GroupKind(), err))
			c.trouble = &why
			return nil, nil
		}
		for i := range found {
			generations[found[i].GetUID()] = found[i].GetGeneration()
			all = append(all, policies.Read(kind, found[i].Object))
		}
	}
	c.policies = all
	return generations, nil
}
