package sweep

import (
	"context"
	"fmt"

	"switchyard.dev/tests/sweep/wire"
)

// Failure is a run that did not end as the golden one.
type Failure struct {
	// Name describes the fault, so that it can be repeated.
	Name string
	// Findings are the differences.
	Findings []string
}

// Outcome is what became of many runs.
type Outcome struct {
	// Runs is how many there were, Lives how many managers.
	Runs, Lives int
	// Withdrawn are keys that were taken back from the log, for a while, although they
	// were wanted.
	Withdrawn []string
	// Failures are those that did not end as they should.
	Failures []Failure
}

// add adds a run.
func (o *Outcome) add(name string, r Result) {
	o.Runs++
	o.Lives += r.Lives
	if len(r.Findings) > 0 {
		o.Failures = append(o.Failures, Failure{name, r.Findings})
	}
	for _, key := range r.Withdrawn {
		o.Withdrawn = append(o.Withdrawn, name+": "+key)
	}
}

// Crashes are runs of which each dies once.
type Crashes struct {
	// Ways are how.
	Ways []wire.Way
	// First is the first write at which one dies, Step how far apart they are.
	First, Step int
	// Report is called after each run; can be nil.
	Report func(run string, r Result)
}

// Run runs them all, up to the last write of the golden run.
func (c Crashes) Run(ctx context.Context, w *World, g Golden) (Outcome, error) {
	var out Outcome
	for _, way := range c.Ways {
		for at := c.First; at <= g.Writes; at += c.Step {
			name := fmt.Sprintf("write %d %s", at, way)
			result, err := w.Run(ctx, g, func(n int) wire.Faults {
				if n > 0 {
					return wire.Faults{}
				}
				return wire.Faults{DieAt: at, Way: way}
			})
			if err != nil {
				return out, fmt.Errorf("%s: %w", name, err)
			}
			out.add(name, result)
			if c.Report != nil {
				c.Report(name, result)
			}
		}
	}
	return out, nil
}
