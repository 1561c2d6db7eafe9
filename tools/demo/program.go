package demo

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// Demo is a scenario that runs in a separate cluster.
type Demo struct {
	// Name is that of the program.
	Name string
	// Prepare brings up what the story is about.
	Prepare func(context.Context, Config) error
	// Story runs the scenario, inside the cluster's network.
	Story func(context.Context) error
	// Goodbye prints how to explore the cluster afterwards.
	Goodbye func(Cluster)
}

// Main is the main function of a demo: without an argument it does all of it, `prepare` stops
// before the story, and `story` is the part that runs inside the cluster's network.
func (d Demo) Main() {
	kind := flag.String("cluster", "node", "where to install: node (a one-node Kubernetes, no Docker) or kind")
	root := flag.String("root", ".", "the repository's root")
	flag.TextVar(&began, "began", began, "start of the clock of the steps; the demo passes it to its own story")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := d.run(ctx, *kind, *root, flag.Arg(0)); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", d.Name, err)
		os.Exit(1)
	}
}

func (d Demo) run(ctx context.Context, kind, root, part string) error {
	if part == "story" {
		return d.Story(ctx)
	}
	cluster, err := NewCluster(kind, root)
	if err != nil {
		return err
	}
	if err := d.Prepare(ctx, Config{Root: root, Cluster: cluster, Step: Steps()}); err != nil || part == "prepare" {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	inside, err := cluster.Inside(ctx, self, "-began", began.Format(time.RFC3339Nano), "story")
	if err != nil {
		return err
	}
	inside.Stdout, inside.Stderr = os.Stdout, os.Stderr
	if err := inside.Run(); err != nil {
		return fmt.Errorf("the story broke off: %w", err)
	}
	d.Goodbye(cluster)
	return nil
}
