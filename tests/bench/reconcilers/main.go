package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"switchyard.dev/tests/process"
)

func main() {
	l := flags()
	flag.Parse()
	ctrllog.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop() // What was started ends with this process, also when it is told to.
	run := func() error { return measure(ctx, os.Stdout, *l) }
	if process.Role() == roleManager {
		run = func() error { return process.Answer(newManaging()) }
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench-reconcilers:", err)
		os.Exit(1)
	}
}
