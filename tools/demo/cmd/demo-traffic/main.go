// Command demo-traffic creates a cluster with Switchyard and HotROD and runs the scenario of recorded requests.
// `demo-traffic prepare` stops before the scenario; `demo-traffic story` is the part that runs inside the cluster's network.
package main

import (
	"fmt"

	"switchyard.dev/tools/demo"
	"switchyard.dev/tools/demo/local"
	"switchyard.dev/tools/demo/traffic"
)

func main() {
	demo.Demo{Name: "demo-traffic", Story: traffic.Story, Prepare: local.Prepare, Goodbye: func(c demo.Cluster) {
		fmt.Printf("\nThe cluster is still up. To look around:  %s\nTo take it down:  %s\n", c.Enter(), c.Leave())
	}}.Main()
}
