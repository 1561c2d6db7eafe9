package admission

import (
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
)

// captured returns the baselines of the forks that a capture is of, from the cache; nil for other kinds.
func (r *Reviewer) captured(ctx context.Context, o any) (out []crdv1.ObjectRef, err error) {
	c, is := o.(*crdv1.TrafficCapture)
	if !is {
		return nil, nil
	}
	var all crdv1.ForkedWorkloadList
	of := client.MatchingLabels{crdv1.LabelSandbox: crdv1.LabelValue(c.Spec.Sandbox)}
	if err := r.config.Client.List(ctx, &all, client.InNamespace(c.Namespace), of, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the forks of SignadotSandbox %s: %w", c.Spec.Sandbox, err)
	}
	for i := range all.Items {
		ref, _ := all.Items[i].BaselineRef()
		if c.Spec.Workload == "" || c.Spec.Workload == all.Items[i].Name || c.Spec.Workload == ref.Name {
			out = append(out, ref)
		}
	}
	return out, nil
}

// capture adds the rights to fork the workloads with requests that a capture is of. For one without a fork yet, these are the
// rights to fork a Deployment.
func (d *deciding) capture(c *crdv1.TrafficCapture) {
	refs := slices.Clone(d.Captured)
	if len(refs) == 0 {
		refs = []crdv1.ObjectRef{{APIVersion: "apps/v1", Kind: baseline.KindDeployment, Namespace: c.Namespace}}
	}
	for _, ref := range refs {
		group, resource := resourceOf(ref)
		d.want(Want{
			Access:  Access{Verb: "create", Group: group, Resource: resource, Namespace: c.Namespace},
			Purpose: "record the requests of forks in namespace " + c.Namespace, At: "spec.sandbox",
		})
	}
}
