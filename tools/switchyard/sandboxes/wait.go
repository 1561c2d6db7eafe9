package sandboxes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/switchyard/show"
	"switchyard.dev/workflows/sandboxes"
)

// quiet is how long the operator's first report, or a deletion, can take before a command prints what
// it waits for.
const quiet = 2 * time.Second

// progress prints what a command waits for, each state once.
type progress struct {
	s      *command.Session
	word   string // before the state, such as "not ready"
	since  time.Time
	status sandboxes.Status
	// patient: no state is printed before quiet has passed.
	patient bool
}

// shows notes a state and prints it if it is new.
func (p *progress) shows(now sandboxes.Status) {
	if now.Message == p.status.Message || (now.Unobserved || p.patient) && p.s.Now().Sub(p.since) < quiet {
		return
	}
	p.status = now
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
func (k kind) awaitReady(ctx context.Context, s *command.Session, cluster client.Client, written crdv1.Object, patience time.Duration) error {
	p := progress{s: s, word: "not ready", since: s.Now()}
	o, err := k.AwaitReady(ctx, cluster, written, sandboxes.Wait{For: patience, Request: s.Patiently, Shows: p.shows})
	name, failed := written.GetName(), sandboxes.Failed("")
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
	r := k.Report(o)
	return s.Show.Report(r, k.text(s, r))
}

// awaitGone waits until an object is deleted, and prints the reasons why it is not.
func (k kind) awaitGone(ctx context.Context, s *command.Session, cluster client.Client, there crdv1.Object, patience time.Duration) error {
	p := progress{s: s, word: "waiting", since: s.Now(), patient: true}
	err := k.AwaitDeleted(ctx, cluster, there, sandboxes.Wait{For: patience, Request: s.Patiently, Shows: p.shows})
	if errors.Is(err, sandboxes.ErrLate) {
		return exit.No.Errorf("%s %s is not deleted after %s: %s", k.Name, there.GetName(), patience, p.last())
	}
	return err
}
