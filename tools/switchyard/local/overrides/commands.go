package overrides

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/sidecars/traffic/override/policy"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/switchyard/local/localenv"
	"switchyard.dev/tools/switchyard/show"
)

// Change changes a sandbox. It tries again after a conflict with another change.
func Change(ctx context.Context, s *command.Session, cluster client.WithWatch, name string, do func(*crdv1.SignadotSandbox) error) error {
	ctx, cancel := s.Patiently(ctx)
	defer cancel()
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		now, err := localenv.Sandbox(ctx, cluster, name)
		if err != nil {
			return err
		}
		before := now.DeepCopy()
		if err := do(now); err != nil {
			return exit.No.Errorf("%w", err)
		}
		return cluster.Patch(ctx, now, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	})
}

// listCommand is override list.
func listCommand(s *command.Session) *cobra.Command {
	var sandbox string
	c := &cobra.Command{Use: "list", Short: "List the overrides of sandboxes", Args: cobra.NoArgs}
	c.Flags().StringVarP(&sandbox, "sandbox", "s", "", "only those of this `sandbox`")
	c.RunE = s.InCluster(func(ctx context.Context, cluster client.WithWatch, _ []string) error {
		var all crdv1.SignadotSandboxList
		if sandbox != "" {
			one, err := localenv.Sandbox(ctx, cluster, sandbox)
			if err != nil {
				return err
			}
			all.Items = append(all.Items, *one)
		} else if err := cluster.List(ctx, &all); err != nil {
			return fmt.Errorf("list SignadotSandboxes: %w", err)
		}
		out, rows := []Override{}, show.Grid{{"NAME", "SANDBOX", "WORKLOAD", "PORT", "WITH", "WORKSTATION", "ANSWERS THAT COUNT"}}
		for i := range all.Items {
			for _, o := range List(&all.Items[i]) {
				out = append(out, o)
				rows = append(rows, []string{cmp.Or(o.Name, "-"), o.Sandbox, cmp.Or(o.Workload, "-"), fmt.Sprint(o.Port), o.With, o.workstation(), counts(o.Policy)})
			}
		}
		return s.Show.Report(out, rows.String())
	})
	return c
}

// workstation describes what answers.
func (o Override) workstation() string {
	if o.Connected == nil {
		return "-"
	}
	return cmp.Or(o.By, "not connected")
}

// counts describes which answers count.
func counts(p policy.Policy) string {
	switch {
	case !p.ByStatus:
		return "sd-override: true"
	case len(p.Except) == 0:
		return "all"
	}
	return "all but " + strings.Trim(strings.Join(strings.Fields(fmt.Sprint(p.Except)), ", "), "[]")
}

// deleteCommand is override delete.
func deleteCommand(s *command.Session) *cobra.Command {
	var sandbox string
	c := &cobra.Command{Use: "delete NAME --sandbox S", Short: "Delete an override", Args: cobra.ExactArgs(1)}
	c.Flags().StringVarP(&sandbox, "sandbox", "s", "", "the `sandbox`; required")
	c.RunE = func(c *cobra.Command, args []string) error {
		if sandbox == "" {
			return exit.Usage.Errorf("name the sandbox: --sandbox NAME; %s override list shows all", s.Name)
		}
		cluster, err := s.Writer()
		if err != nil {
			return err
		}
		return Change(c.Context(), s, cluster, sandbox, func(o *crdv1.SignadotSandbox) error {
			if !Remove(o, args[0]) {
				return fmt.Errorf("sandbox %s has no override %s: %s override list shows all", sandbox, args[0], s.Name)
			}
			return nil
		})
	}
	return c
}
