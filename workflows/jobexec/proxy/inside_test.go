package proxy

import (
	"fmt"
	"log/slog"
	"testing"

	jobexecv1 "switchyard.dev/protos/gen/jobexec/v1"
	"switchyard.dev/workflows/jobexec/layout"
	"switchyard.dev/workflows/jobexec/output"
	"switchyard.dev/workflows/jobexec/socket"
)

// Only an ending that states no failure at all is a success.
func TestASuccessStatesNoFailure(t *testing.T) {
	terminated := socket.PhaseTerminated
	for what, c := range map[string]struct {
		from          socket.Status
		known         bool
		reason        string
		neverASuccess bool
	}{
		"success":           {socket.Status{Phase: terminated, Ending: &socket.Ending{}}, true, "", false},
		"failure":           {socket.Status{Phase: terminated, Ending: &socket.Ending{ExitCode: 3, Reason: "ScriptFailed"}}, true, "ScriptFailed", true},
		"out of memory":     {socket.Status{Phase: terminated, Ending: &socket.Ending{ExitCode: 137, Signal: 9, Reason: socket.OutOfMemory}}, true, "OutOfMemory", true},
		"no reason":         {socket.Status{Phase: terminated, Ending: &socket.Ending{ExitCode: 1}}, true, "ScriptFailed", true},
		"a signal alone":    {socket.Status{Phase: terminated, Ending: &socket.Ending{Signal: 9}}, true, "ScriptFailed", true},
		"a timeout alone":   {socket.Status{Phase: terminated, Ending: &socket.Ending{TimedOut: true}}, true, "ScriptFailed", true},
		"canceled alone":    {socket.Status{Phase: terminated, Ending: &socket.Ending{Canceled: true}}, true, "ScriptFailed", true},
		"no ending":         {socket.Status{Phase: terminated}, false, layout.ExecutorLost, true},
		"ending while runs": {socket.Status{Phase: socket.PhaseRunning, Ending: &socket.Ending{}}, false, layout.ExecutorLost, true},
		"nothing":           {socket.Status{}, false, layout.ExecutorLost, true},
	} {
		if got := ending(c.from); got.GetKnown() != c.known || got.GetReason() != c.reason || c.neverASuccess == (got.GetKnown() && got.GetReason() == "") {
			t.Errorf("%s: %v", what, got)
		}
	}
}

// stored returns a runner with ended executions, oldest first, each with bytes of output.
func stored(t *testing.T, capacity uint64, executions, bytes int) *runner {
	t.Helper()
	r := &runner{store: store{t.TempDir()}, capacity: capacity, executor: socket.NewClient(t.TempDir() + "/none"), logger: slog.New(slog.DiscardHandler), ctx: t.Context()}
	for i := range executions {
		of := ref{socket.Ref{Job: fmt.Sprint("job-", i), Execution: 1}}
		if err := r.store.create(of, &jobexecv1.RunRequest{Ref: of.proto()}); err != nil {
			t.Fatal(err)
		}
		e, err := r.store.open(of)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.streams[0].Append(0, make([]byte, bytes)); err != nil {
			t.Fatal(err)
		}
		r.finish(e, socket.Status{Phase: socket.PhaseTerminated, Ending: &socket.Ending{ExitCode: i, Reason: "ScriptFailed"}}, nil)
		r.all = append(r.all, e)
	}
	return r
}

// The oldest outputs are deleted when the next execution needs the space; the results stay, also after a restart.
func TestTheOldestOutputMakesSpace(t *testing.T) {
	const size = 100_000
	r := stored(t, 5*size, 4, size)
	r.clear(size / 2)
	for i, want := range []bool{false, false, false, false} {
		if _, _, released := r.all[i].ended(); released != want {
			t.Errorf("execution %d is released: %v", i, released)
		}
	}
	r.clear(2*size + size/2)
	again := &runner{store: r.store, logger: r.logger, ctx: r.ctx}
	if err := again.resume(); err != nil {
		t.Fatal(err)
	}
	for what, one := range map[string]*runner{"": r, " after a restart": again} {
		if drops := one.drops(); len(drops) != 2 || drops[0].GetJobUid() != r.all[0].Job || drops[1].GetJobUid() != r.all[1].Job {
			t.Errorf("the next execution%s reports %v", what, drops)
		}
	}
	for i, want := range []bool{true, true, false, false} {
		for _, e := range []*execution{r.all[i], again.all[i]} {
			s, _ := e.now()
			if !s.GetArtifactsComplete() || s.GetReleased() != want || (s.GetDropped() == droppedForSpace) != want || int(s.GetEnding().GetExitCode()) != i || (r.store.size(e.ref) < size) != want || s.GetStdout().GetTotal() != size {
				t.Errorf("execution %d has %d bytes: %v", i, r.store.size(e.ref), s)
			}
		}
	}
}

// Results that were released are kept, but not all of them for ever.
func TestOldResultsAreForgotten(t *testing.T) {
	r := stored(t, 1<<30, maxReleased+1, 1)
	for range 2 { // nothing begins after the first: the second reports its drops
		r.clear(1)
		if drops := r.drops(); len(r.all) != maxReleased+1 || len(drops) != 1 || drops[0].GetJobUid() != "job-0" {
			t.Errorf("%d are known; the next execution reports %v", len(r.all), drops)
		}
	}
	r.all = append(r.all, stored(t, 1<<30, 1, 1).all[0]) // one that begins
	if err := r.release(r.all[1], ""); err != nil {
		t.Fatal(err)
	}
	r.clear(1)
	if drops := r.drops(); len(drops) != 0 { // it was read
		t.Errorf("the next execution reports %v", drops)
	}
	refs, err := r.store.list()
	if err != nil || len(refs) != maxReleased || len(r.all) != maxReleased+1 || refs[0].Job != "job-1" {
		t.Errorf("%d are in the store, and %d known, from %v on: %v", len(refs), len(r.all), refs[0], err)
	}
}

// A restart after an execution was stored and before its request was complete forgets it.
func TestAnIncompleteExecutionIsForgotten(t *testing.T) {
	r := &runner{store: store{t.TempDir()}, logger: slog.New(slog.DiscardHandler), ctx: t.Context()}
	if _, err := output.Open(r.store.folder(ref{socket.Ref{Job: "job", Execution: 1}})+"/stdout", output.Default); err != nil {
		t.Fatal(err)
	}
	if err := r.resume(); err != nil || len(r.all) != 0 {
		t.Errorf("%d are known: %v", len(r.all), err)
	}
	if refs, err := r.store.list(); err != nil || len(refs) != 0 {
		t.Errorf("%v, %v", refs, err)
	}
}
