// Package sensitivity proves that the sweep finds faults: with one guard of the controllers
// disabled, each trap of package sweep must report a violation, and none with the guard enabled.
// make test runs it when it or the controllers have changed since the last make test-all.
package sensitivity

import (
	"log/slog"
	"strings"
	"testing"

	"switchyard.dev/tests/sweep"
	"switchyard.dev/tests/sweep/life"
)

func TestTheSweepReportsADisabledGuard(t *testing.T) {
	logger := slog.New(slog.DiscardHandler)
	life.Quiet(logger)
	world, err := sweep.NewWorld(t.Context(), logger)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := world.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, trap := range sweep.Traps() {
		t.Run(trap.Short, func(t *testing.T) {
			golden, err := trap.Golden(t.Context(), world)
			if err != nil {
				t.Fatal(err)
			}
			spring(t, world, trap, golden, true)
			if trap.Guard != "" {
				spring(t, world, trap, golden, false)
			}
		})
	}
}

// spring runs the trap, and fails unless findings are reported exactly when the guard is disabled.
func spring(t *testing.T, world *sweep.World, trap sweep.Trap, golden sweep.Golden, guarded bool) {
	t.Helper()
	findings, err := trap.Spring(t.Context(), world, golden, guarded)
	if err != nil {
		t.Fatal(err)
	}
	report := t.Logf
	if guarded != (len(findings) == 0) {
		report = t.Errorf
	}
	report("%s; guarded %t; found:\n%s", trap.Name, guarded, strings.Join(findings, "\n"))
}
