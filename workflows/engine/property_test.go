package engine_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/workflows/engine"
	"switchyard.dev/workflows/execunit"
)

// cluster is one in which managers die at any write, read old statuses, and make pods that are
// never recorded; in which pods are evicted, and a script runs only where the status names its
// pod, as the IO context server has it.
type cluster struct {
	units []crdv1.WorkUnit
	// recorded is the status as the API server has it, versions all of its former ones.
	recorded []crdv1.WorkUnitStatus
	versions [][]crdv1.WorkUnitStatus
	// pods are those that there are, by unit and attempt.
	pods map[string]*engine.Pod
	made int
	// named counts the names of pods that were recorded.
	named int
	now   metav1.Time
	// ran counts how often the script of a unit came to its end.
	ran map[string]int
	max int
}

func name(unit string, attempt int32) string { return fmt.Sprintf("%s/%d", unit, attempt) }

// look is one look of a manager, which may have an old status, and may die.
func (c *cluster) look(t *rapid.T, atOnce int) {
	stale := rapid.IntRange(0, min(2, len(c.versions)-1)).Draw(t, "stale")
	read := c.versions[len(c.versions)-1-stale]
	seen := map[string]engine.Pod{}
	for _, st := range read {
		if p := c.pods[name(st.Name, st.Attempt)]; p != nil {
			seen[st.Name] = *p
		}
	}
	d := engine.Plan(engine.Input{Units: c.units, Status: read, Pods: seen, AtOnce: atOnce, Now: c.now})
	for i, u := range c.units {
		if !slices.Contains(d.Begin, u.Name) {
			continue
		}
		c.named++
		d.Status[i] = engine.Named(u, d.Status[i], crdv1.NamespacedName{Name: fmt.Sprint(c.named)})
	}
	if len(d.Begin) > 0 {
		if stale > 0 || rapid.IntRange(0, 9).Draw(t, "dies before it has recorded names") == 0 {
			return // The API server refuses a decision from an old version.
		}
		c.record(slices.Clone(d.Status))
		if rapid.IntRange(0, 9).Draw(t, "dies before it creates pods") == 0 {
			return
		}
	}
	for i, u := range c.units {
		if !slices.Contains(d.Begin, u.Name) {
			continue
		}
		c.made++
		uid := fmt.Sprint(c.made)
		c.pods[name(u.Name, d.Status[i].Attempt+1)] = &engine.Pod{UID: uid, Observation: execunit.Observation{State: execunit.Waiting}}
		if rapid.IntRange(0, 9).Draw(t, "dies") == 0 {
			return
		}
		d.Status[i] = engine.Began(u, d.Status[i], uid, "grant", c.now)
	}
	if stale > 0 || rapid.IntRange(0, 9).Draw(t, "dies before it writes") == 0 {
		return // The API server refuses an update based on an old version.
	}
	c.record(d.Status)
}

// record is what the API server does with a status.
func (c *cluster) record(all []crdv1.WorkUnitStatus) {
	c.recorded = all
	c.versions = append(c.versions, c.recorded)
	c.max = max(c.max, running(c.recorded))
}

func running(all []crdv1.WorkUnitStatus) int {
	n := 0
	for _, st := range all {
		if st.Phase == crdv1.UnitRunning {
			n++
		}
	}
	return n
}

// work lets something happen to a pod.
func (c *cluster) work(t *rapid.T) {
	for _, u := range c.units {
		for attempt := range int32(16) {
			p := c.pods[name(u.Name, attempt)]
			if p == nil {
				continue
			}
			st := engine.StatusOf(c.recorded, u.Name)
			if st != nil && st.Phase == crdv1.UnitSucceeded && rapid.IntRange(0, 3).Draw(t, "is cleared away") == 0 {
				delete(c.pods, name(u.Name, attempt)) // So that its name is free again.
				continue
			}
			mayRun := st != nil && st.Phase == crdv1.UnitRunning && st.PodUID == p.UID
			switch what := rapid.IntRange(0, 5).Draw(t, "what happens"); {
			case p.State == execunit.Waiting && mayRun && what < 3:
				p.State, p.Begun = execunit.Running, true
			case p.State == execunit.Waiting && what == 5:
				p.State, p.Over = execunit.Interrupted, true
			case p.State == execunit.Running && what < 3:
				c.ran[u.Name]++
				p.State, p.Over = execunit.Succeeded, true
			}
		}
	}
}

func TestAUnitThatSucceedsRunsOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &cluster{pods: map[string]*engine.Pod{}, ran: map[string]int{}, now: start, versions: [][]crdv1.WorkUnitStatus{nil}}
		n := rapid.IntRange(1, 5).Draw(t, "units")
		for i := range n {
			text := fmt.Sprintf("u%d: x <-", i)
			for k := range i {
				if rapid.IntRange(0, 2).Draw(t, "reads") == 0 {
					text += fmt.Sprintf(" u%d.x", k)
				}
			}
			c.units = append(c.units, unit(text))
		}
		if problems := engine.Check(crdv1.OLM{PreStart: c.units}); len(problems) > 0 {
			t.Fatal(problems)
		}
		atOnce := rapid.IntRange(0, 3).Draw(t, "at once")
		for range 400 {
			c.look(t, atOnce)
			c.work(t)
			c.now = metav1.NewTime(c.now.Add(time.Minute))
			if engine.Plan(engine.Input{Units: c.units, Status: c.recorded, Now: c.now}).Done {
				break
			}
			for _, st := range c.recorded {
				u := c.units[slices.IndexFunc(c.units, func(u crdv1.WorkUnit) bool { return u.Name == st.Name })]
				for _, need := range engine.Needs(u, c.units) {
					if st.Attempt > 0 && engine.StatusOf(c.recorded, need).Phase != crdv1.UnitSucceeded {
						t.Fatalf("%s began before %s had succeeded", st.Name, need)
					}
				}
			}
		}
		for _, st := range c.recorded {
			if ran := c.ran[st.Name]; st.Phase == crdv1.UnitSucceeded && ran != 1 || st.Phase != crdv1.UnitFailed && st.Phase != crdv1.UnitSucceeded || ran > 1 {
				t.Errorf("%s is %s after its script came to its end %d times", st.Name, st.Phase, ran)
			}
		}
		if atOnce > 0 && c.max > atOnce {
			t.Errorf("%d ran at once, and %d may", c.max, atOnce)
		}
	})
}
