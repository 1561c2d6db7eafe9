package switchyard

import (
	"context"
	"fmt"
	"io"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/switchyard/command/interrupt"
	"switchyard.dev/tools/switchyard/command/reach"
	"switchyard.dev/tools/switchyard/history"
	"switchyard.dev/tools/switchyard/routing"
	"switchyard.dev/tools/switchyard/routing/sidecars"
	"switchyard.dev/tools/switchyard/show"
)

// Config is what the client works with.
type Config struct {
	command.Config
	// Plan turns an object into the facts that would be stated. Without it dry-run
	// is not there.
	Plan routing.Planner
	// Witness reads what the operator keeps of the log outside of it. Without it audit
	// verify --live holds the log against --mark only.
	Witness history.Witness
	// Coverage looks at the cluster's pods. Without it the command coverage is not
	// there.
	Coverage sidecars.Survey
	// Unfit says in a sentence in which headers no request can carry a routing key, and
	// why; empty when every header can carry it. Without it explain does not say so.
	Unfit func(key string) string
	// Mesh reads from the cluster how meshes route a request that a route server has explained.
	// Without it explain knows no meshes.
	Mesh func(ctx context.Context, access *rest.Config, asked *routingv1.ExplainRequest, got *routingv1.ExplainResponse) (routing.Mesh, error)
	// Caveats reads in the cluster the caveats of a sandbox, a line each. Without it
	// explain does not show them.
	Caveats func(ctx context.Context, access *rest.Config, sandbox string) ([]string, error)
	// Further returns commands that need more than a route server. Without it there are none.
	Further func(*command.Session) []*cobra.Command
}

// Main runs the program with its arguments, without its name, and returns its exit
// code. It ends early when ctx does.
func Main(ctx context.Context, cfg Config, args []string) exit.Code {
	s := command.New(cfg.Config)
	defer s.Close()
	began := false
	root := root(s, cfg)
	marked(root, &began)
	root.SetArgs(args)
	err := reach.Explained(root.ExecuteContext(ctx))
	if !began && exit.Of(err) == exit.Failed {
		err = misused(root, args, err, cfg.Name)
	}
	if err != nil && ctx.Err() != nil {
		return interrupt.Code(ctx)
	}
	if err != nil {
		if text := exit.Text(err, cfg.Name); text != "" {
			_, _ = io.WriteString(cfg.Err, cfg.Name+": "+show.Plain(text)+"\n")
		}
	}
	return exit.Of(err)
}

// misused explains an error of the command line and names the help that lists the right form. A
// command that takes flags only has no commands of its own, which cobra would call its arguments.
func misused(root *cobra.Command, args []string, err error, name string) error {
	c, _, lost := root.Find(args)
	_, of, unknown := strings.Cut(err.Error(), "unknown command ")
	if lost != nil || !unknown || c.HasSubCommands() {
		return exit.Usage.Errorf("%w\n%s --help lists what there is", err, name)
	}
	return exit.Usage.Errorf("%s takes flags only, so it does not take %s\n%[1]s --help lists the flags", c.CommandPath(), of[:max(0, strings.LastIndex(of, " for "))])
}

const about = `switchyard asks a route server what is routed where, what was routed where at
any moment that the log still holds, and why.

It finds a route server by --server host:port or SWITCHYARD_SERVER; without
either through the cluster of your kubeconfig, by forwarding a port to a route
server there (this takes the rights to list pods and to create pods/portforward
in the operator's namespace). With --archive it asks a log in a file instead.

The commands sandbox, routegroup, resourceplugin, resource and logs work with a kubeconfig alone;
connect, proxy, run and doctor are for a workload on this workstation.

Versions of the table are written as
  epoch/sequence or sequence   the table when that event had been recorded
  2026-11-21T14:03:00+01:00    the table at that moment
  14:03 or 14:03:20            the table at the most recent 14:03
  15m, 2h30m, 3d               the table so long ago
  now                          the newest table

`

func root(s *command.Session, cfg Config) *cobra.Command {
	root := &cobra.Command{
		Use:               "switchyard",
		Short:             "What is routed where, what was, and why",
		Long:              about + exit.Codes,
		SilenceErrors:     true,
		SilenceUsage:      true,
		Args:              cobra.NoArgs,
		RunE:              func(c *cobra.Command, _ []string) error { return c.Help() },
		PersistentPreRunE: func(*cobra.Command, []string) error { return s.Begin() },
		Annotations:       map[string]string{cobra.CommandDisplayNameAnnotation: s.Name},
	}
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	s.Flags(root.PersistentFlags())
	root.AddCommand(routing.Table(s), routing.Explain(s, caveats(s, cfg)), routing.Diff(s), routing.History(s), routing.Watch(s),
		sidecars.Wait(s, cfg.Coverage), sidecars.List(s), history.Log(s), history.Replay(s), history.Bisect(s), history.Audit(s, cfg.Witness), version(s))
	if cfg.Plan != nil {
		root.AddCommand(routing.DryRun(s, cfg.Plan))
	}
	if cfg.Coverage != nil {
		root.AddCommand(sidecars.Covered(s, cfg.Coverage))
	}
	if cfg.Further != nil {
		root.AddCommand(cfg.Further(s)...)
	}
	return root
}

// caveats are what explain tells people beside the route server's answer.
func caveats(s *command.Session, cfg Config) routing.Caveats {
	c := routing.Caveats{Unfit: cfg.Unfit}
	if cfg.Coverage != nil {
		c.Unconnected = func(ctx context.Context, w *routingv1.Workload) string {
			return sidecars.Unconnected(ctx, s, cfg.Coverage, w)
		}
		c.Outdated = func(ctx context.Context, pod string) string { return sidecars.Outdated(ctx, s, cfg.Coverage, pod) }
	}
	if cfg.Mesh != nil {
		c.Mesh = func(ctx context.Context, asked *routingv1.ExplainRequest, got *routingv1.ExplainResponse) routing.Mesh {
			return byMesh(ctx, s, cfg, asked, got)
		}
	}
	if cfg.Caveats != nil {
		c.Sandbox = func(ctx context.Context, sandbox string) string { return ofSandbox(ctx, s, cfg, sandbox) }
	}
	return c
}

// ofSandbox returns a line for each caveat of a sandbox. Without a kubeconfig there is none.
func ofSandbox(ctx context.Context, s *command.Session, cfg Config, sandbox string) (out string) {
	access, err := s.Cluster.Rest()
	if err != nil || s.Archive != "" {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, caveatsWithin)
	defer cancel()
	caveats, err := cfg.Caveats(ctx, access, sandbox)
	if err != nil {
		return show.Line(fmt.Sprintf("The caveats of sandbox %s are not known: %v", sandbox, err)) + "\n"
	}
	for _, c := range caveats {
		out += show.Line(fmt.Sprintf("Caveat of sandbox %s: %s", sandbox, c)) + "\n"
	}
	return out
}

// caveatsWithin is how long explain waits for the caveats of a sandbox.
const caveatsWithin = 3 * time.Second

// byMesh returns the effect of meshes on a request that no sidecar routes.
func byMesh(ctx context.Context, s *command.Session, cfg Config, asked *routingv1.ExplainRequest, got *routingv1.ExplainResponse) routing.Mesh {
	if s.Archive != "" {
		return routing.Mesh{} // An archive has nothing of it.
	}
	ctx, cancel := s.Patiently(ctx)
	defer cancel()
	access, err := s.Cluster.Rest()
	var mesh routing.Mesh
	if err == nil {
		mesh, err = cfg.Mesh(ctx, access, asked, got)
	}
	if err != nil {
		return routing.Mesh{Lines: "Whether a mesh routes it is not known: " + show.Plain(err.Error()) + "\n"}
	}
	return mesh
}

// marked lets every command note that it began: errors before that are in the usage.
func marked(c *cobra.Command, began *bool) {
	for _, below := range c.Commands() {
		marked(below, began)
	}
	run := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		*began = true
		return run(c, args)
	}
}

// build is what a program was built from.
type build struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
	Go      string `json:"go"`
}

func version(s *command.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Say which version of the client this is",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := builtFrom(debug.ReadBuildInfo())
			return s.Show.Report(v, fmt.Sprintf("switchyard %s, commit %s, %s\n", v.Version, v.Commit, v.Go))
		},
	}
}

func builtFrom(info *debug.BuildInfo, ok bool) build {
	out := build{Version: "(devel)", Commit: "unknown", Go: "unknown"}
	if !ok {
		return out
	}
	out.Go = info.GoVersion
	if info.Main.Version != "" {
		out.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			out.Commit = s.Value
		}
	}
	return out
}
