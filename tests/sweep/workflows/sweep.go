package workflows

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"switchyard.dev/reconcilers/resource"
	"switchyard.dev/tests/sweep/state"
)

// Golden is a run in which nothing went wrong.
type Golden struct {
	// ready and gone are the states once all was made, and once all was removed.
	ready, gone state.State
	// Writes is how many there were, by who wrote.
	Writes map[string]int
	// alive are those before which a pod lived, by their number among all.
	alive []int
}

// quiet is for how long nothing may change to be called at rest.
const quiet = time.Second

// Golden runs without faults.
func (w *World) Golden(ctx context.Context) (Golden, error) {
	r, end, err := w.start(ctx, Death{})
	if err == nil {
		var last state.State
		since := time.Now()
		err = r.play(ctx, func(after string, now state.State) error {
			if !maps.Equal(last, now) {
				last, since = now, time.Now()
			}
			if missing := whole(after, now); missing != nil || time.Since(since) < quiet {
				return errors.Join(missing, errors.New("it changes"))
			}
			return nil
		})
	}
	end()
	g := Golden{r.ready, r.gone, maps.Clone(r.writes), r.alive}
	if err == nil {
		var findings []string
		if findings, err = r.judged(); len(findings) > 0 {
			err = fmt.Errorf("without a fault: %q", findings)
		}
	}
	return g, errors.Join(err, w.wipe(ctx))
}

// whole returns why a state is not that of the end.
func whole(after string, s state.State) error {
	if after == afterRemoving {
		if len(s) > 0 {
			return fmt.Errorf("%q is left", sorted(s))
		}
		return nil
	}
	if !strings.HasPrefix(s["Resource "+name], resource.PhaseReady+"\n") {
		return fmt.Errorf("it is not ready: %s", s["Resource "+name])
	}
	return nil
}

// Result is what became of a run.
type Result struct {
	// Findings are the errors.
	Findings []string
	// Died is how many processes or pods died.
	Died int
	// Held is how many units waited for a person.
	Held int
}

// Run has a death happen in a run that is to come to the same end as the golden one. An error
// means that it could not be run.
func (w *World) Run(ctx context.Context, g Golden, d Death) (Result, error) {
	r, end, err := w.start(ctx, d)
	if err != nil {
		end()
		return Result{}, errors.Join(err, w.wipe(ctx))
	}
	var differences []string
	late := r.play(ctx, func(after string, now state.State) error {
		want := g.ready
		if after == afterRemoving {
			want = g.gone
		}
		if differences = want.Differences(now); len(differences) > 0 {
			return errors.New("it differs")
		}
		return nil
	})
	end()
	findings, err := r.judged()
	if late != nil {
		findings = append(append(findings, late.Error()), differences...)
	}
	return Result{findings, r.deaths(), len(r.held)}, errors.Join(err, ctx.Err(), w.wipe(ctx))
}

// deaths returns how many processes or pods died.
func (r *run) deaths() int {
	n := 0
	for _, a := range r.nodes.Attempts() {
		if a.Way != "" {
			n++
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.died && r.death.Who != Pods {
		n++
	}
	return n
}

// judged judges a run that has ended.
func (r *run) judged() ([]string, error) {
	lines, err := r.w.ledger.Lines()
	return judge(evidence{r.nodes.Attempts(), lines, r.held, r.death.Who == Pods}), err
}
