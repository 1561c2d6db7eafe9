// Command job-executor-proxy is a container of a runner's pod: it serves the execution, the output and the artifacts
// of jobs over TLS, and stores them in a volume that the main container does not mount.
package main

import (
	"context"
	"math"
	"os"
	"runtime/debug"

	"switchyard.dev/eventbus/program"
	"switchyard.dev/workflows/jobexec/proxy"
)

// memory is the soft limit of the process unless GOMEMLIMIT sets another one.
const memory = 24 << 20

func main() { program.Main("job-executor-proxy ended", run) }

func run(ctx context.Context, args []string) error {
	settings, err := proxy.ParseSettings(args, os.Getenv, os.Stderr)
	if err != nil {
		return err
	}
	if debug.SetMemoryLimit(-1) == math.MaxInt64 {
		debug.SetMemoryLimit(memory)
	}
	settings.Config.Logger, settings.Config.Metrics = program.Logger(settings.LogLevel), program.Registry()
	main, err := proxy.New(settings.Config)
	if err != nil {
		return err
	}
	return main.Run(ctx)
}
