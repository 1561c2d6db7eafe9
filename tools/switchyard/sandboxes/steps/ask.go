package steps

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/switchyard/sandboxes"
	"switchyard.dev/tools/switchyard/show"
	"switchyard.dev/workflows/compile"
)

// saying returns the annotation that asks the operator for something, and the text that reports it; an
// error when the resource is not in a state for it.
type saying func(report) (key, value, told string, err error)

// ask writes an annotation for the operator.
func ask(ctx context.Context, s *command.Session, cluster client.Client, o *crdv1.Resource, r report, say saying) error {
	key, value, told, err := say(r)
	if err != nil {
		return err
	}
	if err := annotate(ctx, s, cluster, o, key, value); err != nil {
		return err
	}
	_, err = io.WriteString(s.Out, show.Plain(told)+"\n")
	return err
}

// annotate writes one annotation of a resource, of that object and no later one of its name.
func annotate(ctx context.Context, s *command.Session, cluster client.Client, r *crdv1.Resource, key, value string) error {
	ctx, cancel := s.Patiently(ctx)
	defer cancel()
	patch := fmt.Sprintf(`{"metadata":{"uid":%q,"annotations":{%q:%q}}}`, r.UID, key, value)
	return failed("change", r.Name, cluster.Patch(ctx, r, client.RawPatch("application/merge-patch+json", []byte(patch))))
}

func retry(s *command.Session) *cobra.Command {
	c := &cobra.Command{
		Use: "retry NAME", Short: "Run the failed or lost steps of a resource again",
		Long: `Run the steps of a resource again that failed, or that may not have come to their end. Steps
that have succeeded do not run again. The scripts are those of the resource: for one that is
being deleted, --with FILE replaces its delete steps by those of a mended resource plugin.
That takes the rights to apply a sandbox with these steps. Scripts of a resource that is not being
deleted are changed with "sandbox apply", which takes the next version of the plugin.`,
		Example: "  switchyard resource retry --sandbox mine db\n  switchyard resource retry --sandbox mine db --with plugin.yaml",
	}
	var values sandboxes.Values
	with := c.Flags().String("with", "", "the `file` of a mended resource plugin whose delete steps run")
	values.Flags(c.Flags(), "file")
	plain := func(r report) (key, value, told string, err error) {
		var names []string
		for _, one := range r.present() {
			if one.trouble() {
				names = append(names, one.Name)
			}
		}
		told = fmt.Sprintf("resource %s is asked to run again: %s", r.Name, strings.Join(names, ", "))
		if len(names) == 0 {
			told = fmt.Sprintf("resource %s is asked to try again; no step of it has failed or is lost, so that nothing may come of it", r.Name)
		}
		return crdv1.AnnotationRetry, asked(s), told, nil
	}
	return about(s, c, func(ctx context.Context, cluster client.Client, o *crdv1.Resource, r report) error {
		if *with != "" {
			return replace(ctx, s, cluster, o, r, *with, values)
		}
		return ask(ctx, s, cluster, o, r, plain)
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
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": o.UID, "resourceVersion": o.ResourceVersion, "annotations": map[string]string{crdv1.AnnotationRetry: asked(s)}},
		"spec":     map[string]any{"olm": map[string]any{"postStop": units}},
	})
	if err != nil {
		return failed("change", r.Name, err)
	}
	ctx, cancel := s.Patiently(ctx)
	defer cancel()
	if err := cluster.Patch(ctx, o, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return failed("change", r.Name, err)
	}
	var names []string
	for _, u := range units {
		names = append(names, u.Name)
	}
	_, err = io.WriteString(s.Out, show.Plain(fmt.Sprintf("resource %s has the delete steps of %s, which run now: %s\n", r.Name, p.Name, strings.Join(names, ", "))))
	return err
}

// asked returns a value of crdv1.AnnotationRetry.
func asked(s *command.Session) string { return s.Now().UTC().Format(time.RFC3339Nano) }

func giveUp(s *command.Session) *cobra.Command {
	c := &cobra.Command{
		Use: "give-up NAME", Short: "Let a resource go whose delete steps cannot be run",
		Long: `Let a resource go that is being deleted and whose delete steps cannot be run to their end.
What they have not removed stays: the command names the steps.`,
	}
	say := func(r report) (key, value, told string, err error) {
		if !r.Deleting {
			return "", "", "", exit.No.Errorf("resource %s is not being deleted: delete sandbox %s first, or take the resource out of it", r.Name, r.Sandbox)
		}
		var left []string
		for _, one := range r.Delete {
			if !one.done() {
				left = append(left, one.Name)
			}
		}
		told = fmt.Sprintf("resource %s is let go", r.Name)
		if len(left) > 0 {
			told += "; what these steps remove may be left: " + strings.Join(left, ", ")
		}
		return crdv1.AnnotationGiveUp, "true", told, nil
	}
	return about(s, c, func(ctx context.Context, cluster client.Client, o *crdv1.Resource, r report) error {
		return ask(ctx, s, cluster, o, r, say)
	})
}
