package sweep

import (
	"context"
	"errors"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tests/sweep/recorded"
)

// Recorded is a scenario in which the requests of a fork are recorded, in a World WithCaptures.
func Recorded() Scenario {
	return Scenario{
		{"a sandbox is made", func(ctx context.Context, w *World) error { return w.make(ctx, sandboxB) }},
		{"its fork is recorded", func(ctx context.Context, w *World) error {
			return errors.Join(w.make(ctx, recorded.Capture), recorded.Ready(ctx, w.people, w.patience))
		}},
		{"everything goes", func(ctx context.Context, w *World) error {
			return errors.Join(recorded.Remove(ctx, w.people), w.remove(ctx, &crdv1.SignadotSandbox{}, "sweep-b"), recorded.Removed(ctx, w.people, w.patience))
		}},
	}
}

// WithCaptures has managers from now on put the container that records requests into forks.
func (w *World) WithCaptures() (err error) {
	w.captures, err = recorded.Settings(w.people)
	return err
}
