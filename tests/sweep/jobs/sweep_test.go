package jobs

import (
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"switchyard.dev/tests/figures"
	"switchyard.dev/tests/process"
	"switchyard.dev/tests/runners"
	"switchyard.dev/tests/sweep/life"
	"switchyard.dev/tests/world"
	"switchyard.dev/tools/demo"
)

var (
	count   = flag.Int("jobs", 16, "`number` of jobs")
	every   = flag.Duration("every", 0, "`time` between two kills, until all jobs have ended; 0: after every second job")
	long    = flag.Duration("longest", 1500*time.Millisecond, "`time` that a script sleeps at most")
	seed    = flag.Uint64("seed", uint64(time.Now().UnixNano()), "`number` that decides about the kills")
	logFile = flag.String("log", os.DevNull, "`file` for the logs of managers, the agent and the control plane")
)

func TestMain(m *testing.M) {
	switch process.Role() {
	case planeRole:
		exit(servePlane())
	case agentRole:
		exit(serveAgent())
	}
	inside := demo.Inside() // the cluster: see serveNode
	flag.Parse()
	switch {
	case inside:
		os.Exit(m.Run())
	case *node:
		exit(serveNode())
	}
	file, err := os.Create(*logFile)
	if err != nil {
		exit(err)
	}
	logger = slog.New(slog.NewTextHandler(file, nil))
	life.Quiet(logger)
	world.Main(m, runners.Clean)
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// logger is that of managers.
var logger *slog.Logger

// everyNth is after how many jobs something is killed, unless -every is set.
const everyNth = 2

// TestJobsAreKilled submits jobs to a control plane and as objects, kills something all the time, and compares the
// statuses with the ledger.
func TestJobsAreKilled(t *testing.T) {
	s := newScene(t, nil)
	s.begin()
	s.plane = newPlane(s)
	s.groupsOfPlane()
	done := s.run()
	for _, part := range kills {
		if *count >= everyNth*len(kills) && done[part] == 0 {
			t.Errorf("no %s was killed", part)
		}
	}
	e := s.evidence()
	got := e.judge()
	for _, f := range got.findings {
		t.Error(f)
	}
	left := s.nothingIsLeft(world.Patience)
	if left != "" {
		t.Errorf("left over: %s", left)
	}
	figures.Text(os.Stdout, "jobs-false-successes", got.falseSuccesses, "jobs", fmt.Sprintf("0 of %d", *count), got.falseSuccesses == 0)
	figures.Text(os.Stdout, "jobs-wrong", len(got.findings), "findings", "0", len(got.findings) == 0)
	t.Logf("seed %d; killed: %v; of %d jobs %d were lost, %d ran again, and %d have no output in the control plane", *seed, done, *count, got.lost, got.again, got.unread)
}

// run submits all jobs, and kills something in the meantime. It returns the number of kills of each part.
func (s *scene) run() map[string]int {
	s.Helper()
	done, n := map[string]int{}, 0
	next := time.Now().Add(*every)
	for i := 0; i < *count || *every > 0 && len(s.unended()) > 0; i++ {
		if i < *count {
			s.submit(i)
		}
		s.pause(300 * time.Millisecond)
		if *every == 0 && i%everyNth != everyNth-1 || *every > 0 && time.Now().Before(next) {
			continue
		}
		next = time.Now().Add(*every)
		part := kills[n%len(kills)]
		n++
		if s.kill(part) {
			done[part]++
		}
		if n%20 == 0 {
			s.Logf("%d kills, %d of %d jobs have not ended", n, len(s.unended()), len(s.asked))
		}
	}
	return done
}

// TestPlantedFaultsAreFound has managers with faults, one for each job, which must be reported, and nothing else.
func TestPlantedFaultsAreFound(t *testing.T) {
	plant := newPlant()
	s := newScene(t, plant)
	s.begin()
	s.groupsOfObjects()
	for i, fault := range []string{invents, repeats, stops} {
		name := s.sleeps(s.groups[0])
		plant.is(s.job(name).UID, fault)
		s.Eventually(fmt.Sprintf("job %d runs", i), func() error { return s.begun(name, 1) })
	}
	s.kill(killManager)
	stopped := s.with(plant, stops)
	s.Eventually("a job is stopped by the manager", func() error { return s.terminated(stopped) })
	for _, fault := range []string{invents, repeats} {
		s.strike(killExecutor, "signadot.com/assigned-job="+string(s.job(s.with(plant, fault)).UID))
	}
	e := s.evidence()
	got := e.judge()
	all := strings.Join(got.findings, "\n")
	for fault, finding := range map[string]string{
		invents: "it succeeded, and its script has not done its work",
		repeats: "its script has begun 2 times, and its status has 1 executions",
		stops:   "nothing of its pod",
	} {
		if name := s.with(plant, fault); !strings.Contains(lineOf(all, name), finding) {
			t.Errorf("%s: job %s: %q is not found in:\n%s", fault, name, finding, all)
		}
	}
	if len(got.findings) != 3 || got.falseSuccesses != 1 {
		t.Errorf("%d false successes; findings:\n%s", got.falseSuccesses, all)
	}
	s.Make(podOf(s.ns), "spec: {containers: [{name: main, image: i}]}")
	if left := s.nothingIsLeft(0); !strings.Contains(left, "Pod forgotten") {
		t.Errorf("a pod that is forgotten is not found in %q", left)
	}
	s.Remove(podOf(s.ns))
	if left := s.nothingIsLeft(world.Patience); left != "" {
		t.Errorf("left over: %s", left)
	}
}

// lineOf returns the lines of a text with a word.
func lineOf(text, word string) string {
	var out []string
	for line := range strings.Lines(text) {
		if strings.Contains(line, word) {
			out = append(out, line)
		}
	}
	return strings.Join(out, "")
}
