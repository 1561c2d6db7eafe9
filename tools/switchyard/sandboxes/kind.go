package sandboxes

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/switchyard/show"
	"switchyard.dev/workflows/specfile"
)

// kind is a kind of object that has a published specification. Its methods are the commands that
// all such kinds have.
type kind struct {
	// what names one in messages, such as specfile.Sandbox, plural names several, and command is the name
	// of its command.
	what, plural, command string
	// of is the kind of the object.
	of string
	// report returns an object as people and scripts are shown it.
	report func(crdv1.Object) shown
	// listed returns reports as a table.
	listed func(*command.Session, []shown) string
}

// shown is an object as people and scripts are shown it.
type shown interface {
	text(*command.Session) string
	state() status
	known() json.RawMessage
}

// definition returns the kind of the object.
func (k kind) definition() crdv1.Kind {
	d, _ := crdv1.KindCalled(k.of) // a constant of crdv1
	return d
}

// get reads an object.
func (k kind) get(ctx context.Context, s *command.Session, cluster client.Client, name string) (crdv1.Object, error) {
	ctx, cancel := s.Patiently(ctx)
	defer cancel()
	o := k.definition().New()
	err := cluster.Get(ctx, client.ObjectKey{Name: name}, o)
	if apierrors.IsNotFound(err) {
		return nil, exit.No.Errorf("there is no %s %s", k.what, name)
	}
	return o, k.refused("read", name, err)
}

// refused returns an error about a call to the API server; nil for nil.
func (k kind) refused(what, name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s %s: %w", what, k.of, name, err)
}

// put creates an object that was compiled from a file, or changes the one that is there; assign
// gives that the new spec.
func (k kind) put(ctx context.Context, s *command.Session, cluster client.Client, f *specfile.File, object, there crdv1.Object, assign func()) (crdv1.Object, error) {
	if there.GetDeletionTimestamp() != nil {
		return nil, exit.No.Errorf("%s %s is being deleted, and nothing was written: apply it again when it is deleted (%s %s get %s shows how far it is)",
			k.what, there.GetName(), s.Name, k.command, there.GetName())
	}
	object.GetAnnotations()[crdv1.AnnotationUpdatedAt] = s.Now().UTC().Format(time.RFC3339)
	if there.GetUID() == "" {
		if err := keep(s, f, object); err != nil {
			return nil, err
		}
		return object, k.refused("create", object.GetName(), cluster.Create(ctx, object, client.FieldValidation("Strict")))
	}
	assign()
	annotations := there.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	for _, key := range append([]string{crdv1.AnnotationSpecification, crdv1.AnnotationUpdatedAt}, compiledTo...) {
		if value, has := object.GetAnnotations()[key]; has {
			annotations[key] = value
		} else {
			delete(annotations, key)
		}
	}
	there.SetAnnotations(annotations)
	if err := keep(s, f, there); err != nil {
		return nil, err
	}
	return there, k.refused("change", there.GetName(), cluster.Update(ctx, there, client.FieldValidation("Strict")))
}

// apply adds the flags and the action of a command that applies a file. open reads the file and returns
// a function that writes the object, which is called again after a conflict.
func (k kind) apply(s *command.Session, c *cobra.Command, open func(*input) (func(context.Context, client.Client) (crdv1.Object, error), error)) *cobra.Command {
	var in input
	var wait bool
	var patience time.Duration
	c.Use, c.Short, c.Args = "apply -f FILE", "Create or change a "+k.what, cobra.NoArgs
	in.flags(c.Flags(), k.what)
	c.Flags().BoolVar(&wait, "wait", true, "wait until the "+k.what+" is ready")
	c.Flags().DurationVar(&patience, "wait-timeout", waitReady, "how long to wait for that")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if in.path == "" {
			return exit.Usage.Errorf("give -f FILE")
		}
		write, err := open(&in)
		if err != nil {
			return err
		}
		cluster, err := s.Writer()
		if err != nil {
			return err
		}
		var written crdv1.Object
		err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
			ctx, cancel := s.Patiently(c.Context())
			defer cancel()
			written, err = write(ctx, cluster)
			return err
		})
		if err != nil {
			return err
		}
		if wait {
			return k.awaitReady(c.Context(), s, cluster, written, patience)
		}
		return s.Show.Report(k.report(written), show.Plain(fmt.Sprintf("%s %s is written, with the routing key %s\n", k.what, written.GetName(), keyOf(written))))
	}
	return c
}

// keyOf returns the routing key of a sandbox or a route group.
func keyOf(o crdv1.Object) string {
	if g, is := o.(*crdv1.SignadotRouteGroup); is {
		return g.Spec.RoutingKey
	}
	return o.(*crdv1.SignadotSandbox).Spec.ID
}

// deleted returns the command that deletes an object.
func (k kind) deleted(s *command.Session) *cobra.Command {
	var in input
	var wait bool
	var patience time.Duration
	c := &cobra.Command{
		Use: "delete (NAME | -f FILE)", Short: "Delete a " + k.what, Args: cobra.MaximumNArgs(1),
		Long: "Delete a " + k.what + ", by its name or that in a file: variables elsewhere in it need no value.",
	}
	in.flags(c.Flags(), k.what)
	c.Flags().BoolVar(&wait, "wait", true, "wait until it is deleted")
	c.Flags().DurationVar(&patience, "wait-timeout", waitGone, "how long to wait for that")
	c.RunE = func(c *cobra.Command, args []string) error {
		name, err := in.name(s, args)
		if err != nil {
			return err
		}
		cluster, err := s.Writer()
		if err != nil {
			return err
		}
		there, err := k.get(c.Context(), s, cluster, name)
		if err != nil {
			return err
		}
		ctx, cancel := s.Patiently(c.Context())
		defer cancel()
		if err := cluster.Delete(ctx, there); err != nil && !apierrors.IsNotFound(err) {
			return k.refused("delete", name, err)
		}
		word := "is being deleted"
		if wait {
			word = "is deleted"
			if err := k.awaitGone(c.Context(), s, cluster, there, patience); err != nil {
				return err
			}
		}
		_, err = io.WriteString(s.Out, show.Plain(fmt.Sprintf("%s %s %s\n", k.what, name, word)))
		return err
	}
	return c
}

// shownByName returns the command that shows an object.
func (k kind) shownByName(s *command.Session) *cobra.Command {
	return &cobra.Command{
		Use: "get NAME", Short: "Show a " + k.what, Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			cluster, err := s.Writer()
			if err != nil {
				return err
			}
			o, err := k.get(c.Context(), s, cluster, args[0])
			if err != nil {
				return err
			}
			r := k.report(o)
			unknown(s, r.known(), o)
			return s.Show.Report(r, r.text(s))
		},
	}
}

// all returns the command that lists the objects.
func (k kind) all(s *command.Session, short string) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: short, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			cluster, err := s.Writer()
			if err != nil {
				return err
			}
			ctx, cancel := s.Patiently(c.Context())
			defer cancel()
			list := k.definition().NewList()
			if err := cluster.List(ctx, list); err != nil {
				return fmt.Errorf("list %s: %w", k.plural, err)
			}
			items, err := meta.ExtractList(list)
			if err != nil {
				return err
			}
			reports := []shown{}
			for _, o := range items {
				reports = append(reports, k.report(o.(crdv1.Object)))
			}
			if len(reports) == 0 {
				return s.Show.Report(reports, "no "+k.plural+"\n")
			}
			return s.Show.Report(reports, k.listed(s, reports))
		},
	}
}

// noted reads an annotation that is JSON into a value; other text is left out.
func noted[T any](o client.Object, key string) (value T) {
	_ = json.Unmarshal([]byte(o.GetAnnotations()[key]), &value) // Another client wrote it.
	return value
}
