package steps

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/switchyard/sandboxes"
	"switchyard.dev/tools/switchyard/show"
	"switchyard.dev/workflows/compile"
	"switchyard.dev/workflows/steps"
)

// printed prints a text if err is nil, and returns err.
func printed(s *command.Session, text string, err error) error {
	if err == nil {
		_, err = io.WriteString(s.Out, show.Plain(text)+"\n")
	}
	return err
}

func retry(s *command.Session) *cobra.Command {
	c := &cobra.Command{
		Use: "retry NAME", Short: "Run the failed or lost steps of a resource again",
		Long: `Run the steps of a resource again that failed, or that may not have completed. Steps that
succeeded do not run again. The scripts are those of the resource. If it is being deleted,
--with FILE replaces its delete steps by those of a corrected resource plugin; that needs the
rights to apply a sandbox with these steps. Otherwise change the scripts with "sandbox apply",
which uses the next version of the plugin.`,
		Example: "  switchyard resource retry --sandbox mine db\n  switchyard resource retry --sandbox mine db --with plugin.yaml",
	}
	var values sandboxes.Values
	with := c.Flags().String("with", "", "a `file` with a corrected resource plugin; its delete steps run")
	values.Flags(c.Flags(), "file")
	return about(s, c, func(ctx context.Context, cluster client.Client, o *crdv1.Resource, r report) error {
		if *with != "" {
			return replace(ctx, s, cluster, o, r, *with, values)
		}
		var names []string
		for _, one := range r.Present() {
			if one.Trouble() {
				names = append(names, one.Name)
			}
		}
		text := fmt.Sprintf("resource %s is asked to run again: %s", r.Name, strings.Join(names, ", "))
		if len(names) == 0 {
			text = fmt.Sprintf("resource %s is asked to try again; no step of it has failed or is lost, so that nothing may come of it", r.Name)
		}
		ctx, cancel := s.Patiently(ctx)
		defer cancel()
		return printed(s, text, steps.Retry(ctx, cluster, o, s.Now()))
	})
}

// replace writes the delete steps of a plugin's file into a resource that is being deleted, and has them run.
func replace(ctx context.Context, s *command.Session, cluster client.Client, o *crdv1.Resource, r report, file string, values sandboxes.Values) error {
	if !r.Deleting {
		return exit.No.Errorf("resource %s is not being deleted, so nothing was written: give the plugin its next version with %s resourceplugin apply, and apply sandbox %s with that", r.Name, s.Name, r.Sandbox)
	}
	p, f, err := sandboxes.Plugin(s, file, values)
	if err != nil {
		return err
	}
	units, problems := compile.DeleteSteps(p, o)
	if len(problems) > 0 {
		return exit.Usage.Errorf("%w", f.Locate(problems))
	}
	ctx, cancel := s.Patiently(ctx)
	defer cancel()
	err = steps.Replace(ctx, cluster, o, units, s.Now())
	names := lists.Map(units, func(u crdv1.WorkUnit) string { return u.Name })
	return printed(s, fmt.Sprintf("resource %s has the delete steps of %s, of which those that have not succeeded run: %s", r.Name, p.Name, strings.Join(names, ", ")), err)
}

func giveUp(s *command.Session) *cobra.Command {
	c := &cobra.Command{
		Use: "give-up NAME", Short: "Release a resource without its delete steps",
		Long: `Release a resource that is being deleted although its delete steps cannot complete. Objects
that those steps would have deleted remain: the command lists the steps.`,
	}
	return about(s, c, func(ctx context.Context, cluster client.Client, o *crdv1.Resource, r report) error {
		ctx, cancel := s.Patiently(ctx)
		defer cancel()
		err := steps.GiveUp(ctx, cluster, o)
		if errors.Is(err, steps.ErrNotDeleting) {
			return exit.No.Errorf("resource %s is not being deleted: delete sandbox %s first, or take the resource out of it", r.Name, r.Sandbox)
		}
		var left []string
		for _, one := range r.Delete {
			if !one.Done() {
				left = append(left, one.Name)
			}
		}
		text := fmt.Sprintf("resource %s is let go", r.Name)
		if len(left) > 0 {
			text += "; objects that these steps delete may remain: " + strings.Join(left, ", ")
		}
		return printed(s, text, err)
	})
}
