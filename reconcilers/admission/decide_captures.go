package admission

import (
	"slices"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
)

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
