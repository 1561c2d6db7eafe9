// Command switchyard asks a route server what is routed where, what was, and why; and it sets
// up sandboxes and resource plugins from their published files, and shows how far their steps are.
// Installed as kubectl-switchyard it is a kubectl plugin: kubectl switchyard.
package main

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"switchyard.dev/routeserver/cli"
	"switchyard.dev/routeserver/cli/session"
	"switchyard.dev/routeserver/cmd/switchyard/specs"
	"switchyard.dev/routeserver/cmd/switchyard/steps"
	"switchyard.dev/xds/routingkey"
)

func main() {
	klog.SetSlogLogger(silent)
	os.Exit(run(os.Args))
}

func run(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	config := wired(called(args[0]))
	config.In, config.Out, config.Err = os.Stdin, os.Stdout, os.Stderr
	config.Terminal = isTerminal(os.Stdout)
	return int(cli.Main(ctx, config, args[1:]))
}

// wired hands the client what it needs of the controllers and the sidecars.
func wired(name string) cli.Config {
	return cli.Config{
		Config: session.Config{Name: name, Getenv: os.Getenv, Keys: routingkey.Find},
		Plan:   plan, Witness: witness, Coverage: covered, Unfit: unfit, Mesh: routedByMesh,
		Further: func(s *session.Session) []*cobra.Command { return append(specs.Commands(s), steps.Commands(s)...) },
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
