// Command sweep-jobs-node creates a cluster with Switchyard and runs jobs in it while runner pods and the API server
// are killed. `sweep-jobs-node prepare` stops before that; `sweep-jobs-node story` is the part that runs inside the
// cluster's network.
package main

import (
	"context"
	"fmt"

	"switchyard.dev/tests/sweep/jobs"
	"switchyard.dev/tools/demo"
	"switchyard.dev/tools/demo/resource"
)

func main() {
	demo.Demo{Name: "sweep-jobs-node", Story: jobs.OnNode, Prepare: func(ctx context.Context, c demo.Config) error {
		return resource.PrepareImages(ctx, c, "debian")
	}, Goodbye: func(c demo.Cluster) {
		fmt.Printf("\nThe cluster is still up. To take it down:  %s\n", c.Leave())
	}}.Main()
}
