// Command demo creates a cluster with Switchyard and HotROD and runs the scenario of one forked
// request. `demo` does all of it; `demo prepare` stops before the scenario; `demo story` is the
// part that runs inside the cluster's network.
package main

import "switchyard.dev/tools/demo"

func main() {
	demo.Demo{Name: "demo", Prepare: demo.Prepare, Story: demo.Story, Goodbye: demo.Goodbye}.Main()
}
