package proxy

import (
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"

	"switchyard.dev/eventbus/program"
	"switchyard.dev/eventbus/trust"
	"switchyard.dev/workflows/jobexec/layout"
)

// Settings are what the program takes from its environment and its flags.
type Settings struct {
	Config   Config
	LogLevel slog.Level
}

// ParseSettings reads the settings. The environment is that of workflows/jobexec/layout; flags are for tests and other
// systems. Usage goes to help; the error is flag.ErrHelp when the arguments request help.
func ParseSettings(args []string, getenv func(string) string, help io.Writer) (Settings, error) {
	var s Settings
	c := &s.Config
	flags := flag.NewFlagSet("job-executor-proxy", flag.ContinueOnError)
	flags.StringVar(&c.Address, "address", fmt.Sprintf(":%d", layout.Port), "address of the service, gRPC over TLS")
	flags.StringVar(&c.HealthAddress, "health-address", fmt.Sprintf(":%d", layout.HealthPort), "address of /metrics, /healthz and /readyz")
	flags.StringVar(&c.Store, "store", layout.Store, "folder of output, results and artifacts")
	flags.StringVar(&c.Socket, "socket", layout.Socket, "socket of the executor in the main container")
	flags.StringVar(&c.Enrolment.TokenFile, "token", layout.TokenPath, "file with the token of the pod")
	flags.StringVar(&c.Routing.Address, "routing-address", fmt.Sprintf("127.0.0.1:%d", layout.RoutingPort), "address of the HTTP proxy of scripts, on 127.0.0.1")
	flags.DurationVar(&c.Linger, "linger", 0, "how long an ending waits for the Job controller when the pod is terminated; 0: 20 s")
	flags.TextVar(&s.LogLevel, "log-level", slog.LevelInfo, "debug, info, warn or error")
	if err := program.Parse(flags, args, help); err != nil {
		return s, err
	}
	var ca string
	for name, to := range map[string]*string{layout.EnvPodUID: &c.PodUID, layout.EnvAuthority: &c.Enrolment.Address, layout.EnvCA: &ca} {
		if *to = getenv(name); *to == "" {
			return s, fmt.Errorf("the environment does not have %s: the operator sets it in the pods of runner groups", name)
		}
	}
	if _, err := os.Stat(layout.Redirected); err == nil {
		c.Routing.Redirect = layout.RedirectPort
	}
	c.Routing.Service, c.Routing.Others = getenv(layout.EnvService), getenv(layout.EnvOthers)
	c.Enrolment.Roots = trust.NewRoots(layout.EnvCA)
	if err := c.Enrolment.Roots.Set([]byte(ca)); err != nil {
		return s, err
	}
	if text := getenv(layout.EnvArtifactBytes); text != "" {
		all, err := strconv.ParseUint(text, 10, 62)
		if err != nil {
			return s, fmt.Errorf("%s is %q, and no number of bytes", layout.EnvArtifactBytes, text)
		}
		c.Artifacts.Each, c.Artifacts.All = all, all
	}
	return s, nil
}
