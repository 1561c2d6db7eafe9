package attempts_test

import (
	"testing"
	"time"

	"switchyard.dev/tunnels/attempts"
)

var (
	start = time.Date(2026, 11, 29, 9, 0, 0, 0, time.UTC)
	agent = attempts.Policy{
		Shortest: 100 * time.Millisecond, Longest: 30 * time.Second, Brisk: time.Second, Fresh: 10 * time.Minute,
		Patience: attempts.Endless, MaxGap: 10 * time.Second, FullJitter: true,
	}
)

// TestPausesAreShortForTheFirstMinutesOfAnOutage lets an outage last for 20 minutes, with the
// longest and with the shortest pauses that chance can choose.
func TestPausesAreShortForTheFirstMinutesOfAnOutage(t *testing.T) {
	for _, chance := range []float64{1, 0.5, 0} {
		m, now := attempts.New(agent), start
		m.Begin(now)
		m.Welcomed(now, 1)
		step, _ := m.Lost(now, 1, true, chance)
		for now.Before(start.Add(20 * time.Minute)) {
			pause, most := step.At.Sub(now), time.Second
			if now.Sub(start) >= 10*time.Minute {
				most = 30 * time.Second
			}
			if longest := time.Duration(chance * float64(most)); pause > longest {
				t.Fatalf("chance %g: a pause of %s after %s", chance, pause, now.Sub(start))
			}
			now = step.At.Add(time.Second) // the attempt
			step = m.Failed(now, m.Due(step.At).Dial, false, chance)
		}
	}
}

func TestAnEndlessClientNeverGivesUp(t *testing.T) {
	m := attempts.New(agent)
	m.Begin(start)
	if s := m.Failed(start.Add(time.Hour), 1, true, 1); s.End || s.At != start.Add(time.Hour+agent.Longest) {
		t.Errorf("a final failure gave %+v", s)
	}
}

func TestADeferredAttemptWaitsForItsTime(t *testing.T) {
	for chance, want := range map[float64]time.Duration{0: 4 * time.Minute, 1: 5 * time.Minute, 7: 5 * time.Minute} {
		m := attempts.New(agent)
		m.Begin(start)
		if s := m.Deferred(start, 1, 4*time.Minute, chance); s.At != start.Add(want) {
			t.Errorf("chance %g: %+v", chance, s)
		}
		if s := m.Due(start.Add(4*time.Minute - 1)); s.Dial != 0 {
			t.Errorf("it begins early: %+v", s)
		}
		if s := m.Due(start.Add(want)); s.Dial != 2 {
			t.Errorf("it does not begin: %+v", s)
		}
		if s := m.Deferred(start, 1, time.Minute, 0); s != (attempts.Step{}) {
			t.Errorf("a late failure gave %+v", s)
		}
	}
}
