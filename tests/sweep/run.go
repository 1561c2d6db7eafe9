package sweep

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/memory"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/meshes/gatewayapi"
	"switchyard.dev/reconcilers/meshes/istio"
	"switchyard.dev/tests/sweep/life"
	"switchyard.dev/tests/sweep/state"
	"switchyard.dev/tests/sweep/wire"
	"switchyard.dev/tools/wait"
)

// Golden is a run in which nothing went wrong.
type Golden struct {
	Scenario Scenario
	// States are those after each step.
	States []state.State
	// Writes is how many writes the manager needed.
	Writes int
	// before is what had been done before the last step.
	before account
}

// account is what managers have done so far.
type account struct {
	objects map[string]wire.Lives
	stated  map[event.Key][]wire.Statement
}

// quiet is for how long there must be no write until the state is at rest: when the result is
// unknown, and when it is known.
const (
	quietUnknown = 2 * time.Second
	quietKnown   = 300 * time.Millisecond
)

// readPause is between two readings of the State, each of which lists every kind: that is most of
// what a run costs the API server.
const readPause = 200 * time.Millisecond

// Golden runs the scenario without faults.
func (w *World) Golden(ctx context.Context, s Scenario) (Golden, error) {
	g := Golden{Scenario: s}
	end, err := w.start(ctx, func(int) wire.Faults { return wire.Faults{} })
	if err == nil {
		for i, step := range s {
			if i == len(s)-1 {
				g.before = w.account()
			}
			var after state.State
			if after, err = w.golden(ctx, step); err != nil {
				break
			}
			g.States = append(g.States, after)
			if i > 0 {
				continue
			}
			if err = w.ready(ctx); err != nil {
				err = fmt.Errorf("%s: %w", step.name, err)
				break
			}
		}
		g.Writes = w.writes()
	}
	end()
	return g, errors.Join(err, w.wipe(ctx))
}

// golden takes one step and returns the State once there are no more writes.
func (w *World) golden(ctx context.Context, s step) (state.State, error) {
	if err := s.do(ctx, w); err != nil {
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	var last state.State
	since := time.Now()
	err := wait.Until(ctx, patience, s.name+": come to rest", func() error {
		_ = wait.For(ctx, readPause)
		now, err := w.state(ctx)
		if err != nil {
			return err
		}
		if !maps.Equal(last, now) {
			last, since = now, time.Now()
		}
		if err := w.begun(); err != nil {
			return err
		}
		if time.Since(since) < quietUnknown {
			return errors.New("it changes")
		}
		return nil
	})
	return last, err
}

// begun returns the reason why the last manager has not started to work.
func (w *World) begun() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lives[len(w.lives)-1].Main.LogReady()
}

// unrouted are the condition reasons of meshes for Services that users route by another mesh, or by
// none.
var unrouted = map[any]bool{istio.ReasonNoVirtualService: true, gatewayapi.ReasonNoRoute: true}

// ready returns which of our objects is not ready: a run in which one is shows little.
func (w *World) ready(ctx context.Context) error {
	objects, err := w.objects(ctx)
	if err != nil {
		return err
	}
	for _, o := range objects {
		conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
		for _, c := range conditions {
			if c, ok := c.(map[string]any); ok && c["type"] == crdv1.ConditionReady && c["status"] != "True" && !unrouted[c["reason"]] {
				err = errors.Join(err, fmt.Errorf("%s is not ready: %v", state.Name(&o), c["message"]))
			}
		}
	}
	return err
}

// Result is what became of a run.
type Result struct {
	// Findings are the differences from the golden run.
	Findings []string
	// Withdrawn are keys that were taken back from the log, for a while, although they
	// were wanted.
	Withdrawn []string
	// Lives is how many managers there were.
	Lives int
}

// Run runs the scenario of a golden run again, with faults, which are those of the
// n-th manager, from 0; the next one begins when one has died. An error means that it
// could not be run.
func (w *World) Run(ctx context.Context, g Golden, faults func(n int) wire.Faults) (Result, error) {
	var r Result
	end, err := w.start(ctx, faults)
	if err == nil {
		r.Findings, r.Withdrawn, err = w.steps(ctx, g)
	}
	r.Lives = end()
	return r, errors.Join(err, w.wipe(ctx))
}

// steps takes the steps of a run, up to the first after which the State is not right.
func (w *World) steps(ctx context.Context, g Golden) (findings, withdrawn []string, err error) {
	for i, step := range g.Scenario {
		if i == len(g.Scenario)-1 {
			done := w.account()
			withdrawn = flaps(g, done)
			if findings = judge(g, done); len(findings) > 0 {
				return findings, withdrawn, nil
			}
		}
		if err := step.do(ctx, w); err != nil {
			return nil, withdrawn, fmt.Errorf("%s: %w", step.name, err)
		}
		if findings = w.settle(ctx, g.States[i]); len(findings) > 0 {
			return append([]string{"after " + step.name}, findings...), withdrawn, ctx.Err()
		}
	}
	return nil, withdrawn, nil
}

// settle waits until the State is as it should be and there are no more writes, and returns the
// differences if that takes too long.
func (w *World) settle(ctx context.Context, want state.State) []string {
	findings := []string{"the managers write and write"}
	writes, since := -1, time.Now()
	err := wait.Until(ctx, w.patience, "come to rest", func() error {
		if n := w.writes(); n != writes {
			writes, since = n, time.Now()
		}
		if time.Since(since) < quietKnown {
			return errors.New("the managers write")
		}
		have, err := w.state(ctx)
		if err != nil {
			findings = []string{err.Error()}
			return err
		}
		if findings = want.Differences(have); len(findings) > 0 {
			_ = wait.For(ctx, readPause)
			return errors.New("it differs")
		}
		return nil
	})
	if err == nil {
		return nil
	}
	return findings
}

// judge compares an account with the golden run.
func judge(g Golden, have account) []string {
	var out []string
	for _, path := range slices.Sorted(maps.Keys(have.objects)) {
		lives, want := have.objects[path], g.before.objects[path]
		switch {
		case len(want.Made) == 0 && len(lives.Made) > 0:
			out = append(out, "created without a request: "+path)
		case len(lives.Made) > len(want.Made):
			out = append(out, fmt.Sprintf("made %d times, not %d: %s", len(lives.Made), len(want.Made), path))
		case len(want.Made) > len(want.Deleted) && len(lives.Deleted) > len(want.Deleted):
			out = append(out, "deleted although it is wanted: "+path)
		}
	}
	return out
}

// flaps returns the keys of the log that were withdrawn although they are wanted: from their
// present owner. A statement for a previous owner may have been withdrawn. Each comes with all
// its statements.
func flaps(g Golden, have account) []string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(have.stated)) {
		if _, wanted := g.States[len(g.States)-2]["fact "+string(key)]; wanted && takenBack(have.stated[key]) {
			out = append(out, fmt.Sprintf("%s: %s", key, have.stated[key]))
		}
	}
	return out
}

// takenBack reports whether a key was withdrawn from the owner that it has at the end.
func takenBack(all []wire.Statement) bool {
	stood := slices.DeleteFunc(slices.Clone(all), func(s wire.Statement) bool { return s.Withdrawn })
	if len(stood) == 0 {
		return false
	}
	present := stood[len(stood)-1].Owner
	for i, s := range all {
		if s.Withdrawn && i > 0 && !all[i-1].Withdrawn && all[i-1].Owner == present {
			return true
		}
	}
	return false
}

// account returns the account so far.
func (w *World) account() account {
	return account{w.ledger.Objects(), w.ledger.Stated()}
}

// start begins a run: it creates the users' objects, and starts the rest of the cluster and one
// manager after the other. end stops all of that and returns the number of managers.
func (w *World) start(ctx context.Context, faults func(n int) wire.Faults) (end func() int, err error) {
	w.store, w.ledger = memory.NewStore(), wire.NewLedger()
	if err := w.settleIn(ctx); err != nil {
		return func() int { return 0 }, err
	}
	ctx, cancel := context.WithCancel(ctx)
	worked, lived := make(chan struct{}), make(chan int, 1)
	go func() {
		defer close(worked)
		w.work(ctx)
	}()
	first, err := w.begin(ctx, faults(0))
	if err != nil {
		cancel()
		return func() int { return 0 }, err
	}
	go func() { lived <- w.succeed(ctx, first, faults) }()
	return func() int {
		cancel()
		<-worked
		return <-lived
	}, nil
}

// succeed begins a manager whenever one has died, until ctx ends, and returns how many
// there were.
func (w *World) succeed(ctx context.Context, l *life.Life, faults func(n int) wire.Faults) int {
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return n
		case <-l.Gate.Dead():
		}
		l.End()
		w.mu.Lock()
		between := w.between
		w.between = nil
		w.mu.Unlock()
		if between != nil {
			between()
		}
		next, err := w.begin(ctx, faults(n))
		if err != nil {
			if ctx.Err() == nil {
				w.logger.Error("no manager takes over", "error", err)
			}
			return n
		}
		l = next
	}
}
