// Package cli parses the command line of the program and runs the command.
package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"switchyard.dev/tools/cluster/internal/cluster"
	"switchyard.dev/tools/cluster/internal/host"
	"switchyard.dev/tools/cluster/internal/layout"
	"switchyard.dev/tools/cluster/internal/progress"
	"switchyard.dev/tools/cluster/internal/recipe"
)

// ErrUsage marks a command line that cannot be understood.
var ErrUsage = errors.New("see `cluster help`")

// Command is a command line that was understood.
type Command struct {
	// Name is the command and Args its arguments.
	Name string
	Args []string
	// Only is the group that `build` is limited to, or "".
	Only string
	// Config is what the flags chose.
	Config layout.Config
}

// Usage is the text of `cluster help`.
const Usage = `cluster runs a real one-node Kubernetes in a network namespace of its own.

  cluster up                   start the node, or repair the one that runs
  cluster status               show each part; exit code 0 only if the node is ready
  cluster exec -- COMMAND...   run a command in its network, with KUBECONFIG, kubectl and helm
  cluster load IMAGE.tar...    load images into it
  cluster kubeconfig           print the path of the administrator's kubeconfig
  cluster down                 remove it, with everything that belongs to it
  cluster build [-only GROUP]  only compile its programs, and print their directory;
                               the group "apiserver" is what controller tests need

Flags, before the command (environment variable, default):
  -name NAME     name of node and network namespace (SWITCHYARD_NODE, switchyard)
  -state DIR     keys, data and logs of the node    (SWITCHYARD_STATE, /var/lib/switchyard)
  -cache DIR     compiled programs                  (SWITCHYARD_CACHE, ~/.cache/switchyard)
  -node-ip, -pods, -services CIDR                   (10.77.0.1/24, 10.244.0.0/24, 10.96.0.0/16)
  -volumes N     number of local volumes            (16)
`

var commands = []string{"up", "down", "status", "exec", "load", "build", "kubeconfig", "help"}

// Parse parses a command line. Flags can be before or after the command, except for `exec`: its
// arguments all belong to the command that it runs.
func Parse(args []string) (Command, error) {
	var c Command
	rest, err := c.flags(args)
	if err != nil {
		return c, err
	}
	if len(rest) == 0 {
		return c, fmt.Errorf("no command given: %w", ErrUsage)
	}
	c.Name, c.Args = rest[0], rest[1:]
	if !slices.Contains(commands, c.Name) {
		return c, fmt.Errorf("no command %q: %w", c.Name, ErrUsage)
	}
	if c.Name == "exec" {
		if len(c.Args) > 0 && c.Args[0] == "--" {
			c.Args = c.Args[1:]
		}
		return c, nil
	}
	if c.Args, err = c.flags(c.Args); err != nil {
		return c, err
	}
	if len(c.Args) > 0 && c.Name != "load" {
		return c, fmt.Errorf("`cluster %s` takes no argument %q: %w", c.Name, c.Args[0], ErrUsage)
	}
	if c.Only != "" && c.Name != "build" {
		return c, fmt.Errorf("-only belongs to `cluster build`: %w", ErrUsage)
	}
	return c, nil
}

func (c *Command) flags(args []string) ([]string, error) {
	f := flag.NewFlagSet("cluster", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.StringVar(&c.Config.Name, "name", c.Config.Name, "")
	f.StringVar(&c.Config.State, "state", c.Config.State, "")
	f.StringVar(&c.Config.Cache, "cache", c.Config.Cache, "")
	f.StringVar(&c.Config.NodeIP, "node-ip", c.Config.NodeIP, "")
	f.StringVar(&c.Config.PodCIDR, "pods", c.Config.PodCIDR, "")
	f.StringVar(&c.Config.ServiceCIDR, "services", c.Config.ServiceCIDR, "")
	f.IntVar(&c.Config.Volumes, "volumes", c.Config.Volumes, "")
	f.StringVar(&c.Only, "only", c.Only, "")
	err := f.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return []string{"help"}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, ErrUsage)
	}
	return f.Args(), nil
}

// Run runs the command.
func Run(ctx context.Context, c Command, cl cluster.Cluster) error {
	switch c.Name {
	case "up":
		return cl.Up(ctx)
	case "down":
		return cl.Down(ctx)
	case "status":
		return cl.Status(ctx)
	case "exec":
		return cl.Exec(c.Args)
	case "load":
		return cl.Load(ctx, c.Args)
	case "build":
		return build(ctx, c.Only, cl)
	case "kubeconfig":
		fmt.Fprintln(cl.Out, cl.Node.Kubeconfig())
	case "help":
		fmt.Fprint(cl.Out, Usage)
	}
	return nil
}

// build compiles and prints the directory. Only the packages that compiling
// needs are installed, and root is only needed where some are missing.
func build(ctx context.Context, only string, cl cluster.Cluster) error {
	b, err := recipe.Open(cl.Source, cl.Node.Cache)
	if err != nil {
		return err
	}
	groups, err := recipe.Choose(b.Groups, only)
	if err != nil {
		return err
	}
	missing := b.Missing(groups)
	if len(missing) > 0 {
		facts := host.Look(ctx, true, cl.Node.Cache)
		if faults := host.JudgeBuild(facts); len(faults) > 0 {
			return errors.New(strings.Join(faults, "\n"))
		}
		if err := host.Install(ctx, facts.AbsentToBuild); err != nil {
			return err
		}
	}
	s := progress.New(os.Stderr, 1, time.Now) // the answer alone goes to standard output
	if err := s.Do("building programs", func() error { return b.Build(ctx, groups, s.Note) }); err != nil {
		return err
	}
	fmt.Fprintln(cl.Out, filepath.Join(filepath.Dir(b.Dir), "current"))
	return nil
}
