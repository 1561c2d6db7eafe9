// Command tunnels measures the operator's tunnel beside raw TCP, ssh -R, chisel and frp, over a
// link between two network namespaces, the time to reconnect after the link was cut, (-link) the link
// between an agent and its control plane beside konnectivity, remotedialer and others, and (-muxes)
// the multiplexers that a tunnel could use. It needs root. It is a separate module: nothing else
// needs its dependencies.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
)

// What main starts ends with the thread that has started it, so main keeps the first.
func init() { runtime.LockOSThread() }

func main() {
	setOptions()
	flag.Parse()
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "tunnels:", err)
		os.Exit(1)
	}
}
