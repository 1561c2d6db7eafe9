package sandboxes

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/switchyard/sandboxes/site"
	"switchyard.dev/tools/switchyard/show"
	"switchyard.dev/workflows/compile"
	"switchyard.dev/workflows/nulls"
	"switchyard.dev/workflows/plugins"
	"switchyard.dev/workflows/sandboxes"
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
	sandbox := command.Group(&cobra.Command{
		Use: "sandbox", Short: "Set up sandboxes from their published specification",
		Long: `Set up sandboxes from their published specification. Only a kubeconfig is needed, no control
plane. The specification is compiled here to a SignadotSandbox, which is written
with your own rights, as kubectl would write it. With --control-plane it is written to the
control plane, which keeps it in its cluster (spec.cluster).`,
	}, applySandbox(s), renderSandbox(s), sandboxKind.deleted(s), sandboxKind.shownByName(s), sandboxKind.all(s))
	plugin := command.Group(&cobra.Command{
		Use: "resourceplugin", Short: "Manage the resource plugins of sandboxes", Aliases: []string{"rp"},
		Long: `Manage the resource plugins of sandboxes; only a kubeconfig is needed. Each version is a
ConfigMap in the operator's namespace, or with --control-plane in the control plane. Versions are immutable: apply a new one, with its
version after @ in the name. Without @ a plugin has version 0.0.0. A sandbox that names no
version gets the highest, and keeps it.`,
	}, applyPlugin(s), deletePlugin(s), getPlugin(s), listPlugins(s), pluginVersions(s))
	group := command.Group(&cobra.Command{
		Use: "routegroup", Short: "Set up route groups from their published specification", Aliases: []string{"rg"},
		Long: `Set up route groups from their published specification; only a kubeconfig is needed. A route
group combines sandboxes under one routing key. spec.match is evaluated when the file is
applied: sandboxes that match later are not added until it is applied again. A control plane
(--control-plane) adds them at once.`,
	}, applyGroup(s), groupKind.deleted(s), groupKind.shownByName(s), groupKind.all(s))
	for _, c := range []*cobra.Command{sandbox, plugin, group} {
		command.KnowPlane(c.Commands()...)
	}
	sandbox.AddCommand(further...) // They need a cluster.
	return []*cobra.Command{sandbox, group, plugin}
}

// sandboxKind is the kind of sandboxes.
var sandboxKind = kind{Kind: sandboxes.Sandboxes, command: "sandbox", text: sandboxText, listed: listed}

func applySandbox(s *command.Session) *cobra.Command {
	c := &cobra.Command{Example: "  switchyard sandbox apply -f sandbox.yaml --set tag=pr-12"}
	return apply(s, sandboxKind, c, write)
}

// write applies a sandbox, and prints which parts of its specification have no effect.
func write(ctx context.Context, s *command.Session, at site.Site, f *specfile.File, asked spec.Sandbox) (sandboxes.Object, error) {
	text, err := f.JSON("spec")
	if err != nil {
		return sandboxes.Object{}, err
	}
	out, err := at.ApplySandbox(ctx, asked, text)
	noteAll(s, f, out.Notes)
	unstored(s, out)
	return out.Object, sandboxKind.refused(s, f, asked.Name, err)
}

// noteAll prints parts of a specification that have no effect.
func noteAll(s *command.Session, f *specfile.File, notes specfile.Problems) {
	for _, note := range f.Locate(notes) {
		_, _ = fmt.Fprintln(s.Err, show.Plain("note: "+note.Error()))
	}
}

// unstored notes that a specification is too large to be stored.
func unstored(s *command.Session, out sandboxes.Applied) {
	if out.TooLarge > 0 {
		_, _ = fmt.Fprintln(s.Err, show.Plain(fmt.Sprintf("note: the specification of %s has %d bytes and is not stored in the object, so \"get\" cannot print it; the limit is %d", out.Object.Name, out.TooLarge, sandboxes.MaxKept)))
	}
}

// pluginsOf reads the files of resource plugins.
func pluginsOf(s *command.Session, files []string) (out []spec.Plugin, err error) {
	for _, path := range files {
		p, _, err := Plugin(s, path, Values{})
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

func renderSandbox(s *command.Session) *cobra.Command {
	var in input
	var files []string
	c := &cobra.Command{
		Use: "render -f FILE", Short: "Print the SignadotSandbox of a specification", Args: cobra.NoArgs,
		Long: `Print the SignadotSandbox of a specification, in YAML, or in JSON with -o json.
Nothing is written. No cluster is needed, unless the sandbox names resource plugins without a
--plugin: those are read from it. The values that the cluster adds are omitted: an existing
routing key, and the time of the last change.`,
	}
	in.flags(c.Flags(), "sandbox")
	c.Flags().StringArrayVar(&files, "plugin", nil, "the `file` of a resource plugin, instead of those of the cluster; repeatable")
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
		var at plugins.Source
		if len(asked.Spec.Resources) > 0 && len(files) == 0 {
			if at, err = open(ctx, s); err != nil {
				return fmt.Errorf("%w; or give the sandbox's resource plugins with --plugin", err)
			}
		}
		given, err := pluginsOf(s, files)
		if err == nil {
			given, err = sandboxes.PluginsFor(ctx, at, asked, given)
		}
		if err != nil {
			return err
		}
		out, err := compile.Sandbox(compile.Input{Sandbox: asked, Plugins: given})
		if err != nil {
			return sandboxKind.refused(s, f, asked.Name, err)
		}
		noteAll(s, f, out.Notes)
		object, left, err := nulls.Without(out.Sandbox)
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

// groupKind is the kind of route groups.
var groupKind = kind{Kind: sandboxes.Groups, command: "routegroup", text: groupText, listed: listedGroups}

func applyGroup(s *command.Session) *cobra.Command {
	c := &cobra.Command{
		Example: "  switchyard routegroup apply -f group.yaml",
		Long: `Create or change a route group. spec.match is evaluated now, and the sandboxes that it
matches become the members of the group: sandboxes that match later are not added until the
file is applied again. A sandbox has the labels of spec.labels in its file, or else those of
its object. A control plane evaluates it again at each change of labels, and knows those of
files only.`,
	}
	return apply(s, groupKind, c, writeGroup)
}

// writeGroup applies a route group, and prints its sandboxes.
func writeGroup(ctx context.Context, s *command.Session, at site.Site, f *specfile.File, asked spec.Group) (sandboxes.Object, error) {
	text, err := f.JSON("spec")
	if err != nil {
		return sandboxes.Object{}, err
	}
	out, err := at.ApplyGroup(ctx, asked, text)
	unstored(s, out)
	if err != nil {
		return out.Object, groupKind.refused(s, f, asked.Name, err)
	}
	noteAll(s, f, out.Notes)
	_, _ = fmt.Fprintln(s.Err, show.Plain(fmt.Sprintf("route group %s has the sandboxes that match now: %s", asked.Name, cmp.Or(strings.Join(out.Matched, ", "), "none"))))
	if len(out.Left) > 0 {
		_, _ = fmt.Fprintln(s.Err, show.Plain("no longer in it: "+strings.Join(out.Left, ", ")))
	}
	if !at.MatchesLater() {
		_, _ = fmt.Fprintln(s.Err, "note: sandboxes that match later are not added; apply the file again to add them")
	}
	return out.Object, nil
}

// groupText returns a route group as text.
func groupText(s *command.Session, of sandboxes.Report) string {
	r := of.(sandboxes.Group)
	rows := show.Grid{{"Name:", r.Name}, {"Routing key:", r.RoutingKey}}
	for _, row := range []struct{ title, value string }{
		{"Description:", r.Description}, {"Created:", s.Moment(r.CreatedAt)}, {"Changed:", s.Moment(r.UpdatedAt)}, {"Author:", r.Author},
		{"Sandboxes:", strings.Join(r.Status.MatchedSandboxes, ", ")},
	} {
		if row.value != "" {
			rows = append(rows, []string{row.title, row.value})
		}
	}
	for _, e := range r.Endpoints {
		rows = append(rows, []string{"Endpoint:", e.String()})
	}
	return rows.String() + statusLine(r.Status.Status, len("Routing key:  "))
}

// listedGroups returns reports as a table.
func listedGroups(s *command.Session, reports []sandboxes.Report) string {
	rows := show.Grid{{"NAME", "KEY", "READY", "REASON", "SANDBOXES", "AUTHOR", "CREATED"}}
	for _, one := range reports {
		r := one.(sandboxes.Group)
		ready := map[bool]string{true: "yes", false: "no"}[r.Status.Ready]
		members := fmt.Sprintf("%d of %d ready", r.Status.ReadySandboxes, len(r.Status.MatchedSandboxes))
		rows = append(rows, []string{r.Name, r.RoutingKey, ready, r.Status.Reason, members, r.Author, s.Moment(r.CreatedAt)})
	}
	return rows.String()
}
