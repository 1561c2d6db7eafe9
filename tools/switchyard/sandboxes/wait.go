package sandboxes

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/switchyard/show"
)

// pollEvery is how long a command waits before it reads an object again.
const pollEvery = time.Second

// quiet is how long the operator's first report, or a deletion, can take before a command prints what
// it waits for.
const quiet = 2 * time.Second

// reasonResourceFailed is the reason of a sandbox that will not become ready.
const reasonResourceFailed = "ResourceFailed"

// progress prints what a command waits for, each state once.
type progress struct {
	s      *command.Session
	word   string // before the state, such as "not ready"
	since  time.Time
	status status
	// patient: no state is printed before quiet has passed.
	patient bool
}

// shows notes a state and prints it if it is new.
func (p *progress) shows(now status) {
	if now.Message == p.status.Message || (now.unobserved || p.patient) && p.s.Now().Sub(p.since) < quiet {
		return
	}
	p.status = now
	_, _ = fmt.Fprintln(p.s.Err, show.Indented(p.word+": "+now.Message))
}

// last returns the message of the last state, for an error.
func (p *progress) last() string {
	if p.status.Message == "" {
		return unobserved
	}
	return show.Indented(p.status.Message)
}

// awaitReady waits until an object is ready in the form in which it was written, and prints what
// it waits for.
func (k kind) awaitReady(ctx context.Context, s *command.Session, cluster client.Client, written crdv1.Object, patience time.Duration) error {
	p := progress{s: s, word: "not ready", since: s.Now()}
	o, err := k.watched(ctx, s, cluster, written, patience, func(o crdv1.Object) (done bool, err error) {
		now := k.report(o).state()
		switch {
		case o.GetUID() != written.GetUID():
			return true, exit.No.Errorf("%s %s was deleted and created again while this command waited", k.what, o.GetName())
		case o.GetDeletionTimestamp() != nil:
			return true, exit.No.Errorf("%s %s is being deleted: wait for that with %s %s delete %s", k.what, o.GetName(), s.Name, k.command, o.GetName())
		case now.Ready:
			return true, nil
		case now.Reason == reasonResourceFailed:
			return true, exit.No.Errorf("%s %s will not become ready: %s", k.what, o.GetName(), show.Indented(now.Message))
		}
		p.shows(now)
		return false, nil
	})
	switch {
	case errors.Is(err, errImpatient):
		return exit.No.Errorf("%s %s is not ready after %s: %s", k.what, written.GetName(), patience, p.last())
	case apierrors.IsNotFound(err):
		return exit.No.Errorf("%s %s was deleted while this command waited", k.what, written.GetName())
	case err != nil:
		return err
	}
	r := k.report(o)
	return s.Show.Report(r, r.text(s))
}

// awaitGone waits until an object is deleted, and prints the reasons why it is not.
func (k kind) awaitGone(ctx context.Context, s *command.Session, cluster client.Client, there crdv1.Object, patience time.Duration) error {
	p := progress{s: s, word: "waiting", since: s.Now(), patient: true}
	_, err := k.watched(ctx, s, cluster, there, patience, func(o crdv1.Object) (done bool, err error) {
		if o.GetUID() == there.GetUID() {
			p.shows(k.report(o).state())
		}
		return o.GetUID() != there.GetUID(), nil
	})
	switch {
	case errors.Is(err, errImpatient):
		return exit.No.Errorf("%s %s is not deleted after %s: %s", k.what, there.GetName(), patience, p.last())
	case apierrors.IsNotFound(err):
		return nil
	}
	return err
}

// errImpatient: it took too long.
var errImpatient = errors.New("it took too long")

// watched reads an object again and again until done returns true, or it took too long.
func (k kind) watched(ctx context.Context, s *command.Session, cluster client.Client, like crdv1.Object, patience time.Duration,
	done func(crdv1.Object) (bool, error)) (crdv1.Object, error) {
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		o := k.definition().New()
		one, cancel := s.Patiently(ctx)
		err := cluster.Get(one, client.ObjectKeyFromObject(like), o)
		cancel()
		if err != nil {
			return nil, k.refused("read", like.GetName(), err)
		}
		if ended, err := done(o); ended || err != nil {
			return o, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-late.C:
			return o, errImpatient
		case <-time.After(pollEvery):
		}
	}
}
