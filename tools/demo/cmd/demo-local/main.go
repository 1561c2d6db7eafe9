// Command demo-local creates a cluster with Switchyard and HotROD and runs the scenario of a
// service on a workstation. `demo-local prepare` stops before the scenario; `demo-local story` is
// the part that runs inside the cluster's network.
package main

import (
	"fmt"

	"switchyard.dev/tools/demo"
	"switchyard.dev/tools/demo/local"
)

func main() {
	demo.Demo{Name: "demo-local", Story: local.Story, Prepare: local.Prepare, Goodbye: func(c demo.Cluster) {
		fmt.Printf("\nThe cluster is still up. To look around:  %s\nTo take it down:  %s\n", c.Enter(), c.Leave())
	}}.Main()
}
