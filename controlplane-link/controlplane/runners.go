package controlplane

import (
	"context"

	"switchyard.dev/controlplane-link/registry"
	"switchyard.dev/controlplane-link/runner"
	"switchyard.dev/controlplane-link/server"
	linkv1 "switchyard.dev/protos/gen/link/v1"
	"switchyard.dev/workflows/jobexec/client"
)

// runners reaches the runners of jobs through the link. It implements jobs.Runners.
type runners struct{ link *server.Server }

// Dial implements jobs.Runners.
func (r runners) Dial(ctx context.Context, at registry.Cluster, job, podUID string) (*client.Client, error) {
	of, _, err := runner.Client(ctx, r.link, at, &linkv1.Runner{Job: job, PodUid: podUID})
	return of, err
}
