// Command traffic-sidecar is the traffic container of a fork's pod: it copies the requests of captured ports to
// traffic-manager.
//
//	traffic-sidecar -manager HOST:PORT -token FILE -state FILE [-ca FILE] [-log-level LEVEL]
//	traffic-sidecar started -state FILE     succeed once it serves its attachments, as its startup probe does
package main

import (
	"context"
	"flag"
	"log/slog"
	"math"
	"os"
	"runtime/debug"

	"switchyard.dev/eventbus/program"
	"switchyard.dev/sidecars/traffic/attach"
)

const (
	// memory is the soft limit of the process unless GOMEMLIMIT sets another one.
	memory = 56 << 20
	// authorities has those that vouch for traffic-manager, as PEM, where no file does.
	authorities = "TRAFFIC_MANAGER_CA"
)

func main() { program.Main("traffic-sidecar ended", run) }

func run(ctx context.Context, args []string) (err error) {
	started := len(args) > 0 && args[0] == "started"
	var cfg attach.Config
	var level slog.Level
	flags := flag.NewFlagSet("traffic-sidecar", flag.ContinueOnError)
	flags.StringVar(&cfg.Manager, "manager", "traffic-manager.signadot.svc:7444", "traffic-manager")
	flags.StringVar(&cfg.TokenFile, "token", "/var/run/secrets/traffic/token", "token of the pod for traffic-manager")
	flags.StringVar(&cfg.StateFile, "state", "/var/lib/traffic/attachments", "file for what is attached, in a folder of this container alone")
	ca := flags.String("ca", "", "authorities of traffic-manager, as PEM; "+authorities+" in the environment has them otherwise")
	flags.TextVar(&level, "log-level", slog.LevelInfo, "debug, info, warn or error")
	if started {
		args = args[1:]
	}
	if err = program.Parse(flags, args, os.Stderr); err != nil {
		return err
	}
	if started {
		return attach.Started(cfg.StateFile)
	}
	if debug.SetMemoryLimit(-1) == math.MaxInt64 {
		debug.SetMemoryLimit(memory)
	}
	cfg.Logger = program.Logger(level)
	if cfg.Roots, err = attach.Roots(*ca, os.Getenv(authorities)); err != nil {
		return err
	}
	return attach.Run(ctx, cfg)
}
