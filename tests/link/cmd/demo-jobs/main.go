// Command demo-jobs creates a cluster with Switchyard, HotROD, and podinfo with its Redis, and runs the scenario of jobs. `demo-jobs prepare` stops
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
		c.Tests = true // podinfo is an image of the tests.
		return resource.PrepareBeside(ctx, c, "debian", "kubectl")
	}, Goodbye: func(c demo.Cluster) {
		fmt.Printf("\nThe cluster is still up. To look around:  %s\nTo take it down:  %s\n", c.Enter(), c.Leave())
	}}.Main()
}
