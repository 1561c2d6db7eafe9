// Command demo-link creates a cluster with Switchyard and HotROD and runs the scenario of an agent
// and a control plane. `demo-link prepare` stops before the scenario; `demo-link story` is the part
// that runs inside the cluster's network.
package main

import (
	"fmt"

	"switchyard.dev/tests/link"
	"switchyard.dev/tools/demo"
	"switchyard.dev/tools/demo/local"
)

func main() {
	demo.Demo{Name: "demo-link", Story: link.Story, Prepare: local.Prepare, Goodbye: func(c demo.Cluster) {
		fmt.Printf("\nThe cluster is still up. To look around:  %s\nTo take it down:  %s\n", c.Enter(), c.Leave())
	}}.Main()
}
