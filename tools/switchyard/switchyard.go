package switchyard

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"switchyard.dev/tools/switchyard/clusters"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/switchyard/command/interrupt"
	"switchyard.dev/tools/switchyard/command/reach"
	"switchyard.dev/tools/switchyard/history"
	"switchyard.dev/tools/switchyard/jobs"
	"switchyard.dev/tools/switchyard/local"
	"switchyard.dev/tools/switchyard/local/localenv"
	"switchyard.dev/tools/switchyard/routing"
	"switchyard.dev/tools/switchyard/routing/sidecars"
	"switchyard.dev/tools/switchyard/sandboxes"
	"switchyard.dev/tools/switchyard/sandboxes/steps"
	"switchyard.dev/tools/switchyard/show"
	"switchyard.dev/tools/switchyard/smarttests"
	"switchyard.dev/tools/switchyard/traffic"
)

// Main runs the program with its arguments, without its name, and returns its exit
// code. It ends early when ctx does.
func Main(ctx context.Context, cfg command.Config, args []string) exit.Code {
	s := command.New(cfg)
	defer s.Close()
	began := false
	root := root(s)
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

// misused explains an error of the command line and names the help with the correct form. A command
// that takes only flags has no subcommands, which is what cobra would call its arguments.
func misused(root *cobra.Command, args []string, err error, name string) error {
	c, _, lost := root.Find(args)
	_, of, unknown := strings.Cut(err.Error(), "unknown command ")
	if lost != nil || !unknown || c.HasSubCommands() {
		return exit.Usage.Errorf("%w\n%s --help lists what there is", err, name)
	}
	return exit.Usage.Errorf("%s takes flags only, so it does not take %s\n%[1]s --help lists the flags", c.CommandPath(), of[:max(0, strings.LastIndex(of, " for "))])
}

const about = `switchyard shows the routes of sandboxes, now and at any time in the retained log,
with their causes.

It connects to the route server in --server host:port or SWITCHYARD_SERVER;
without either, through a port-forward to a route server in the cluster of your
kubeconfig (which needs the rights to list pods and to create pods/portforward in
the operator's namespace). With --archive it reads a log from a file instead.

The commands sandbox, routegroup, resourceplugin, job, artifact, jobrunnergroup, resource, logs
and traffic need only a kubeconfig; the first six, and cluster, use a control plane with
--control-plane and its API key, and test needs one;
connect, proxy, run and doctor connect a workload on this machine.

Versions of the table are written as
  epoch/sequence or sequence   the table after that event
  2026-11-21T14:03:00+01:00    the table at that time
  14:03 or 14:03:20            the table at the most recent 14:03
  15m, 2h30m, 3d               the table that long ago
  now                          the newest table

`

func root(s *command.Session) *cobra.Command {
	root := &cobra.Command{
		Use:               "switchyard",
		Short:             "Show routes, now and in the past, with their causes",
		Long:              about + exit.Codes,
		SilenceErrors:     true,
		SilenceUsage:      true,
		Args:              cobra.NoArgs,
		RunE:              func(c *cobra.Command, _ []string) error { return c.Help() },
		PersistentPreRunE: func(c *cobra.Command, _ []string) error { return cmp.Or(s.Begin(), s.Reject(c)) },
		Annotations:       map[string]string{cobra.CommandDisplayNameAnnotation: s.Name},
	}
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	s.Flags(root.PersistentFlags())
	root.AddCommand(routing.Table(s), routing.Explain(s), routing.Diff(s), routing.History(s), routing.Watch(s), routing.DryRun(s),
		sidecars.Wait(s), sidecars.List(s), sidecars.Covered(s), history.Log(s), history.Replay(s), history.Bisect(s), history.Audit(s), version(s))
	root.AddCommand(sandboxes.Commands(s, localenv.Commands(s)...)...)
	root.AddCommand(clusters.Command(s), clusters.DevMesh(s))
	root.AddCommand(jobs.Commands(s)...)
	root.AddCommand(traffic.Command(s), smarttests.Command(s))
	root.AddCommand(steps.Commands(s)...)
	root.AddCommand(local.Commands(s)...)
	return root
}

// marked makes every command record that it began: earlier errors are about usage.
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
		Short: "Show the version of the client",
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
