// Command controlplane is a control plane: it serves agents of clusters, the REST API, and users' connections to
// Services. It keeps its state in SQLite, or in PostgreSQL for several replicas.
package main

import (
	"context"
	"flag"
	"os"

	"switchyard.dev/controlplane-link/controlplane"
	"switchyard.dev/eventbus/program"
)

func main() { program.Main("the control plane ended", run) }

func run(ctx context.Context, args []string) error {
	var s controlplane.Settings
	flags := flag.NewFlagSet("controlplane", flag.ContinueOnError)
	s.Flags(flags)
	if err := program.Parse(flags, args, os.Stderr); err != nil {
		return err
	}
	c, err := s.Read(program.Logger(s.Level))
	if err != nil {
		return err
	}
	main, err := controlplane.New(ctx, c)
	if err != nil {
		return err
	}
	return main.Run(ctx)
}
