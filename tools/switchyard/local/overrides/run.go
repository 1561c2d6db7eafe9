package overrides

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/wake"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/switchyard/local/localenv"
	"switchyard.dev/tools/switchyard/show"
)

// pollEvery is the pause between two reads of a sandbox.
const pollEvery = time.Second

// Run is an override that was added to a sandbox.
type Run struct {
	Override
	Session *command.Session
	Cluster client.WithWatch
	said    string
}

// Print writes a line for the user, unless it is the last one.
func (r *Run) Print(line string) {
	if line != r.said {
		_, _ = io.WriteString(r.Session.Err, show.Line(line)+"\n")
	}
	r.said = line
}

// Await waits until the sandbox is ready with the override. It returns nil too when ctx ends.
func (r *Run) Await(ctx context.Context, within time.Duration) error {
	for until := time.Now().Add(within); ; {
		now, is, err := r.look(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			r.Print(err.Error())
		case !is:
			return exit.No.Errorf("the override was removed from sandbox %s", r.Sandbox)
		case crdv1.IsTrue(now.Status.Conditions, crdv1.ConditionReady, now.Generation):
			r.Print(fmt.Sprintf("active: requests of sandbox %s to port %d of %s are sent to %s first", r.Sandbox, r.Port, r.Workload, r.With))
			return nil
		default:
			if c := crdv1.FindCondition(now.Status.Conditions, crdv1.ConditionReady); c != nil && c.Status == "True" {
				r.Print("waiting for sandbox " + r.Sandbox + ": the operator has not seen the override yet.")
			} else if c != nil {
				r.Print("waiting for sandbox " + r.Sandbox + ": " + c.Message)
			}
		}
		if time.Now().After(until) {
			return exit.No.Errorf("sandbox %s is not ready with the override within %s", r.Sandbox, within)
		}
		wake.Sleep(ctx, pollEvery)
	}
}

// Removed waits until the override is not in the sandbox any more, or ctx ends.
func (r *Run) Removed(ctx context.Context) {
	for wake.Sleep(ctx, pollEvery) {
		if _, is, err := r.look(ctx); err == nil && !is {
			r.Print("the override was removed from sandbox " + r.Sandbox)
			return
		}
	}
}

// Remove removes the override, if it is there.
func (r *Run) Remove(ctx context.Context) error {
	found := false
	err := Change(ctx, r.Session, r.Cluster, r.Sandbox, func(o *crdv1.SignadotSandbox) error {
		found = Remove(o, r.Name)
		return nil
	})
	if err != nil {
		return fmt.Errorf("override %s stays in sandbox %s; %s override delete %s --sandbox %s removes it: %w", r.Name, r.Sandbox, r.Session.Name, r.Name, r.Sandbox, err)
	}
	if found {
		r.Print(fmt.Sprintf("override %s is removed from sandbox %s", r.Name, r.Sandbox))
	}
	return nil
}

// look reads the sandbox, and reports whether it has the override.
func (r *Run) look(ctx context.Context) (now *crdv1.SignadotSandbox, is bool, err error) {
	ctx, cancel := r.Session.Patiently(ctx)
	defer cancel()
	if now, err = localenv.Sandbox(ctx, r.Cluster, r.Sandbox); err != nil {
		return nil, false, err
	}
	return now, slices.ContainsFunc(List(now), func(o Override) bool { return o.Name == r.Name }), nil
}
