// Command controlplane is a control plane: it serves agents of clusters, the REST API, and users' connections to
// Services. It keeps its state in SQLite, or in PostgreSQL for several replicas. With an argument that is no flag it
// runs a command for administrators (controlplane-link/controlplane/admin).
package main

import (
	"context"
	"flag"
	"os"

	"github.com/go-logr/logr"
	_ "golang.org/x/crypto/x509roots/fallback" // for issuers of logins and PostgreSQL: the image has no authorities
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"switchyard.dev/controlplane-link/controlplane"
	"switchyard.dev/controlplane-link/controlplane/admin"
	"switchyard.dev/eventbus/program"
)

func main() { program.Main("the control plane ended", run) }

func run(ctx context.Context, args []string) error {
	if admin.Is(args) {
		return admin.Run(ctx, args, os.Stdout)
	}
	var s controlplane.Settings
	flags := flag.NewFlagSet("controlplane", flag.ContinueOnError)
	s.Flags(flags)
	if err := program.Parse(flags, args, os.Stderr); err != nil {
		return err
	}
	logger := program.Logger(s.Level)
	klog.SetSlogLogger(logger)
	ctrllog.SetLogger(logr.FromSlogHandler(logger.Handler()))
	c, err := s.Read(logger)
	if err != nil {
		return err
	}
	main, err := controlplane.New(ctx, c)
	if err != nil {
		return err
	}
	return main.Run(ctx)
}
