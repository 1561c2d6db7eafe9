package sweep

import (
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"switchyard.dev/tests/background"
	"switchyard.dev/tests/sweep/life"
	"switchyard.dev/tests/sweep/wire"
)

var (
	seed    = flag.Uint64("seed", uint64(time.Now().UnixNano()), "`number` that all chances follow from")
	runs    = flag.Int("runs", 2, "runs of the stale sweep")
	logFile = flag.String("log", os.DevNull, "`file` for what managers log")
)

// logger is the log of managers.
var logger *slog.Logger

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	flag.Parse()
	file, err := os.Create(*logFile)
	if err != nil {
		slog.Error("cannot log", "error", err)
		return 1
	}
	defer file.Close()
	logger = slog.New(slog.NewTextHandler(file, nil))
	life.Quiet(logger)
	background.AtOnce(4)
	return m.Run()
}

// newWorld runs the test in parallel with others, in a world of its own: most of the time a test
// waits until controllers are at rest.
func newWorld(t *testing.T) *World {
	t.Helper()
	t.Parallel()
	world, err := NewWorld(t.Context(), logger)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := world.Close(); err != nil {
			t.Error(err)
		}
	})
	return world
}

// golden returns a golden run.
func golden(t *testing.T, world *World, s Scenario) Golden {
	t.Helper()
	g, err := world.Golden(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("without faults the scenario takes %d writes", g.Writes)
	return g
}

func TestAProcessThatDiesAtAnyWriteLeavesNothingWrong(t *testing.T) {
	world := newWorld(t)
	g := golden(t, world, Whole())
	// One death of each way, at a write of chance; make sweep has all of them.
	step := max(1, g.Writes)
	first := 1 + int(*seed%uint64(step))
	t.Logf("seed %d: a process dies at write %d of %d", *seed, first, step)
	for {
		out, err := Crashes{Ways: wire.Ways(), First: first, Step: step}.Run(t.Context(), world, g)
		if err != nil {
			t.Fatal(err)
		}
		// A slow machine joins writes, so these runs may have fewer than the golden one.
		if first > 1 && out.Lives <= out.Runs && len(out.Failures) == 0 {
			t.Logf("%d runs had no write %d", out.Runs, first)
			first /= 2
			continue
		}
		check(t, out)
		return
	}
}

func TestAProcessThatDiesLeavesNoForkRedirected(t *testing.T) {
	world := newWorld(t)
	if err := world.WithCaptures(); err != nil {
		t.Fatal(err)
	}
	g := golden(t, world, Recorded())
	at := 1 + int(*seed%uint64(g.Writes))
	way := wire.Ways()[*seed%3]
	t.Logf("seed %d: a process dies at write %d of %d, %s", *seed, at, g.Writes, way)
	out, err := Crashes{Ways: []wire.Way{way}, First: at, Step: g.Writes}.Run(t.Context(), world, g)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range out.Failures {
		t.Errorf("%s:\n%s", f.Name, strings.Join(f.Findings, "\n"))
	}
}

// The configuration of sidecars and meshes follows from the rules of the routing table and from Services alone.
func TestForksThatCanBeRecordedChangeNoRoute(t *testing.T) {
	world := newWorld(t)
	made := Recorded()[:1]
	without := golden(t, world, made).States[0]
	if err := world.WithCaptures(); err != nil {
		t.Fatal(err)
	}
	with := golden(t, world, made).States[0]
	var changed []string
	for name := range maps.Keys(with) {
		if with[name] != without[name] {
			changed = append(changed, name)
		}
		delete(without, name)
	}
	slices.Sort(changed)
	if len(without) > 0 || len(changed) != 1 || !strings.HasPrefix(changed[0], "Deployment sweep/sweep-b-") {
		t.Errorf("with the container that records, but without a capture, these are changed: %q, and these missing: %v", changed, without)
	}
}

// check fails the test for each run that failed.
func check(t *testing.T, o Outcome) {
	t.Helper()
	t.Logf("%d runs with %d managers", o.Runs, o.Lives)
	if len(o.Withdrawn) > 0 {
		t.Errorf("withdrawn from the log although they were wanted: %q", o.Withdrawn)
	}
	if o.Lives <= o.Runs {
		t.Error("no manager died")
	}
	for _, f := range o.Failures {
		t.Errorf("%s:\n%s", f.Name, strings.Join(f.Findings, "\n"))
	}
}

func TestOldCachesDoNoHarm(t *testing.T) {
	world := newWorld(t)
	g := golden(t, world, Again())
	t.Logf("seed %d", *seed)
	out, err := Stale{Runs: *runs, Seed: *seed, Late: 300 * time.Millisecond, Lives: 5}.Run(t.Context(), world, g)
	if err != nil {
		t.Fatal(err)
	}
	check(t, out)
}

func TestExpiredWatchesAndAKilledAPIServerHideNothing(t *testing.T) {
	t.Parallel()
	t.Logf("seed %d", *seed)
	for _, c := range []Churn{{Changes: 40, Kills: 2}, {Changes: 20, Kills: 1, Meshes: true}} {
		c.Pause, c.Sandboxes, c.Seed, c.Expire, c.Away = 100*time.Millisecond, 6, *seed, 2*time.Second, 500*time.Millisecond
		t.Run(fmt.Sprintf("meshes=%t", c.Meshes), func(t *testing.T) {
			r, err := c.Run(t.Context(), newWorld(t))
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Findings) > 0 {
				t.Error(strings.Join(r.Findings, "\n"))
			}
		})
	}
}

func TestSandboxesThatComeAndGoLeaveNothing(t *testing.T) {
	r, err := Cycles{Count: 30, AtOnce: 6}.Run(t.Context(), newWorld(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("memory in use: %.0f MiB, then %.0f MiB", r.Before, r.After)
	if len(r.Left) > 0 {
		t.Errorf("left: %q", r.Left)
	}
}
