// Command cluster runs a real one-node Kubernetes on this machine, in a separate network namespace,
// from programs that it compiles from pinned Go modules. It needs no container registry and no
// Docker. `cluster help` lists the commands.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"

	"switchyard.dev/tools/cluster/internal/cli"
	"switchyard.dev/tools/cluster/internal/cluster"
	"switchyard.dev/tools/cluster/internal/layout"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "cluster:", err)
	if errors.Is(err, cli.ErrUsage) {
		os.Exit(2)
	}
	os.Exit(1)
}

func run(ctx context.Context, args []string) error {
	command, err := cli.Parse(args)
	if err != nil {
		return err
	}
	home, err := os.UserHomeDir()
	if err != nil && os.Getenv("SWITCHYARD_CACHE") == "" {
		return fmt.Errorf("finding the cache directory: %w: set HOME or SWITCHYARD_CACHE", err)
	}
	n, err := layout.New(command.Config, os.Getenv, home)
	if err != nil {
		return err
	}
	return cli.Run(ctx, command, cluster.Cluster{Node: n, Source: source(), Out: os.Stdout})
}

// source is the folder with the pinned modules: the one that this program was
// compiled from, unless SWITCHYARD_SOURCE names another.
func source() string {
	if dir := os.Getenv("SWITCHYARD_SOURCE"); dir != "" {
		return dir
	}
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(file)
}
