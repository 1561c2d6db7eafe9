package main

import (
	"context"
	"flag"
	"os"

	"github.com/go-logr/logr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"switchyard.dev/tests/bench/frame"
	"switchyard.dev/tests/process"
)

func main() {
	l := flags()
	flag.Parse()
	ctrllog.SetLogger(logr.Discard())
	frame.Main("bench-reconcilers", func(ctx context.Context) error {
		if process.Role() == roleManager {
			return process.Answer(newManaging())
		}
		return measure(ctx, os.Stdout, *l)
	})
}
