// Package jobs reads the output of jobs: live from their runners through the link, and after their end from the collected files.
//
//	Collector   stores what a job has left in its pod, and releases it    collect.go
//	Streams     output streams as server-sent events                      streams.go
//	sink        events of a stream, cursors                               events.go, cursor.go
package jobs

import (
	"context"

	"switchyard.dev/controlplane-link/registry"
	"switchyard.dev/workflows/jobexec/client"
)

// Dial returns a client of the runner in the pod with this UID of a job's present execution. The caller closes it.
type Dial func(ctx context.Context, cluster registry.Cluster, job, podUID string) (*client.Client, error)
