// Command demo-jobs creates a cluster with Switchyard and HotROD and runs the scenario of jobs. `demo-jobs prepare` stops
// before the scenario; `demo-jobs story` is the part that runs inside the cluster's network.
package main

import (
	"context"
	"fmt"

	"switchyard.dev/tests/link"
	"switchyard.dev/tools/demo"
	"switchyard.dev/tools/demo/resource"
)

func main() {
	demo.Demo{Name: "demo-jobs", Story: link.Jobs, Prepare: func(ctx context.Context, c demo.Config) error {
		return resource.PrepareImages(ctx, c, "debian")
	}, Goodbye: func(c demo.Cluster) {
		fmt.Printf("\nThe cluster is still up. To look around:  %s\nTo take it down:  %s\n", c.Enter(), c.Leave())
	}}.Main()
}
