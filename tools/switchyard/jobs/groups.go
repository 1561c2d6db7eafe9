package jobs

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	v2 "switchyard.dev/protos/controlplane/v2"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/sandboxes"
	"switchyard.dev/tools/switchyard/show"
	"switchyard.dev/workflows/specfile"
)

// runnerGroups returns the command of runner groups.
func runnerGroups(s *command.Session) *cobra.Command {
	return command.Group(&cobra.Command{
		Use: "jobrunnergroup", Short: "Manage the pods that run jobs", Aliases: []string{"jrg"},
		Long: `Manage runner groups, the pods that run jobs, from their published specification: with a
kubeconfig, or with --control-plane in the control plane. Automatic scaling (spec.scaling.auto)
needs a control plane.`,
	}, applyGroup(s), getGroup(s), listGroups(s), deleteGroup(s))
}

func applyGroup(s *command.Session) *cobra.Command {
	c := &cobra.Command{Use: "apply -f FILE", Short: "Create or change a runner group", Args: cobra.NoArgs, Example: "  switchyard jobrunnergroup apply -f runners.yaml"}
	in := sandboxes.NewInput(c.Flags(), specfile.RunnerGroup)
	c.RunE = func(c *cobra.Command, _ []string) error {
		var asked struct {
			Name string                `json:"name"`
			Spec v2.JobRunnerGroupSpec `json:"spec"`
		}
		f, err := in.Read(s, &asked)
		if err != nil {
			return err
		}
		return within(s, anywhere, func(ctx context.Context, at site, _ []string) error {
			g, err := at.apply(ctx, asked.Name, asked.Spec)
			if err != nil {
				return refused(f, err)
			}
			return s.Show.Report(g, show.Plain(fmt.Sprintf("runner group %s is written\n", g.Name)))
		})(c, nil)
	}
	return c
}

func getGroup(s *command.Session) *cobra.Command {
	c := &cobra.Command{Use: "get NAME", Short: "Show a runner group", Args: cobra.ExactArgs(1)}
	c.RunE = within(s, namespaced(c), func(ctx context.Context, at site, args []string) error {
		g, err := at.group(ctx, args[0])
		if err != nil {
			return err
		}
		text, err := yaml.Marshal(g)
		if err != nil {
			return fmt.Errorf("write runner group %s: %w", g.Name, err)
		}
		return s.Show.Report(g, show.Plain(string(text)))
	})
	return c
}

func listGroups(s *command.Session) *cobra.Command {
	c := &cobra.Command{Use: "list", Short: "List the runner groups", Args: cobra.NoArgs}
	c.RunE = within(s, namespaced(c), func(ctx context.Context, at site, _ []string) error {
		all, err := at.groups(ctx)
		if err != nil {
			return err
		}
		if len(all) == 0 {
			return s.Show.Report([]v2.JobRunnerGroup{}, "no runner groups\n")
		}
		rows := show.Grid{{"NAME", "NAMESPACE", "IMAGE", "READY", "IDLE", "QUEUED", "RUNNING", "MESSAGE"}}
		for _, g := range all {
			pods, jobs := g.Status.Pods, g.Status.Executions
			rows = append(rows, []string{
				g.Name, text(g.Spec.Namespace), text(g.Spec.Image), fmt.Sprintf("%d/%d", pods.Ready, pods.Ready+pods.NotReady),
				fmt.Sprint(pods.Idle), fmt.Sprint(jobs.Queued), fmt.Sprint(jobs.Running), text(g.Status.Message),
			})
		}
		return s.Show.Report(all, rows.String())
	})
	return c
}

func deleteGroup(s *command.Session) *cobra.Command {
	c := &cobra.Command{
		Use: "delete (NAME | -f FILE)", Short: "Delete a runner group", Args: cobra.MaximumNArgs(1),
		Long: "Delete a runner group: its waiting jobs end, scripts that run are stopped, and then its pods are deleted.",
	}
	in := sandboxes.NewInput(c.Flags(), specfile.RunnerGroup)
	namespace := namespaced(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		name, err := in.Name(s, args)
		if err != nil {
			return err
		}
		return within(s, namespace, func(ctx context.Context, at site, _ []string) error {
			err := at.remove(ctx, name)
			if err == nil {
				_, err = io.WriteString(s.Out, show.Plain(fmt.Sprintf("runner group %s is being deleted\n", name)))
			}
			return err
		})(c, nil)
	}
	return c
}
