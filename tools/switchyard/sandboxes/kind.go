package sandboxes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/util/retry"

	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/switchyard/sandboxes/site"
	"switchyard.dev/tools/switchyard/show"
	"switchyard.dev/workflows/sandboxes"
	"switchyard.dev/workflows/specfile"
)

// kind is a kind of object that has a published specification. Its methods are the commands that
// all such kinds have.
type kind struct {
	sandboxes.Kind
	// command is the name of its command.
	command string
	// text returns a report as text, and listed reports as a table.
	text   func(*command.Session, sandboxes.Report) string
	listed func(*command.Session, []sandboxes.Report) string
}

// get reads an object.
func (k kind) get(ctx context.Context, at site.Site, name string) (sandboxes.Object, error) {
	o, err := at.Object(ctx, k.Kind, name)
	if errors.Is(err, sandboxes.ErrNotFound) {
		return o, exit.No.Errorf("there is no %s %s", k.Name, name)
	}
	return o, err
}

// open returns the cluster or the control plane that the user means.
func open(ctx context.Context, s *command.Session) (site.Site, error) {
	if s.UsesPlane() {
		p, err := s.OpenPlane(ctx)
		return &site.Plane{Plane: p}, err
	}
	c, err := s.Writer()
	return site.Cluster{Store: store(s, c), Now: s.Now}, err
}

// within returns the action of a command that needs a site, as command.With.
func within(s *command.Session, do func(ctx context.Context, at site.Site, args []string) error) func(*cobra.Command, []string) error {
	return command.With(s, func(ctx context.Context) (site.Site, error) { return open(ctx, s) }, do)
}

// refused returns an error of an application with its exit code.
func (k kind) refused(s *command.Session, f *specfile.File, name string, err error) error {
	var problems specfile.Problems
	switch {
	case errors.As(err, &problems):
		return exit.Usage.Errorf("%w", f.Locate(problems))
	case errors.Is(err, sandboxes.ErrDeleting):
		return exit.No.Errorf("%s %s is being deleted, and nothing was written: apply it again when it is deleted (%s %s get %s shows how far it is)",
			k.Name, name, s.Name, k.command, name)
	}
	return err
}

// apply adds the flags and the action of a command that applies a file. write writes the object, and is called again
// after a conflict.
func apply[T any](s *command.Session, k kind, c *cobra.Command, write func(ctx context.Context, s *command.Session, at site.Site, f *specfile.File, asked T) (sandboxes.Object, error)) *cobra.Command {
	var in input
	var wait bool
	var patience time.Duration
	c.Use, c.Short, c.Args = "apply -f FILE", "Create or change a "+k.Name, cobra.NoArgs
	in.flags(c.Flags(), k.Name)
	c.Flags().BoolVar(&wait, "wait", true, "wait until the "+k.Name+" is ready")
	c.Flags().DurationVar(&patience, "wait-timeout", waitReady, "timeout of --wait")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if in.path == "" {
			return exit.Usage.Errorf("give -f FILE")
		}
		var asked T
		f, err := in.read(s, &asked)
		if err != nil {
			return err
		}
		at, err := open(c.Context(), s)
		if err != nil {
			return err
		}
		var written sandboxes.Object
		err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
			ctx, cancel := s.Patiently(c.Context())
			defer cancel()
			written, err = write(ctx, s, at, f, asked)
			return err
		})
		if err != nil {
			return err
		}
		if wait {
			return k.awaitReady(c.Context(), s, at, written, patience)
		}
		return s.Show.Report(written.Report, show.Plain(fmt.Sprintf("%s %s is written, with the routing key %s\n", k.Name, written.Name, written.RoutingKey)))
	}
	return c
}

// deleted returns the command that deletes an object.
func (k kind) deleted(s *command.Session) *cobra.Command {
	var in input
	var wait, force bool
	var patience time.Duration
	c := &cobra.Command{
		Use: "delete (NAME | -f FILE)", Short: "Delete a " + k.Name, Args: cobra.MaximumNArgs(1),
		Long: "Delete a " + k.Name + ", by its name or that in a file: variables elsewhere in it need no value.",
	}
	in.flags(c.Flags(), k.Name)
	c.Flags().BoolVar(&wait, "wait", true, "wait until it is deleted")
	c.Flags().DurationVar(&patience, "wait-timeout", waitGone, "timeout of --wait")
	if k.Name == specfile.Sandbox {
		c.Flags().BoolVar(&force, "force", false, "with a control plane, delete it without the delete steps of its resources")
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		name, err := in.name(s, args)
		if err != nil {
			return err
		}
		if force && !s.UsesPlane() {
			return exit.Usage.Errorf("--force is for a control plane: use %s resource give-up for each resource", s.Name)
		}
		at, err := open(c.Context(), s)
		if err != nil {
			return err
		}
		ctx, cancel := s.Patiently(c.Context())
		defer cancel()
		there, err := k.get(ctx, at, name)
		if err != nil {
			return err
		}
		if err := at.Remove(ctx, k.Kind, name, force); err != nil {
			return err
		}
		word := "is being deleted"
		if wait {
			word = "is deleted"
			if err := k.awaitGone(c.Context(), s, at, there, patience); err != nil {
				return err
			}
		}
		_, err = io.WriteString(s.Out, show.Plain(fmt.Sprintf("%s %s %s\n", k.Name, name, word)))
		return err
	}
	return c
}

// shownByName returns the command that shows an object.
func (k kind) shownByName(s *command.Session) *cobra.Command {
	return &cobra.Command{
		Use: "get NAME", Short: "Show a " + k.Name, Args: cobra.ExactArgs(1),
		RunE: within(s, func(ctx context.Context, at site.Site, args []string) error {
			o, err := k.get(ctx, at, args[0])
			if err != nil {
				return err
			}
			if o.Known() == nil && s.Show.Form != show.Table {
				_, _ = fmt.Fprintln(s.Err, show.Plain("note: the specification of "+o.Name+" is not known, so the output cannot be applied: the object was not written by apply, or was changed since"))
			}
			return s.Show.Report(o.Report, k.text(s, o.Report))
		}),
	}
}

// all returns the command that lists the objects.
func (k kind) all(s *command.Session) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the " + k.Plural + " of the cluster or the control plane", Args: cobra.NoArgs,
		RunE: within(s, func(ctx context.Context, at site.Site, _ []string) error {
			reports, err := at.Objects(ctx, k.Kind)
			if err != nil {
				return err
			}
			if len(reports) == 0 {
				return s.Show.Report([]sandboxes.Report{}, "no "+k.Plural+"\n")
			}
			return s.Show.Report(reports, k.listed(s, reports))
		}),
	}
}

// quiet is how long the operator's first report, or a deletion, can take before a command prints what
// it waits for.
const quiet = 2 * time.Second

// progress prints what a command waits for, each state once.
type progress struct {
	s       *command.Session
	word    string // before the state, such as "not ready"
	since   time.Time
	status  sandboxes.Status
	printed string
	// patient: no state is printed before quiet has passed.
	patient bool
}

// shows notes a state and prints it if it is new.
func (p *progress) shows(now sandboxes.Status) {
	p.status = now
	if now.Message == p.printed || (now.Unobserved || p.patient) && p.s.Now().Sub(p.since) < quiet {
		return
	}
	p.printed = now.Message
	_, _ = fmt.Fprintln(p.s.Err, show.Indented(p.word+": "+now.Message))
}

// last returns the message of the last state, for an error.
func (p *progress) last() string {
	if p.status.Message == "" {
		return sandboxes.Unobserved
	}
	return show.Indented(p.status.Message)
}

// awaitReady waits until an object is ready in the form in which it was written, and prints what
// it waits for.
func (k kind) awaitReady(ctx context.Context, s *command.Session, at site.Site, written sandboxes.Object, patience time.Duration) error {
	p := progress{s: s, word: "not ready", since: s.Now(), patient: s.UsesPlane()} // It first writes the object to a cluster.
	o, err := sandboxes.AwaitReady(ctx, k.read(at), written, sandboxes.Wait{For: patience, Request: s.Patiently, Shows: p.shows})
	name, failed := written.Name, sandboxes.Failed("")
	switch {
	case errors.Is(err, sandboxes.ErrReplaced):
		return exit.No.Errorf("%s %s was deleted and created again while this command waited", k.Name, name)
	case errors.Is(err, sandboxes.ErrDeleting):
		return exit.No.Errorf("%s %s is being deleted: wait for that with %s %s delete %s", k.Name, name, s.Name, k.command, name)
	case errors.As(err, &failed):
		return exit.No.Errorf("%s %s will not become ready: %s", k.Name, name, show.Indented(failed.Error()))
	case errors.Is(err, sandboxes.ErrLate):
		return exit.No.Errorf("%s %s is not ready after %s: %s", k.Name, name, patience, p.last())
	case errors.Is(err, sandboxes.ErrNotFound):
		return exit.No.Errorf("%s %s was deleted while this command waited", k.Name, name)
	case err != nil:
		return err
	}
	return s.Show.Report(o.Report, k.text(s, o.Report))
}

// read returns a function that reads objects of a site.
func (k kind) read(at site.Site) sandboxes.Read {
	return func(ctx context.Context, name string) (sandboxes.Object, error) { return at.Object(ctx, k.Kind, name) }
}

// awaitGone waits until an object is deleted, and prints the reasons why it is not.
func (k kind) awaitGone(ctx context.Context, s *command.Session, at site.Site, there sandboxes.Object, patience time.Duration) error {
	p := progress{s: s, word: "waiting", since: s.Now(), patient: true}
	err := sandboxes.AwaitDeleted(ctx, k.read(at), there, sandboxes.Wait{For: patience, Request: s.Patiently, Shows: p.shows})
	if errors.Is(err, sandboxes.ErrLate) {
		return exit.No.Errorf("%s %s is not deleted after %s: %s", k.Name, there.Name, patience, p.last())
	}
	return err
}
