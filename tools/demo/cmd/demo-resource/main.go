// Command demo-resource brings up a cluster with Switchyard and podinfo in it and tells the
// story of a sandbox with a store of its own. `demo-resource story` is the part that runs
// inside the cluster's network.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"switchyard.dev/tools/demo"
	"switchyard.dev/tools/demo/resource"
)

func main() {
	kind := flag.String("cluster", "node", "where to install: node (a one-node Kubernetes, no Docker) or kind")
	root := flag.String("root", ".", "the repository's root")
	flag.Parse()
	if err := run(*kind, *root, flag.Arg(0)); err != nil {
		fmt.Fprintln(os.Stderr, "demo-resource:", err)
		os.Exit(1)
	}
}

func run(kind, root, part string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if part == "story" {
		return resource.Story(ctx)
	}
	cluster, err := demo.NewCluster(kind, root)
	if err != nil {
		return err
	}
	if err := resource.Prepare(ctx, demo.Config{Root: root, Cluster: cluster, Step: demo.Steps()}, "debian", "kubectl"); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	inside, err := cluster.Inside(ctx, self, "story")
	if err != nil {
		return err
	}
	inside.Stdout, inside.Stderr = os.Stdout, os.Stderr
	if err := inside.Run(); err != nil {
		return fmt.Errorf("the story broke off: %w", err)
	}
	fmt.Printf("\nThe cluster is still up. To look around:  %s\nTo take it down:  %s\n", cluster.Enter(), cluster.Leave())
	return nil
}
