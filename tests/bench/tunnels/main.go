// Command tunnels measures our tunnel beside raw TCP, ssh -R, chisel and frp, over a link between
// two network namespaces, how soon it is back after the link was cut, and (-muxes) the multiplexers
// that a tunnel could stand on. It is run as root. It has a module of its own: nothing else needs what
// it compares.
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
