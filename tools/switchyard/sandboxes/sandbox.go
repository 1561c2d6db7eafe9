package sandboxes

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/switchyard/show"
	"switchyard.dev/workflows/compile"
	"switchyard.dev/workflows/nulls"
	"switchyard.dev/workflows/spec"
	"switchyard.dev/workflows/specfile"
)

// How long commands wait by default, as the published client does.
const (
	waitReady = 3 * time.Minute
	waitGone  = 5 * time.Minute
)

// Commands returns the commands of this package. further are commands of sandbox beside its own.
func Commands(s *command.Session, further ...*cobra.Command) []*cobra.Command {
	sandbox := &cobra.Command{
		Use: "sandbox", Short: "Set up sandboxes from their published specification", Args: cobra.NoArgs,
		Long: `Set up sandboxes from their published specification, with a kubeconfig alone: no control
plane is needed. The specification is compiled here to a SignadotSandbox, which is written
with your own rights; whoever may write one may also use kubectl.`,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	sandbox.AddCommand(applySandbox(s), renderSandbox(s), sandboxes.deleted(s), sandboxes.shownByName(s), sandboxes.all(s, "List the sandboxes of the cluster"))
	sandbox.AddCommand(further...)
	plugin := &cobra.Command{
		Use: "resourceplugin", Short: "Keep the resource plugins that sandboxes name", Args: cobra.NoArgs, Aliases: []string{"rp"},
		Long: `Keep the resource plugins that sandboxes name, with a kubeconfig alone. Each version is a
ConfigMap in the namespace of the operator. A version never changes: apply another one, with
its version after @ in the name. Without @ a plugin has version 0.0.0. A sandbox that names
no version gets the highest, and keeps it.`,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	plugin.AddCommand(applyPlugin(s), deletePlugin(s), getPlugin(s), listPlugins(s))
	group := &cobra.Command{
		Use: "routegroup", Short: "Set up route groups from their published specification", Args: cobra.NoArgs, Aliases: []string{"rg"},
		Long: `Set up route groups from their published specification, with a kubeconfig alone: a route
group unites sandboxes under one routing key. spec.match is evaluated when the file is
applied: sandboxes that match later are not added until it is applied again.`,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	group.AddCommand(applyGroup(s), groups.deleted(s), groups.shownByName(s), groups.all(s, "List the route groups of the cluster"))
	return []*cobra.Command{sandbox, group, plugin}
}

// sandboxes is the kind of sandboxes.
var sandboxes = kind{
	what: specfile.Sandbox, plural: "sandboxes", command: "sandbox", of: crdv1.KindSandbox,
	report: func(o crdv1.Object) shown { return reportOf(o.(*crdv1.SignadotSandbox)) }, listed: listed,
}

func applySandbox(s *command.Session) *cobra.Command {
	c := &cobra.Command{Example: "  switchyard sandbox apply -f sandbox.yaml --set tag=pr-12"}
	return sandboxes.apply(s, c, func(in *input) (func(context.Context, client.Client) (crdv1.Object, error), error) {
		var asked spec.Sandbox
		f, err := in.read(s, &asked)
		return func(ctx context.Context, cluster client.Client) (crdv1.Object, error) {
			return write(ctx, s, cluster, f, asked)
		}, err
	})
}

// write compiles a sandbox and creates it, or replaces the one that is there.
func write(ctx context.Context, s *command.Session, cluster client.Client, f *specfile.File, asked spec.Sandbox) (crdv1.Object, error) {
	there := &crdv1.SignadotSandbox{}
	unread := cluster.Get(ctx, client.ObjectKey{Name: asked.Name}, there)
	plugins, err := pluginsFor(ctx, s, cluster, asked, nil)
	if err != nil {
		return nil, err
	}
	object, err := compiled(s, f, compile.Input{Sandbox: asked, Plugins: plugins, RoutingKey: there.Spec.ID, Pinned: pinned(there)})
	if err != nil {
		return nil, err
	}
	if client.IgnoreNotFound(unread) != nil { // The compiler reports a name that no object can have.
		return nil, sandboxes.refused("read", asked.Name, unread)
	}
	return sandboxes.put(ctx, s, cluster, f, object, there, func() { there.Spec = object.Spec })
}

// pinned returns the versions of plugins that a sandbox has.
func pinned(o *crdv1.SignadotSandbox) map[string]string {
	out := map[string]string{}
	for _, r := range o.Spec.ManagedResources {
		if name, err := spec.ParsePluginName(r.PluginName); err == nil {
			out[r.Name] = name.Bare + "@" + name.Defaulted().Version
		}
	}
	return out
}

// compiled compiles a sandbox, and says what of its specification has no effect.
func compiled(s *command.Session, f *specfile.File, in compile.Input) (*crdv1.SignadotSandbox, error) {
	out, err := compile.Sandbox(in)
	var problems specfile.Problems
	if errors.As(err, &problems) {
		return nil, exit.Usage.Errorf("%w", f.Locate(problems))
	}
	for _, note := range f.Locate(out.Notes) {
		_, _ = fmt.Fprintln(s.Err, show.Plain("note: "+note.Error()))
	}
	return out.Sandbox, err
}

// pluginsFor returns the plugins that a sandbox may name: those of files, and those of the
// cluster. Without resources it needs none.
func pluginsFor(ctx context.Context, s *command.Session, cluster client.Client, asked spec.Sandbox, files []string) ([]spec.Plugin, error) {
	var out []spec.Plugin
	for _, path := range files {
		p, _, err := Plugin(s, path, Values{})
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	if len(asked.Spec.Resources) == 0 || cluster == nil {
		return out, nil
	}
	kept, err := store(s, cluster).List(ctx)
	if err != nil {
		return nil, err
	}
	for _, k := range kept {
		out = append([]spec.Plugin{k.Plugin}, out...) // Those of files count.
	}
	return out, nil
}

func renderSandbox(s *command.Session) *cobra.Command {
	var in input
	var files []string
	c := &cobra.Command{
		Use: "render -f FILE", Short: "Print the SignadotSandbox that a specification comes to", Args: cobra.NoArgs,
		Long: `Print the SignadotSandbox that a specification comes to, in YAML, or in JSON with -o json.
Nothing is written. No cluster is needed, unless the sandbox names resource plugins that no
--plugin gives: those are read from it. What the cluster adds is left out: a routing key that
the sandbox has already, and when it was last changed.`,
	}
	in.flags(c.Flags(), "sandbox")
	c.Flags().StringArrayVar(&files, "plugin", nil, "the `file` of a resource plugin, in place of those of the cluster; may be given again")
	c.RunE = func(c *cobra.Command, _ []string) error {
		var asked spec.Sandbox
		if in.path == "" {
			return exit.Usage.Errorf("give -f FILE")
		}
		f, err := in.read(s, &asked)
		if err != nil {
			return err
		}
		ctx, cancel := s.Patiently(c.Context())
		defer cancel()
		var cluster client.Client
		if len(asked.Spec.Resources) > 0 && len(files) == 0 {
			if cluster, err = s.Writer(); err != nil {
				return fmt.Errorf("%w; or give the sandbox's resource plugins with --plugin", err)
			}
		}
		plugins, err := pluginsFor(ctx, s, cluster, asked, files)
		if err != nil {
			return err
		}
		object, err := compiled(s, f, compile.Input{Sandbox: asked, Plugins: plugins})
		if err != nil {
			return err
		}
		object, left, err := nulls.Without(object)
		if err != nil {
			return err
		}
		if len(left) > 0 {
			_, _ = fmt.Fprintln(s.Err, show.Plain("note: a patch of the specification has null in "+strings.Join(left, ", ")+", which kubectl apply removes: use {$patch: delete} instead, or kubectl apply --server-side"))
		}
		text, err := yaml.Marshal(object)
		if err != nil {
			return fmt.Errorf("write SignadotSandbox %s: %w", object.Name, err)
		}
		return s.Show.Report(object, string(text))
	}
	return c
}
