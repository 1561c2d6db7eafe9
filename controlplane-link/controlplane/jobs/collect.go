package jobs

import (
	"context"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/registry"
	crdv1 "switchyard.dev/protos/crd/v1"
	jobexecv1 "switchyard.dev/protos/gen/jobexec/v1"
	"switchyard.dev/workflows/jobexec/results"
)

// Collector stores what jobs have left in their pods.
type Collector struct {
	Kept *results.Kept
	Dial Dial
}

// Collect stores what a job has left that has ended, and then releases it in the pod, as results.Collection does.
func (c *Collector) Collect(ctx context.Context, at registry.Cluster, j model.Job, o *crdv1.Job) error {
	e := o.Status.Execution
	from, err := c.Dial(ctx, at, j.Name, e.PodUID)
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }() // nothing is kept in it
	ref := &jobexecv1.ExecutionRef{JobUid: string(o.UID), Execution: uint32(e.Count)}
	return results.Collection{Kept: c.Kept, Org: j.Org, Job: j.Name, Ref: ref, From: from, Specs: o.Spec.Artifacts}.Collect(ctx)
}
