// Command demo-controlplane creates a cluster with Switchyard and HotROD and runs the scenario of a control plane from
// its chart. `demo-controlplane prepare` stops before the scenario; `demo-controlplane story` is the part that runs
// inside the cluster's network.
package main

import (
	"fmt"

	"switchyard.dev/tests/link"
	"switchyard.dev/tools/demo"
)

func main() {
	demo.Demo{Name: "demo-controlplane", Story: link.Hosted, Prepare: link.PrepareHosted, Goodbye: func(c demo.Cluster) {
		fmt.Printf("\nThe cluster is still up. To look around:  %s\nTo take it down:  %s\n", c.Enter(), c.Leave())
	}}.Main()
}
