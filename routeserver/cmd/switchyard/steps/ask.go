package steps

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/routeserver/cli/exit"
	"switchyard.dev/routeserver/cli/session"
	"switchyard.dev/routeserver/cli/show"
)

// asking is a command that writes an annotation for the operator. say returns the annotation
// and what people are told; an error when the resource is not in a state for it.
func asking(s *session.Session, c *cobra.Command, say func(report) (key, value, told string, err error)) *cobra.Command {
	return about(s, c, func(ctx context.Context, cluster client.Client, o *crdv1.Resource, r report) error {
		key, value, told, err := say(r)
		if err != nil {
			return err
		}
		if err := annotate(ctx, s, cluster, o, key, value); err != nil {
			return err
		}
		_, err = io.WriteString(s.Out, show.Plain(told)+"\n")
		return err
	})
}

// annotate writes one annotation of a resource, of that object and no later one of its name.
func annotate(ctx context.Context, s *session.Session, cluster client.Client, r *crdv1.Resource, key, value string) error {
	ctx, cancel := s.Patiently(ctx)
	defer cancel()
	patch := fmt.Sprintf(`{"metadata":{"uid":%q,"annotations":{%q:%q}}}`, r.UID, key, value)
	return failed("change", r.Name, cluster.Patch(ctx, r, client.RawPatch("application/merge-patch+json", []byte(patch))))
}

func retry(s *session.Session) *cobra.Command {
	c := &cobra.Command{
		Use: "retry NAME", Short: "Have the steps of a resource run again that failed or were lost",
		Long: `Have the steps of a resource run again that failed, or of which nobody can say whether they
came to their end. Steps that have succeeded do not run again.`,
	}
	return asking(s, c, func(r report) (key, value, told string, err error) {
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
		return crdv1.AnnotationRetry, s.Now().UTC().Format(time.RFC3339Nano), told, nil
	})
}

func giveUp(s *session.Session) *cobra.Command {
	c := &cobra.Command{
		Use: "give-up NAME", Short: "Let a resource go whose delete steps cannot be run",
		Long: `Let a resource go that is being deleted and whose delete steps cannot be run to their end.
What they have not removed stays: the command names the steps.`,
	}
	return asking(s, c, func(r report) (key, value, told string, err error) {
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
	})
}
