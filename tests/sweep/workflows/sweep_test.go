package workflows

import (
	"context"
	"flag"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"switchyard.dev/tests/sweep/life"
	"switchyard.dev/tests/sweep/wire"
)

var (
	seed    = flag.Uint64("seed", uint64(time.Now().UnixNano()), "`number` that says at which writes somebody dies")
	logFile = flag.String("log", os.DevNull, "`file` for what managers log")
)

func newWorld(t *testing.T) *World {
	t.Helper()
	file, err := os.Create(*logFile)
	if err != nil {
		t.Fatal(err)
	}
	logger := slog.New(slog.NewTextHandler(file, nil))
	life.Quiet(logger)
	w, err := NewWorld(context.Background(), logger)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		_ = file.Close()
	})
	return w
}

// TestAFinishedUnitIsNeverRunAgain has each kind of death happen once.
func TestAFinishedUnitIsNeverRunAgain(t *testing.T) {
	w := newWorld(t)
	g, err := w.Golden(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("seed %d; without faults there are %v writes", *seed, g.Writes)
	deaths := g.Some(*seed)
	out, err := w.Sweep(t.Context(), g, deaths, func(d Death, r Result) {
		t.Logf("%s; died: %d, held: %d", d, r.Died, r.Held)
		if len(r.Findings) > 0 {
			t.Errorf("%s:\n%s", d, strings.Join(r.Findings, "\n"))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if out.Spared > len(deaths)/2 {
		t.Errorf("in %d of %d runs nobody died", out.Spared, len(deaths))
	}
	if t.Failed() {
		return
	}
	// What makes it count: with a guard missing the same run goes wrong.
	d := Death{Who: Manager, At: g.Writes[Manager] / 2, Way: string(Old), Without: wire.Preconditions}
	var r Result
	for range tries {
		if r, err = w.Run(t.Context(), g, d); err != nil {
			t.Fatal(err)
		}
		if len(r.Findings) > 0 {
			t.Logf("%s, without %s, %q is found", d, d.Without, r.Findings)
			return
		}
	}
	t.Errorf("%s, without %s: nothing is found", d, d.Without)
}

// tries is how often a guard is left out, at most, until harm is seen: a manager that starts
// slowly receives events before it acts.
const tries = 3
