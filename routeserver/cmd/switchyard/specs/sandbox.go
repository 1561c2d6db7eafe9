package specs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/routeserver/cli/exit"
	"switchyard.dev/routeserver/cli/session"
	"switchyard.dev/routeserver/cli/show"
	"switchyard.dev/workflows/compile"
	"switchyard.dev/workflows/spec"
	"switchyard.dev/workflows/specfile"
)

// How long commands wait by default, as the published client does.
const (
	waitReady = 3 * time.Minute
	waitGone  = 5 * time.Minute
)

// Commands returns the commands of this package. further are commands of sandbox beside its own.
func Commands(s *session.Session, further ...*cobra.Command) []*cobra.Command {
	sandbox := &cobra.Command{
		Use: "sandbox", Short: "Set up sandboxes from their published specification", Args: cobra.NoArgs,
		Long: `Set up sandboxes from their published specification, with a kubeconfig alone: no control
plane is needed. The specification is compiled here to a SignadotSandbox, which is written
with your own rights; whoever may write one may also use kubectl.`,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	sandbox.AddCommand(applySandbox(s), renderSandbox(s), deleteSandbox(s), getSandbox(s), listSandboxes(s))
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
	return []*cobra.Command{sandbox, plugin}
}

func applySandbox(s *session.Session) *cobra.Command {
	var in input
	var wait bool
	var patience time.Duration
	c := &cobra.Command{
		Use: "apply -f FILE", Short: "Create or change a sandbox", Args: cobra.NoArgs,
		Example: "  switchyard sandbox apply -f sandbox.yaml --set tag=pr-12",
	}
	in.flags(c.Flags(), "sandbox")
	c.Flags().BoolVar(&wait, "wait", true, "wait until the sandbox is ready")
	c.Flags().DurationVar(&patience, "wait-timeout", waitReady, "how long to wait for that")
	c.RunE = func(c *cobra.Command, _ []string) error {
		var asked spec.Sandbox
		if in.path == "" {
			return exit.Usage.Errorf("give -f FILE")
		}
		f, err := in.read(s, &asked)
		if err != nil {
			return err
		}
		cluster, err := Connect(s)
		if err != nil {
			return err
		}
		var written *crdv1.SignadotSandbox
		err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
			written, err = write(c.Context(), s, cluster, f, asked)
			return err
		})
		if err != nil {
			return err
		}
		if wait {
			return awaitReady(c.Context(), s, cluster, written, patience)
		}
		return s.Show.Report(reportOf(written), fmt.Sprintf("sandbox %s is written, with the routing key %s\n", written.Name, written.Spec.ID))
	}
	return c
}

// write compiles a sandbox and creates it, or replaces the one that is there.
func write(ctx context.Context, s *session.Session, cluster client.Client, f *specfile.File, asked spec.Sandbox) (*crdv1.SignadotSandbox, error) {
	ctx, cancel := s.Patiently(ctx)
	defer cancel()
	there := &crdv1.SignadotSandbox{}
	unread := cluster.Get(ctx, client.ObjectKey{Name: asked.Name}, there)
	isNew := apierrors.IsNotFound(unread)
	plugins, err := pluginsFor(ctx, s, cluster, asked, nil)
	if err != nil {
		return nil, err
	}
	object, err := compiled(s, f, compile.Input{Sandbox: asked, Plugins: plugins, RoutingKey: there.Spec.ID, Pinned: pinned(there)})
	if err != nil {
		return nil, err
	}
	if unread != nil && !isNew { // Of a name that nothing can have the compiler told.
		return nil, refused("read", asked.Name, unread)
	}
	if there.DeletionTimestamp != nil {
		return nil, exit.No.Errorf("sandbox %s is being deleted, and nothing was written: apply it again when it is deleted (switchyard sandbox get %s shows how far it is)", there.Name, there.Name)
	}
	if err := keep(s, f, object); err != nil {
		return nil, err
	}
	object.Annotations[crdv1.AnnotationUpdatedAt] = s.Now().UTC().Format(time.RFC3339)
	if isNew {
		return object, refused("create", object.Name, cluster.Create(ctx, object, client.FieldValidation("Strict")))
	}
	there.Spec = object.Spec
	for _, key := range append([]string{crdv1.AnnotationSpecification, crdv1.AnnotationUpdatedAt}, compiledTo...) {
		if value, has := object.Annotations[key]; has {
			if there.Annotations == nil {
				there.Annotations = map[string]string{}
			}
			there.Annotations[key] = value
		} else {
			delete(there.Annotations, key)
		}
	}
	return there, refused("change", there.Name, cluster.Update(ctx, there, client.FieldValidation("Strict")))
}

// refused says what the API server did not do; nil for nil.
func refused(what, name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s SignadotSandbox %s: %w", what, name, err)
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
func compiled(s *session.Session, f *specfile.File, in compile.Input) (*crdv1.SignadotSandbox, error) {
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
func pluginsFor(ctx context.Context, s *session.Session, cluster client.Client, asked spec.Sandbox, files []string) ([]spec.Plugin, error) {
	var out []spec.Plugin
	for _, path := range files {
		var p spec.Plugin
		f, err := (&input{path: path, what: specfile.ResourcePlugin}).read(s, &p)
		if err != nil {
			return nil, err
		}
		if problems := f.Locate(compile.Plugin(p)); len(problems) > 0 {
			return nil, exit.Usage.Errorf("%w", problems)
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

func renderSandbox(s *session.Session) *cobra.Command {
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
			if cluster, err = Connect(s); err != nil {
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
		text, err := yaml.Marshal(object)
		if err != nil {
			return fmt.Errorf("write SignadotSandbox %s: %w", object.Name, err)
		}
		return s.Show.Report(object, string(text))
	}
	return c
}

func deleteSandbox(s *session.Session) *cobra.Command {
	var in input
	var wait bool
	var patience time.Duration
	c := &cobra.Command{
		Use: "delete (NAME | -f FILE)", Short: "Delete a sandbox", Args: cobra.MaximumNArgs(1),
		Long: "Delete a sandbox, by its name or that in a file: variables elsewhere in it need no value.",
	}
	in.flags(c.Flags(), "sandbox")
	c.Flags().BoolVar(&wait, "wait", true, "wait until all of it is gone")
	c.Flags().DurationVar(&patience, "wait-timeout", waitGone, "how long to wait for that")
	c.RunE = func(c *cobra.Command, args []string) error {
		name, err := in.name(s, args)
		if err != nil {
			return err
		}
		cluster, err := Connect(s)
		if err != nil {
			return err
		}
		there, err := sandboxNamed(c.Context(), s, cluster, name)
		if err != nil {
			return err
		}
		ctx, cancel := s.Patiently(c.Context())
		defer cancel()
		if err := cluster.Delete(ctx, there); err != nil && !apierrors.IsNotFound(err) {
			return refused("delete", name, err)
		}
		if wait {
			if err := awaitGone(c.Context(), s, cluster, there, patience); err != nil {
				return err
			}
		}
		word := "is deleted"
		if !wait {
			word = "is being deleted"
		}
		_, err = io.WriteString(s.Out, show.Plain(fmt.Sprintf("sandbox %s %s\n", name, word)))
		return err
	}
	return c
}

// sandboxNamed reads a sandbox.
func sandboxNamed(ctx context.Context, s *session.Session, cluster client.Client, name string) (*crdv1.SignadotSandbox, error) {
	ctx, cancel := s.Patiently(ctx)
	defer cancel()
	o := &crdv1.SignadotSandbox{}
	err := cluster.Get(ctx, client.ObjectKey{Name: name}, o)
	if apierrors.IsNotFound(err) {
		return nil, exit.No.Errorf("there is no sandbox %s", name)
	}
	return o, refused("read", name, err)
}

func getSandbox(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use: "get NAME", Short: "Show a sandbox", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			cluster, err := Connect(s)
			if err != nil {
				return err
			}
			o, err := sandboxNamed(c.Context(), s, cluster, args[0])
			if err != nil {
				return err
			}
			r := reportOf(o)
			unknown(s, r.Spec, o)
			return s.Show.Report(r, r.text(s))
		},
	}
}

func listSandboxes(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the sandboxes of the cluster", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			cluster, err := Connect(s)
			if err != nil {
				return err
			}
			ctx, cancel := s.Patiently(c.Context())
			defer cancel()
			var list crdv1.SignadotSandboxList
			if err := cluster.List(ctx, &list); err != nil {
				return fmt.Errorf("list SignadotSandboxes: %w", err)
			}
			reports := []report{}
			for i := range list.Items {
				reports = append(reports, reportOf(&list.Items[i]))
			}
			return s.Show.Report(reports, listed(s, reports))
		},
	}
}

// noted reads an annotation that is JSON into a value; what is none is left out.
func noted[T any](o client.Object, key string) (value T) {
	_ = json.Unmarshal([]byte(o.GetAnnotations()[key]), &value) // Somebody else wrote it.
	return value
}
