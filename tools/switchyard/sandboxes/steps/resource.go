package steps

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/switchyard/show"
	"switchyard.dev/workflows/steps"
)

// Commands returns the commands of this package.
func Commands(s *command.Session) []*cobra.Command {
	resource := command.Group(&cobra.Command{
		Use: "resource", Short: "Show the resources of sandboxes, and run their steps again",
		Long: `Show the resources of sandboxes, and run failed steps again. Name a resource by its
object, or by its name in the sandbox: --sandbox S NAME, or S/NAME.`,
	}, listResources(s), getResource(s), retry(s), giveUp(s))
	return []*cobra.Command{resource, logs(s)}
}

// found reads the resource that is meant: the object of that name, or the resource of a
// sandbox.
func found(ctx context.Context, s *command.Session, cluster client.Client, sandbox, name string) (*crdv1.Resource, error) {
	ctx, cancel := s.Patiently(ctx)
	defer cancel()
	if of, in, both := strings.Cut(name, "/"); both && sandbox == "" {
		sandbox, name = of, in
	}
	if sandbox == "" {
		r, err := steps.Get(ctx, cluster, name)
		if errors.Is(err, steps.ErrNotFound) {
			return nil, exit.No.Errorf("there is no resource object %s; name the sandbox too, if you mean a resource of one: --sandbox S %s", name, name)
		}
		return r, err
	}
	all, err := steps.List(ctx, cluster, sandbox)
	if err != nil {
		return nil, err
	}
	var names []string
	for i := range all {
		if all[i].Spec.Name == name {
			return &all[i], nil
		}
		names = append(names, all[i].Spec.Name)
	}
	if len(names) == 0 {
		err := cluster.Get(ctx, client.ObjectKey{Name: sandbox}, &crdv1.SignadotSandbox{})
		if apierrors.IsNotFound(err) {
			return nil, exit.No.Errorf("there is no sandbox %s", sandbox)
		}
		return nil, exit.No.Errorf("sandbox %s has no resources", sandbox)
	}
	return nil, exit.No.Errorf("sandbox %s has no resource %s; it has %s", sandbox, name, strings.Join(names, ", "))
}

func getResource(s *command.Session) *cobra.Command {
	c := &cobra.Command{
		Use: "get NAME", Short: "Show the steps of a resource and their progress",
		Example: "  switchyard resource get --sandbox mine db",
	}
	return about(s, c, func(_ context.Context, _ client.Client, _ *crdv1.Resource, r report) error {
		return s.Show.Report(r, r.text(s))
	})
}

// about makes a command one about the resource that its argument names.
func about(s *command.Session, c *cobra.Command, do func(context.Context, client.Client, *crdv1.Resource, report) error) *cobra.Command {
	var sandbox string
	c.Args = cobra.ExactArgs(1)
	c.Flags().StringVar(&sandbox, "sandbox", "", "the `sandbox` of the resource")
	c.RunE = func(c *cobra.Command, args []string) error {
		cluster, err := s.Writer()
		if err != nil {
			return err
		}
		o, err := found(c.Context(), s, cluster, sandbox, args[0])
		if err != nil {
			return err
		}
		return do(c.Context(), cluster, o, reportOf(s, o))
	}
	return c
}

// rowsOf returns a row for each resource, below a head.
func rowsOf(reports []report, s *command.Session) show.Grid {
	rows := show.Grid{{"NAME", "SANDBOX", "RESOURCE", "PLUGIN", "STATE", "STEPS", "CREATED"}}
	for _, r := range reports {
		done := 0
		for _, one := range r.Present() {
			if one.Done() {
				done++
			}
		}
		progress := fmt.Sprintf("%d of %d", done, len(r.Present()))
		rows = append(rows, []string{r.Name, r.Sandbox, r.Resource, r.Plugin, r.state(), progress, s.Moment(r.CreatedAt)})
	}
	return rows
}

func listResources(s *command.Session) *cobra.Command {
	var sandbox string
	c := &cobra.Command{Use: "list", Short: "List the resources of sandboxes", Args: cobra.NoArgs}
	c.Flags().StringVar(&sandbox, "sandbox", "", "only those of this `sandbox`")
	c.RunE = s.InCluster(func(ctx context.Context, cluster client.WithWatch, _ []string) error {
		all, err := steps.List(ctx, cluster, sandbox)
		if err != nil {
			return err
		}
		reports := []report{}
		for i := range all {
			reports = append(reports, reportOf(s, &all[i]))
		}
		text := rowsOf(reports, s).String()
		if len(reports) == 0 {
			text = "no resources\n"
		}
		return s.Show.Report(reports, text)
	})
	return c
}
