// Command linkserver is a control plane that has the link alone: agents of clusters connect to it,
// and users with API keys reach Services of these clusters through it. It runs as one replica.
package main

import (
	"context"
	"flag"
	"log/slog"
	"os"

	"switchyard.dev/controlplane-link/linkserver"
	"switchyard.dev/eventbus/program"
	"switchyard.dev/eventbus/trust"
)

func main() { program.Main("the link server ended", run) }

func run(ctx context.Context, args []string) (err error) {
	c, certificate, level := linkserver.Config{}, trust.Config{ByHand: true}, slog.LevelInfo
	flags := flag.NewFlagSet("linkserver", flag.ContinueOnError)
	flags.StringVar(&c.AgentsAddress, "agents-address", ":7443", "address for agents")
	flags.StringVar(&c.UsersAddress, "users-address", ":8443", "address for users: HTTP CONNECT and reverse proxy, over TLS")
	flags.StringVar(&c.MetricsAddress, "metrics-address", ":9090", "address of /metrics, /healthz and /readyz")
	flags.StringVar(&c.Credentials, "credentials", "/etc/linkserver/credentials.yaml", "file with the hashes of API keys and cluster tokens; it is read again when it changes")
	flags.StringVar(&c.SigningKey, "signing-key", "", "file with an Ed25519 private key (PKCS #8, PEM), for credentials with which users connect workstations; empty: none are issued")
	flags.StringVar(&certificate.Dir, "tls-dir", "/etc/linkserver/tls", "folder with tls.crt, tls.key and ca.crt")
	flags.StringVar(&certificate.Name, "tls-name", "", "host name in the certificate, which agents and users connect to")
	flags.TextVar(&level, "log-level", level, "debug, info, warn or error")
	if err := program.Parse(flags, args, os.Stderr); err != nil {
		return err
	}
	c.Logger = program.Logger(level)
	certificate.Logger = c.Logger
	if c.TLS, err = trust.Open(certificate); err != nil {
		return err
	}
	main, err := linkserver.New(c)
	if err != nil {
		return err
	}
	return main.Run(ctx)
}
