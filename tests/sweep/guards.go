package sweep

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tests/sweep/wire"
	"switchyard.dev/tools/wait"
)

// Trap is a course of events that does harm when a guard is missing.
type Trap struct {
	// Short names it in a figure, and Name describes it.
	Short, Name string
	// Guard is what keeps it from doing harm; empty when that cannot be taken away.
	Guard wire.Guard
	// run makes the scenario, and the snapshot with which its second manager begins.
	run func() (Scenario, func(resource string) string)
}

// Traps returns one for each guard.
func Traps() []Trap {
	return []Trap{
		{"lives-again", "an old cache shows the end of a sandbox whose name lives again", wire.Preconditions, livesAgain},
		{"goes-unseen", "an old cache does not show what a sandbox that goes has made", wire.LiveReads, goesUnseen},
		{"goes-unnoticed", "objects go while no manager runs", wire.Withdrawals, goesUnnoticed},
		{"gone-again", "an old cache shows a sandbox that is gone, and nothing of what it had made", wire.LiveReads, goneAgain},
		{"had-before", "an old cache shows somebody else with the key of a sandbox", "", hadBefore},
	}
}

// late is the delay of the events that would bring an old cache up to date.
const late = 1500 * time.Millisecond

// delays returns the delays with which a trap is sprung without its guard, until harm is seen: on a
// busy machine a manager acts later, and must not have received the events by then.
func delays() []time.Duration { return []time.Duration{late, 4 * late, 16 * late} }

// seen is how long a run without a guard may take to reach the right end, which it should not,
// after the delayed events.
const seen = 8 * time.Second

// Golden runs what happens in the trap without faults.
func (t Trap) Golden(ctx context.Context, w *World) (Golden, error) {
	scenario, _ := t.run()
	g, err := w.Golden(ctx, scenario)
	if err != nil {
		return g, fmt.Errorf("%s, without faults: %w", t.Name, err)
	}
	return g, nil
}

// Spring runs the trap, with the guard or without, and returns the differences from its golden
// run.
func (t Trap) Spring(ctx context.Context, w *World, g Golden, guarded bool) ([]string, error) {
	if guarded {
		return t.spring(ctx, w, g, "")
	}
	defer func() { w.patience, w.late = patience, late }()
	for _, w.late = range delays() {
		w.patience = w.late + seen
		if findings, err := t.spring(ctx, w, g, t.Guard); err != nil || len(findings) > 0 {
			return findings, err
		}
	}
	return nil, nil
}

// spring runs the trap once, without a guard if one is named.
func (t Trap) spring(ctx context.Context, w *World, g Golden, without wire.Guard) ([]string, error) {
	scenario, snapshot := t.run()
	g.Scenario = scenario
	late := w.late
	result, err := w.Run(ctx, g, func(n int) wire.Faults {
		if n == 0 {
			return wire.Faults{}
		}
		return wire.Faults{Snapshot: snapshot, Delay: func(string) time.Duration { return late }, Without: without}
	})
	for _, key := range result.Withdrawn {
		result.Findings = append(result.Findings, "withdrawn from the log although it is wanted: "+key)
	}
	return result.Findings, err
}

// exchange kills the manager, and waits until its successor has finished all work. between is
// called while none runs.
func (w *World) exchange(ctx context.Context, between func() error) error {
	w.mu.Lock()
	before := len(w.lives)
	last := w.lives[before-1]
	var failed error
	w.between = func() { failed = between() }
	w.mu.Unlock()
	last.Gate.Kill()
	err := wait.Until(ctx, patience, "the next manager begins", func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.lives) == before {
			return errors.New("it has not begun")
		}
		return w.lives[before].Main.LogReady()
	})
	_ = wait.For(ctx, 2*w.late) // Delayed events have arrived then.
	return errors.Join(err, failed)
}

// livesAgain: a sandbox goes, one of its name comes, and the next manager's caches
// show the first one going.
func livesAgain() (Scenario, func(string) string) {
	going := 0
	return Scenario{
		{"everything is made", makeAll},
		{"a sandbox goes", func(ctx context.Context, w *World) error {
			err := w.remove(ctx, &crdv1.SignadotSandbox{}, "sweep-b")
			going = w.revision(ctx)
			return err
		}},
		{"another one of its name comes", func(ctx context.Context, w *World) error { return w.make(ctx, sandboxB) }},
		{"a manager with old caches begins", func(ctx context.Context, w *World) error {
			return w.exchange(ctx, func() error { return nil })
		}},
		{"everything goes", removeAll},
	}, func(string) string { return fmt.Sprint(going) }
}

// goesUnseen: a sandbox is deleted, and the next manager's caches show none of the objects made
// for it.
func goesUnseen() (Scenario, func(string) string) {
	empty := 0
	return Scenario{
			{"everything is made", func(ctx context.Context, w *World) error {
				empty = w.revision(ctx)
				return makeAll(ctx, w)
			}},
			{"a sandbox goes while no manager runs", func(ctx context.Context, w *World) error {
				return w.exchange(ctx, func() error { return w.remove(ctx, &crdv1.SignadotSandbox{}, "sweep-b") })
			}},
			{"everything goes", removeAll},
		}, func(resource string) string {
			if resource == "signadotsandboxes" {
				return ""
			}
			return fmt.Sprint(empty)
		}
}

// goneAgain: a sandbox is deleted, and the next manager's caches show it as it was, and none of
// the objects made for it.
func goneAgain() (Scenario, func(string) string) {
	var empty, asked int
	return Scenario{
			{"everything is made", func(ctx context.Context, w *World) error {
				empty = w.revision(ctx)
				return makeAll(ctx, w)
			}},
			{"a sandbox goes", func(ctx context.Context, w *World) error {
				asked = w.revision(ctx)
				return w.remove(ctx, &crdv1.SignadotSandbox{}, "sweep-b")
			}},
			{"a manager with old caches begins", func(ctx context.Context, w *World) error {
				return w.exchange(ctx, func() error { return nil })
			}},
			{"everything goes", removeAll},
		}, func(resource string) string {
			if resource == "signadotsandboxes" {
				return fmt.Sprint(asked)
			}
			return fmt.Sprint(empty)
		}
}

const rival = `
apiVersion: signadot.com/v1
kind: SignadotRouteGroup
metadata: {name: sweep-rival}
spec: {routingKey: sweep-b-key, sandboxNames: []}
`

// hadBefore: a route group goes, a sandbox comes that has its key, and the next
// manager's caches show the group with the key.
func hadBefore() (Scenario, func(string) string) {
	had := 0
	return Scenario{
			{"a group comes", func(ctx context.Context, w *World) error { return w.make(ctx, rival) }},
			{"it goes", func(ctx context.Context, w *World) error {
				had = w.revision(ctx)
				return w.remove(ctx, &crdv1.SignadotRouteGroup{}, "sweep-rival")
			}},
			{"everything is made", makeAll},
			{"a manager with old caches begins", func(ctx context.Context, w *World) error {
				return w.exchange(ctx, func() error { return nil })
			}},
			{"everything goes", removeAll},
		}, func(resource string) string {
			if resource != "signadotroutegroups" && resource != "routingconfigs" {
				return ""
			}
			return fmt.Sprint(had)
		}
}

// goesUnnoticed: a user removes a sandbox and all its objects, with their finalizers, while no
// manager runs.
func goesUnnoticed() (Scenario, func(string) string) {
	return Scenario{
		{"everything is made", makeAll},
		{"a sandbox is taken away while no manager runs", func(ctx context.Context, w *World) error {
			return w.exchange(ctx, func() error { return w.takeAway(ctx, "sweep-b") })
		}},
		{"everything goes", removeAll},
	}, nil
}

// takeAway takes away a sandbox and all that it owns, directly or not.
func (w *World) takeAway(ctx context.Context, sandbox string) error {
	objects, err := w.objects(ctx)
	if err != nil {
		return err
	}
	gone := map[string]bool{}
	doomed := func(o *unstructured.Unstructured) bool {
		if o.GetKind() == crdv1.KindSandbox && o.GetName() == sandbox {
			return true
		}
		for _, ref := range o.GetOwnerReferences() {
			if gone[string(ref.UID)] {
				return true
			}
		}
		return false
	}
	for range 3 { // As deep as owners go.
		for i := range objects {
			if doomed(&objects[i]) {
				gone[string(objects[i].GetUID())] = true
			}
		}
	}
	for i := range objects {
		if gone[string(objects[i].GetUID())] {
			err = errors.Join(err, w.destroy(ctx, &objects[i]))
		}
	}
	return err
}
