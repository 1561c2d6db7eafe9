package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/workflows/engine"
	"switchyard.dev/workflows/execunit"
)

var start = metav1.NewTime(time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC))

// A unit that waits for a namespace gets another pod name when its specification names another one.
func TestAUnitNeedsAPodNameInItsNamespace(t *testing.T) {
	st := crdv1.WorkUnitStatus{Name: "a", Phase: crdv1.UnitPending}
	if !engine.Unnamed(st, "shop") {
		t.Error("it has a name before its first attempt")
	}
	st = engine.Named(unit("a"), st, crdv1.NamespacedName{Namespace: "shop", Name: "p"})
	if engine.Unnamed(st, "shop") || !engine.Unnamed(st, "pay") {
		t.Error("it has a name in shop, and in no other namespace")
	}
	st = engine.Named(unit("a"), engine.Refused(st, "NamespaceNotFound", "m", start), crdv1.NamespacedName{Namespace: "pay", Name: "p"})
	if engine.Unnamed(st, "pay") || st.Started == nil {
		t.Errorf("%+v", st)
	}
	if !engine.Unnamed(engine.Renamed(st, "NameTaken", "m", start), "pay") {
		t.Error("it keeps a name that is taken")
	}
}

// unit makes one from "name: output output <- unit.output unit.output".
func unit(text string) crdv1.WorkUnit {
	text, reads, _ := strings.Cut(text, "<-")
	name, gives, _ := strings.Cut(text, ":")
	u := crdv1.WorkUnit{Name: strings.TrimSpace(name), Type: "ExecUnit", ExecUnitTemplate: &crdv1.ExecUnitTemplate{Script: "#!/bin/sh"}}
	for _, out := range strings.Fields(gives) {
		u.Outputs = append(u.Outputs, crdv1.WorkUnitOutput{Name: out})
	}
	for i, key := range strings.Fields(reads) {
		u.Inputs = append(u.Inputs, crdv1.WorkUnitInput{Name: fmt.Sprintf("in%d", i), IOContext: &crdv1.IOContextRef{Key: key}})
	}
	return u
}

func units(all ...string) []crdv1.WorkUnit {
	var out []crdv1.WorkUnit
	for _, text := range all {
		out = append(out, unit(text))
	}
	return out
}

func TestCheckFindsWhatCannotRun(t *testing.T) {
	doubled := unit("a: x x")
	both := unit("b <- a.x")
	both.Inputs[0].Value = "constant"
	same := unit("b <- a.x a.x")
	same.Inputs[1].Name = same.Inputs[0].Name
	for name, tt := range map[string]struct {
		pre, post []crdv1.WorkUnit
		want      []string
	}{
		"nothing":                        {},
		"a chain":                        {pre: units("a: x", "b: y <- a.x", "c <- b.y a.x")},
		"postStop reads preStart":        {pre: units("a: x"), post: units("z <- a.x")},
		"two of one name":                {pre: units("a: x", "a: y"), want: []string{`preStart[1].name is "a", which preStart[0] has`}},
		"one of each graph of one name":  {pre: units("a"), post: units("a"), want: []string{`postStop[0].name is "a", which preStart[0] has`}},
		"no name":                        {pre: units(""), want: []string{"preStart[0] has no name"}},
		"two outputs of one name":        {pre: []crdv1.WorkUnit{doubled}, want: []string{`preStart[0].outputs[1].name is "x"`}},
		"two inputs of one name":         {pre: []crdv1.WorkUnit{unit("a: x"), same}, want: []string{`preStart[1].inputs[1].name is "in0"`}},
		"without a source":               {pre: units("a", "b <- a.x"), want: []string{`preStart[1].inputs[0] of step b reads "a.x", which no step gives`}},
		"preStart cannot read postStop":  {pre: units("a <- z.x"), post: units("z: x"), want: []string{`reads "z.x", which no step gives`}},
		"constant and read":              {pre: []crdv1.WorkUnit{unit("a: x"), both}, want: []string{"has both value and iocontext"}},
		"one that reads itself":          {pre: units("a: x <- a.x"), want: []string{"preStart has steps that wait for each other: a reads a."}},
		"three that wait for each other": {pre: units("o: x", "a: x <- c.x o.x", "b: x <- a.x", "c: x <- b.x"), want: []string{"a reads c reads b reads a."}},
	} {
		t.Run(name, func(t *testing.T) {
			got := engine.Check(crdv1.OLM{PreStart: tt.pre, PostStop: tt.post})
			if len(got) != len(tt.want) {
				t.Fatalf("%q", got)
			}
			for i, want := range tt.want {
				if !strings.Contains(got[i], want) {
					t.Errorf("%q does not have %q", got[i], want)
				}
			}
		})
	}
}

// status makes one.
func status(unit, phase string, change ...func(*crdv1.WorkUnitStatus)) crdv1.WorkUnitStatus {
	st := crdv1.WorkUnitStatus{Name: unit, Phase: phase}
	if phase != crdv1.UnitPending && phase != crdv1.UnitSkipped {
		st.Attempt, st.PodUID, st.Started, st.Grant = 1, "uid-"+unit, &start, "grant"
	}
	for _, f := range change {
		f(&st)
	}
	return st
}

// pod returns the pod of a unit, by the unit's name.
func pod(unit string, state execunit.State, change ...func(*engine.Pod)) map[string]engine.Pod {
	p := engine.Pod{UID: "uid-" + unit, Observation: execunit.Observation{
		State: state, Begun: state != execunit.Waiting, Over: true, Reason: "Because", Message: "of this.",
	}}
	for _, f := range change {
		f(&p)
	}
	return map[string]engine.Pod{unit: p}
}

func TestPlan(t *testing.T) {
	chain := units("a: x", "b: y <- a.x", "c <- b.y")
	wide := units("a", "b", "c")
	repeatable := unit("a")
	repeatable.ExecUnitTemplate.PodTemplate.Annotations = map[string]string{crdv1.AnnotationRetryLost: "true"}
	notBegun := func(p *engine.Pod) { p.Begun = false }
	notOver := func(p *engine.Pod) { p.Over = false }
	late := metav1.NewTime(start.Add(time.Hour))
	asking := func(seconds time.Duration, reason string) func(*engine.Pod) {
		return func(p *engine.Pod) {
			p.Reason, p.Message = reason, reason
			p.Asking = &execunit.Asking{Since: start.Add(-seconds * time.Second), Reason: "OutputsUndelivered", Message: "cannot reach it."}
		}
	}
	for _, tt := range []struct {
		name   string
		in     engine.Input
		phases string // of all units, with what begins in capital letters
		says   string // part of the reason or message of the first unit
		end    string
		after  time.Duration
	}{
		{"the first of a chain begins", engine.Input{Units: chain}, "A:Pending b:Pending c:Pending", "", "", 0},
		{"the second begins when the first has succeeded", engine.Input{Units: chain, Status: []crdv1.WorkUnitStatus{status("a", "Succeeded")}}, "a:Succeeded B:Pending c:Pending", "", "", 0},
		{"units that do not depend on each other begin together", engine.Input{Units: wide}, "A:Pending B:Pending C:Pending", "", "", 0},
		{"as many as may", engine.Input{Units: wide, AtOnce: 2}, "A:Pending B:Pending c:Pending", "", "", 0},
		{"those that run count", engine.Input{Units: wide, AtOnce: 2, Status: []crdv1.WorkUnitStatus{status("a", "Running")}, Pods: pod("a", execunit.Running)}, "a:Running B:Pending c:Pending", "Because", "", 0},
		{"none begins when one has failed", engine.Input{Units: wide, Status: []crdv1.WorkUnitStatus{status("b", "Failed")}}, "a:Pending b:Failed c:Pending", "", "", 0},
		{"a script has ended with 0, and its outputs are kept", engine.Input{Units: chain, Status: []crdv1.WorkUnitStatus{status("a", "Running")}, Pods: pod("a", execunit.Succeeded)}, "a:Succeeded B:Pending c:Pending", "", "", 0},
		{"outputs are under way, however long", engine.Input{Units: chain, Status: []crdv1.WorkUnitStatus{status("a", "Running")}, Pods: pod("a", execunit.Delivering), Deadline: time.Minute, Now: late}, "a:Running b:Pending c:Pending", "Because", "", 0},
		{"outputs have been under way for a moment", engine.Input{Units: chain, Status: []crdv1.WorkUnitStatus{status("a", "Running")}, Pods: pod("a", execunit.Delivering, asking(10, ""))}, "a:Running b:Pending c:Pending", " ", "", 20 * time.Second},
		{"outputs cannot be delivered", engine.Input{Units: chain, Status: []crdv1.WorkUnitStatus{status("a", "Running")}, Pods: pod("a", execunit.Delivering, asking(30, ""))}, "a:Running b:Pending c:Pending", "OutputsUndelivered Cannot reach it.", "", 0},
		{"outputs of a script that failed cannot be delivered", engine.Input{Units: chain, Status: []crdv1.WorkUnitStatus{status("a", "Running")}, Pods: pod("a", execunit.Delivering, asking(30, "ScriptFailed"))}, "a:Running b:Pending c:Pending", "ScriptFailed ScriptFailed Cannot reach it.", "", 0},
		{"the image that delivers is missing", engine.Input{Units: chain, Status: []crdv1.WorkUnitStatus{status("a", "Running")}, Pods: pod("a", execunit.Delivering, asking(30, "ImagePullFailed"))}, "a:Running b:Pending c:Pending", "ImagePullFailed ImagePullFailed", "", 0},
		{"inputs cannot be delivered", engine.Input{Units: chain, Status: []crdv1.WorkUnitStatus{status("a", "Running")}, Pods: pod("a", execunit.Waiting, asking(30, "Starting"))}, "a:Running b:Pending c:Pending", "OutputsUndelivered Cannot reach it.", "", 0},
		{"a script has failed", engine.Input{Units: chain, Status: []crdv1.WorkUnitStatus{status("a", "Running")}, Pods: pod("a", execunit.Failed)}, "a:Failed b:Pending c:Pending", "Of this.", "", 0},
		{"a pod was evicted before its script began", engine.Input{Units: wide[:1], Status: []crdv1.WorkUnitStatus{status("a", "Running")}, Pods: pod("a", execunit.Interrupted, notBegun)}, "a:Pending", "Retrying", "", 2 * time.Second},
		{"and begins again after a while", engine.Input{Units: wide[:1], Now: late, Status: []crdv1.WorkUnitStatus{status("a", "Pending", func(st *crdv1.WorkUnitStatus) {
			st.Attempt, st.Reason, st.Finished = 1, "Retrying", &start
		})}}, "A:Pending", "", "", 0},
		{"and in the end no more", engine.Input{Units: wide[:1], Status: []crdv1.WorkUnitStatus{status("a", "Running", func(st *crdv1.WorkUnitStatus) { st.Attempt = 12 })}, Pods: pod("a", execunit.Interrupted, notBegun)}, "a:Failed", "TriedTooOften", "", 0},
		{"a pod was evicted while its script ran", engine.Input{Units: wide[:1], Status: []crdv1.WorkUnitStatus{status("a", "Running")}, Pods: pod("a", execunit.Interrupted)}, "a:Lost", "signadot.com/retry asks for another attempt", "", 0},
		{"a script that may run again does", engine.Input{Units: []crdv1.WorkUnit{repeatable}, Status: []crdv1.WorkUnitStatus{status("a", "Running")}, Pods: pod("a", execunit.Interrupted)}, "a:Pending", "Retrying", "", 2 * time.Second},
		{"a pod that is being deleted may yet come to its end", engine.Input{Units: wide[:1], Status: []crdv1.WorkUnitStatus{status("a", "Running")}, Pods: pod("a", execunit.Interrupted, notOver)}, "a:Running", "Because", "", 0},
		{"a pod was deleted", engine.Input{Units: wide[:1], Status: []crdv1.WorkUnitStatus{status("a", "Running")}}, "a:Lost", "PodGone", "", 0},
		{"another pod of its name is none of its", engine.Input{Units: wide[:1], Status: []crdv1.WorkUnitStatus{status("a", "Running")}, Pods: pod("a", execunit.Succeeded, func(p *engine.Pod) { p.UID = "other" })}, "a:Lost", "PodGone", "", 0},
		{"a unit has had its time", engine.Input{Units: wide[:1], Status: []crdv1.WorkUnitStatus{status("a", "Running")}, Pods: pod("a", execunit.Running), Deadline: time.Minute, Now: late}, "a:Failed", "has not ended within 1m0s", "a", 0},
		{"a unit has some of its time left", engine.Input{Units: wide[:1], Status: []crdv1.WorkUnitStatus{status("a", "Running")}, Pods: pod("a", execunit.Running), Deadline: 90 * time.Minute, Now: late}, "a:Running", "Because", "", 30 * time.Minute},
		{"a pod that is refused is tried again", engine.Input{Units: wide[:1], Status: []crdv1.WorkUnitStatus{status("a", "Starting", func(st *crdv1.WorkUnitStatus) { st.Attempt = 0 })}}, "A:Starting", "", "", 0},
		{"until its time is over", engine.Input{Units: wide[:1], Deadline: time.Minute, Now: late, Status: []crdv1.WorkUnitStatus{status("a", "Starting", func(st *crdv1.WorkUnitStatus) { st.Attempt, st.Reason = 0, "Forbidden" })}}, "a:Failed", "Forbidden", "", 0},
		{"another attempt is requested", engine.Input{Units: wide[:2], Retry: "now", Status: []crdv1.WorkUnitStatus{status("a", "Lost"), status("b", "Succeeded")}}, "A:Pending b:Succeeded", "", "", 0},
		{"a request counts once", engine.Input{Units: wide[:1], Retry: "now", Status: []crdv1.WorkUnitStatus{status("a", "Failed", func(st *crdv1.WorkUnitStatus) { st.Retried = "now" })}}, "a:Failed", "", "", 0},
		{"a unit that failed has another form now", engine.Input{Units: wide[:1], Status: []crdv1.WorkUnitStatus{status("a", "Failed", func(st *crdv1.WorkUnitStatus) { st.Form = "other" })}}, "A:Pending", "", "", 0},
		{"one that succeeded does not run again", engine.Input{Units: wide[:1], Retry: "now", Status: []crdv1.WorkUnitStatus{status("a", "Succeeded", func(st *crdv1.WorkUnitStatus) { st.Form = "other" })}}, "a:Succeeded", "", "", 0},
		{"while the graph ends none begins, and a unit that has not begun ends", engine.Input{Units: wide, Ending: true, Status: []crdv1.WorkUnitStatus{status("a", "Running")}, Pods: pod("a", execunit.Waiting)}, "a:Running b:Pending c:Pending", "Because", "a", 0},
		{"a pod without a grant is deleted before its script begins", engine.Input{Units: wide[:1], Status: []crdv1.WorkUnitStatus{status("a", "Running", func(st *crdv1.WorkUnitStatus) { st.Grant = "" })}, Pods: pod("a", execunit.Waiting, notOver)}, "a:Running", "Because", "a", 0},
		{"a pod of an earlier form is deleted before its script begins", engine.Input{Units: wide[:1], Status: []crdv1.WorkUnitStatus{status("a", "Running", func(st *crdv1.WorkUnitStatus) { st.Form = "earlier" })}, Pods: pod("a", execunit.Waiting, notOver)}, "a:Running", "Because", "a", 0},
		{"and one that runs comes to its end", engine.Input{Units: wide[:1], Status: []crdv1.WorkUnitStatus{status("a", "Running", func(st *crdv1.WorkUnitStatus) { st.Form = "earlier" })}, Pods: pod("a", execunit.Running, notOver)}, "a:Running", "Because", "", 0},
		{"a pod of the present form stays", engine.Input{Units: wide[:1], Status: []crdv1.WorkUnitStatus{status("a", "Running", func(st *crdv1.WorkUnitStatus) { st.Form = engine.Form(wide[0]) })}, Pods: pod("a", execunit.Waiting, notOver)}, "a:Running", "Because", "", 0},
		{"and not once it has begun", engine.Input{Units: wide[:1], Status: []crdv1.WorkUnitStatus{status("a", "Running", func(st *crdv1.WorkUnitStatus) { st.Grant = "" })}, Pods: pod("a", execunit.Running)}, "a:Running", "Because", "", 0},
		{"a unit that has begun completes", engine.Input{Units: wide[:1], Ending: true, Status: []crdv1.WorkUnitStatus{status("a", "Running")}, Pods: pod("a", execunit.Running)}, "a:Running", "Because", "", 0},
		{"a unit that was ended before it began is skipped", engine.Input{Units: wide[:1], Ending: true, Status: []crdv1.WorkUnitStatus{status("a", "Running")}, Pods: pod("a", execunit.Interrupted, notBegun)}, "a:Skipped", "NothingToDo", "", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.in.Now.IsZero() {
				tt.in.Now = start
			}
			d := engine.Plan(tt.in)
			if got := phases(d); got != tt.phases {
				t.Errorf("%s, not %s", got, tt.phases)
			}
			if st := d.Status[0]; !strings.Contains(st.Reason+" "+st.Message, tt.says) {
				t.Errorf("it has %s: %s", st.Reason, st.Message)
			}
			if end := strings.Join(d.End, " "); end != tt.end || d.After != tt.after {
				t.Errorf("%q end, and the next call is after %s", end, d.After)
			}
		})
	}
}

// A manager that stops, or is overloaded, after it has recorded the name of a pod takes no time from the unit.
func TestTheTimeOfAUnitCountsFromTheFirstAnswer(t *testing.T) {
	u := unit("a")
	at := func(minutes time.Duration) metav1.Time { return metav1.NewTime(start.Add(minutes * time.Minute)) }
	planned := func(st crdv1.WorkUnitStatus, now metav1.Time) crdv1.WorkUnitStatus {
		return engine.Plan(engine.Input{Units: []crdv1.WorkUnit{u}, Status: []crdv1.WorkUnitStatus{st}, Deadline: 10 * time.Minute, Now: now}).Status[0]
	}
	first := engine.Plan(engine.Input{Units: []crdv1.WorkUnit{u}, Now: start}).Status[0]
	st := planned(engine.Named(u, first, crdv1.NamespacedName{Name: "p"}), at(60))
	if st.Phase != crdv1.UnitStarting {
		t.Fatalf("after an hour without a pod it is %s: %s %s", st.Phase, st.Reason, st.Message)
	}
	if began := engine.Began(u, st, "uid", "grant", at(60)); !began.Started.Equal(new(at(60))) {
		t.Errorf("its pod was created after an hour, and its time began at %s", began.Started)
	}
	refused := engine.Refused(st, "Forbidden", "You may not.", at(60))
	refused = engine.Renamed(engine.Named(u, refused, crdv1.NamespacedName{Name: "q"}), "NameTaken", "It exists.", at(65))
	if st := planned(refused, at(69)); st.Phase != crdv1.UnitStarting {
		t.Errorf("nine minutes after the first refusal it is %s", st.Phase)
	}
	if st := planned(refused, at(71)); st.Phase != crdv1.UnitFailed || st.Reason != "NameTaken" || st.Message != "It exists." {
		t.Errorf("eleven minutes after it, it is %s: %s %s", st.Phase, st.Reason, st.Message)
	}
}

// phases writes the units of a decision, those that begin in capital letters.
func phases(d engine.Decision) string {
	var out []string
	for _, st := range d.Status {
		name := st.Name
		if slices.Contains(d.Begin, name) {
			name = strings.ToUpper(name)
		}
		out = append(out, name+":"+st.Phase)
	}
	return strings.Join(out, " ")
}

func TestRemoval(t *testing.T) {
	made := units("db: name", "seed: n <- db.name")
	remove := units("drop <- db.name", "unseed <- seed.n", "log: l", "tell <- log.l")
	for _, tt := range []struct {
		name   string
		made   []crdv1.WorkUnitStatus
		kept   map[string]bool
		phases string
	}{
		{"all was made", []crdv1.WorkUnitStatus{status("db", "Succeeded"), status("seed", "Succeeded")}, map[string]bool{"db.name": true, "seed.n": true},
			"DROP:Pending UNSEED:Pending LOG:Pending tell:Pending"},
		{"nothing was begun", []crdv1.WorkUnitStatus{status("db", "Pending")}, nil, "drop:Skipped unseed:Skipped log:Skipped tell:Skipped"},
		{"half of it was made", []crdv1.WorkUnitStatus{status("db", "Succeeded"), status("seed", "Pending")}, map[string]bool{"db.name": true},
			"DROP:Pending unseed:Skipped LOG:Pending tell:Pending"},
		{"a unit failed that had given its output", []crdv1.WorkUnitStatus{status("db", "Failed")}, map[string]bool{"db.name": true},
			"DROP:Pending unseed:Skipped LOG:Pending tell:Pending"},
		{"a unit failed without its output", []crdv1.WorkUnitStatus{status("db", "Failed")}, nil, "drop:Failed unseed:Skipped log:Pending tell:Pending"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := engine.Plan(engine.Input{Units: remove, Made: made, MadeStatus: tt.made, Kept: tt.kept, Now: start})
			if got := phases(d); got != tt.phases {
				t.Errorf("%s, not %s", got, tt.phases)
			}
		})
	}
}
