// Command demo-resource creates a cluster with Switchyard and podinfo and runs the scenario of a
// sandbox with a separate store. `demo-resource prepare` stops before the scenario; `demo-resource
// story` is the part that runs inside the cluster's network.
package main

import (
	"context"
	"fmt"

	"switchyard.dev/tools/demo"
	"switchyard.dev/tools/demo/resource"
)

func main() {
	demo.Demo{Name: "demo-resource", Story: resource.Story, Prepare: func(ctx context.Context, c demo.Config) error {
		return resource.Prepare(ctx, c, "debian", "kubectl")
	}, Goodbye: func(c demo.Cluster) {
		fmt.Printf("\nThe cluster is still up. To look around:  %s\nTo take it down:  %s\n", c.Enter(), c.Leave())
	}}.Main()
}
