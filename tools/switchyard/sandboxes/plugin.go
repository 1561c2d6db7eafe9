package sandboxes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/switchyard/sandboxes/site"
	"switchyard.dev/tools/switchyard/show"
	"switchyard.dev/workflows/compile"
	"switchyard.dev/workflows/plugins"
	"switchyard.dev/workflows/spec"
	"switchyard.dev/workflows/specfile"
)

func applyPlugin(s *command.Session) *cobra.Command {
	var in input
	c := &cobra.Command{
		Use: "apply -f FILE", Short: "Store a version of a resource plugin", Args: cobra.NoArgs,
		Example: "  switchyard resourceplugin apply -f mariadb.yaml",
	}
	in.flags(c.Flags(), "resource plugin")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if in.path == "" {
			return exit.Usage.Errorf("give -f FILE")
		}
		p, f, err := in.plugin(s)
		if err != nil {
			return err
		}
		for _, w := range f.Locate(compile.Warnings(p)) {
			_, _ = io.WriteString(s.Err, show.Line("warning: "+w.Error())+"\n")
		}
		return within(s, func(ctx context.Context, at site.Site, _ []string) error {
			isNew, err := at.Put(ctx, p)
			word := "is stored"
			switch {
			case errors.Is(err, plugins.ErrChanged):
				return exit.No.Errorf("resource plugin %s exists with other content, and a version never changes: give it another version in its name, such as %s", p.Name, nextOf(p.Name))
			case err != nil:
				return err
			case !isNew:
				word = "exists already, unchanged"
			}
			name, err := named(p.Name)
			if err != nil {
				return err
			}
			_, err = io.WriteString(s.Out, show.Plain(fmt.Sprintf("resource plugin %s %s (version %s)\n", name.Bare, word, name.Defaulted().Version)))
			return err
		})(c, nil)
	}
	return c
}

// plugin reads a resource plugin and checks it.
func (in *input) plugin(s *command.Session) (p spec.Plugin, f *specfile.File, err error) {
	if f, err = in.read(s, &p); err != nil {
		return p, nil, err
	}
	if problems := f.Locate(compile.Plugin(p)); len(problems) > 0 {
		return p, nil, exit.Usage.Errorf("%w", problems)
	}
	return p, f, nil
}

// Plugin reads the file of a resource plugin and checks it.
func Plugin(s *command.Session, file string, values Values) (spec.Plugin, *specfile.File, error) {
	return (&input{path: file, what: specfile.ResourcePlugin, Values: values}).plugin(s)
}

// nextOf returns a name with a version that is higher than that of a name that is right.
func nextOf(text string) string {
	name, err := spec.ParsePluginName(text)
	if err != nil {
		return text
	}
	return name.Next().String()
}

// named reads the name of a plugin.
func named(text string) (spec.PluginName, error) {
	name, err := spec.ParsePluginName(text)
	if err != nil {
		return name, exit.Usage.Errorf("the name %w", err)
	}
	return name, nil
}

func deletePlugin(s *command.Session) *cobra.Command {
	var in input
	c := &cobra.Command{
		Use: "delete (NAME[@VERSION] | -f FILE)", Short: "Delete a version of a resource plugin that no sandbox uses", Args: cobra.MaximumNArgs(1),
		Long: "Delete a version of a resource plugin that no sandbox uses. NAME without a version is the highest; a file without one is version 0.0.0, as for apply.",
	}
	in.flags(c.Flags(), "resource plugin")
	c.RunE = func(c *cobra.Command, args []string) error {
		text, err := in.name(s, args)
		if err != nil {
			return err
		}
		name, err := named(text)
		if err != nil {
			return err
		}
		if in.path != "" {
			name = name.Defaulted()
		}
		return within(s, func(ctx context.Context, at site.Site, _ []string) error {
			gone, err := at.Delete(ctx, name)
			switch {
			case errors.Is(err, plugins.ErrNone):
				return exit.No.Errorf("there is no resource plugin %s", text)
			case errors.Is(err, plugins.ErrInUse):
				return exit.No.Errorf("resource plugin %s is not deleted: %w", gone, err)
			case err != nil:
				return err
			}
			_, err = io.WriteString(s.Out, show.Plain(fmt.Sprintf("resource plugin %s (version %s) is deleted\n", gone.Bare, gone.Version)))
			return err
		})(c, nil)
	}
	return c
}

// pluginReport is a plugin as scripts are shown it, with the names that the published API has.
type pluginReport struct {
	Name      string          `json:"name"`
	CreatedAt string          `json:"createdAt"`
	Spec      spec.PluginSpec `json:"spec"`
	Status    struct {
		Resources []plugins.User `json:"resources"`
	} `json:"status"`
}

// reports returns plugins with the resources that use them.
func reports(kept []plugins.Kept, users map[spec.PluginName][]plugins.User) []pluginReport {
	out := []pluginReport{}
	for _, k := range kept {
		r := pluginReport{Name: k.Name.String(), CreatedAt: k.Created.UTC().Format(time.RFC3339), Spec: k.Plugin.Spec}
		r.Status.Resources = append([]plugins.User{}, users[k.Name]...)
		out = append(out, r)
	}
	return out
}

func getPlugin(s *command.Session) *cobra.Command {
	return &cobra.Command{
		Use: "get NAME[@VERSION]", Short: "Show a resource plugin", Args: cobra.ExactArgs(1),
		Long: "Show a resource plugin: the named version, or the highest.",
		RunE: within(s, func(ctx context.Context, at site.Site, args []string) error {
			name, err := named(args[0])
			if err != nil {
				return err
			}
			kept, err := plugins.Get(ctx, at, name)
			if errors.Is(err, plugins.ErrNone) {
				return exit.No.Errorf("there is no resource plugin %s", args[0])
			}
			if err != nil {
				return err
			}
			users, err := at.Users(ctx)
			if err != nil {
				return err
			}
			r := reports([]plugins.Kept{kept}, users)[0]
			text, err := yaml.Marshal(r)
			if err != nil {
				return fmt.Errorf("write resource plugin %s: %w", r.Name, err)
			}
			return s.Show.Report(r, show.Plain(string(text)))
		}),
	}
}

func listPlugins(s *command.Session) *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use: "list", Short: "List the resource plugins, each in its highest version", Args: cobra.NoArgs,
	}
	c.Flags().BoolVarP(&all, "all-versions", "A", false, "list every version")
	c.RunE = within(s, func(ctx context.Context, at site.Site, _ []string) error {
		kept, err := at.List(ctx)
		if err != nil {
			return err
		}
		var shown []plugins.Kept
		for i, k := range kept {
			if all || i == 0 || kept[i-1].Name.Bare != k.Name.Bare {
				shown = append(shown, k)
			}
		}
		return showPlugins(ctx, s, at, shown)
	})
	return c
}

func pluginVersions(s *command.Session) *cobra.Command {
	return &cobra.Command{
		Use: "versions NAME", Short: "List the versions of a resource plugin", Args: cobra.ExactArgs(1),
		RunE: within(s, func(ctx context.Context, at site.Site, args []string) error {
			kept, err := at.List(ctx)
			if err != nil {
				return err
			}
			kept = slices.DeleteFunc(kept, func(k plugins.Kept) bool { return k.Name.Bare != args[0] })
			if len(kept) == 0 {
				return exit.No.Errorf("there is no resource plugin %s", args[0])
			}
			return showPlugins(ctx, s, at, kept)
		}),
	}
}

// showPlugins shows a list of plugins.
func showPlugins(ctx context.Context, s *command.Session, at site.Site, shown []plugins.Kept) error {
	users, err := at.Users(ctx)
	if err != nil {
		return err
	}
	rows := show.Grid{{"NAME", "VERSION", "CREATED", "USED BY", "DESCRIPTION"}}
	out := reports(shown, users)
	for i, r := range out {
		used := fmt.Sprintf("%d", len(r.Status.Resources))
		rows = append(rows, []string{shown[i].Name.Bare, shown[i].Name.Version, s.Moment(r.CreatedAt), used, r.Spec.Description})
	}
	text := rows.String()
	if len(out) == 0 {
		text = "no resource plugins\n"
	}
	return s.Show.Report(out, text)
}

// LocalAddresses reads a sandbox's file in the published format, and returns the sandbox's name and
// the local addresses that it names.
func LocalAddresses(s *command.Session, file string, values Values) (sandbox string, addresses []string, err error) {
	var asked spec.Sandbox
	in := input{path: file, what: specfile.Sandbox, Values: values}
	if _, err := in.read(s, &asked); err != nil {
		return "", nil, err
	}
	for _, l := range asked.Spec.Local {
		for _, m := range l.Mappings {
			addresses = append(addresses, m.ToLocal)
		}
	}
	if asked.Spec.Routing != nil {
		for _, f := range asked.Spec.Routing.Forwards {
			addresses = append(addresses, f.ToLocal)
		}
	}
	return asked.Name, addresses, nil
}
