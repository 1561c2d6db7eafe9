// Command switchyard asks a route server what is routed where, what was, and why; it sets
// up sandboxes and resource plugins from their published files, shows how far their steps are, and
// connects a workstation with the cluster.
// Installed as kubectl-switchyard it is a kubectl plugin: kubectl switchyard.
package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/klog/v2"

	"switchyard.dev/tools/switchyard"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/interrupt"
	"switchyard.dev/xds/routingkey"
)

func main() {
	klog.SetSlogLogger(silent)
	os.Exit(run(os.Args))
}

func run(args []string) int {
	ctx, stop := interrupt.Notify(context.Background())
	defer stop()
	config := wired(called(args[0]))
	config.In, config.Out, config.Err = os.Stdin, os.Stdout, os.Stderr
	config.Terminal = isTerminal(os.Stdout)
	return int(switchyard.Main(ctx, config, args[1:]))
}

// wired hands the client what it needs of the controllers and the sidecars.
func wired(name string) switchyard.Config {
	return switchyard.Config{
		Config: command.Config{Name: name, Getenv: os.Getenv, Keys: routingkey.Find},
		Plan:   plan, Witness: witness, Coverage: covered, Unfit: unfit, Mesh: routedByMesh, Caveats: caveatsOf,
		Further: further,
	}
}

// called returns how the program was called, as its help should say it.
func called(path string) string {
	if strings.HasPrefix(filepath.Base(path), "kubectl-") {
		return "kubectl switchyard"
	}
	return "switchyard"
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
}
