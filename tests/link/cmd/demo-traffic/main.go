// Command demo-traffic creates a cluster with Switchyard and HotROD and runs the scenario of recorded requests, and that of a Smart
// Test. `demo-traffic prepare` stops before the scenario; `demo-traffic story` is the part that runs inside the cluster's network.
package main

import (
	"context"
	"fmt"

	"switchyard.dev/tests/link"
	"switchyard.dev/tools/demo"
	"switchyard.dev/tools/demo/local"
	"switchyard.dev/tools/demo/traffic"
)

func main() {
	demo.Demo{Name: "demo-traffic", Prepare: local.Prepare, Story: func(ctx context.Context) error {
		if err := traffic.Story(ctx); err != nil {
			return err
		}
		return link.SmartTest(ctx)
	}, Goodbye: func(c demo.Cluster) {
		fmt.Printf("\nThe cluster is still up. To look around:  %s\nTo take it down:  %s\n", c.Enter(), c.Leave())
	}}.Main()
}
