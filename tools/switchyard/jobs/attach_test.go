package jobs

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	v2 "switchyard.dev/protos/controlplane/v2"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
)

// scripted is a site: its job has these states, one after the other, and its streams are written in these parts: the
// last byte of a part that ends in "!" is the failure of the connection instead.
type scripted struct {
	site
	states         []v2.Job
	stdout, stderr []string
	cursors        []string
}

func (s *scripted) changed(context.Context, v2.Job) (v2.Job, error) {
	if len(s.states) == 0 {
		return v2.Job{}, exit.No.Errorf("there is no job j")
	}
	next := s.states[0]
	s.states = s.states[1:]
	return next, nil
}

func (s *scripted) output(_ context.Context, _ string, of *stream, to io.Writer) error {
	parts := &s.stdout
	if of.name == "stderr" {
		parts = &s.stderr
	} else {
		s.cursors = append(s.cursors, of.cursor)
	}
	if len(*parts) == 0 {
		of.of++
		return nil
	}
	part := (*parts)[0]
	*parts = (*parts)[1:]
	text, cut := strings.CutSuffix(part, "!")
	_, _ = io.WriteString(to, text)
	of.cursor += text
	if cut {
		return errors.New("the connection is cut")
	}
	of.of++
	return nil
}

func in(phase string, executions int, state v2.JobsState) v2.Job {
	return v2.Job{Name: "j", Status: v2.JobsStatus{Attempts: []v2.JobsAttempt{{Phase: v2.JobsPhase(phase), ExecutionCount: executions, State: state}}}}
}

func TestAnAttachedJob(t *testing.T) {
	queued := in("queued", 0, v2.JobsState{Queued: &v2.JobsQueuedState{Message: new("no idle pod")}})
	running := in("running", 1, v2.JobsState{Running: &v2.JobsRunningState{}})
	good := in("succeeded", 1, v2.JobsState{Succeeded: &v2.JobsSucceededState{ExitCode: new(0)}})
	bad := in("failed", 1, v2.JobsState{Failed: &v2.JobsFailedState{ExitCode: new(3), Message: new("it exited with code 3")}})
	lost := in("failed", 1, v2.JobsState{Failed: &v2.JobsFailedState{Message: new("the pod is deleted")}})
	retried := in("running", 2, v2.JobsState{Running: &v2.JobsRunningState{}})
	canceled := in("canceled", 0, v2.JobsState{Canceled: &v2.JobsCanceledState{Message: new("by ada")}})
	for name, tt := range map[string]struct {
		states         []v2.Job
		stdout, stderr []string
		out, errs      string
		code           exit.Code
	}{
		"waits and succeeds":               {[]v2.Job{queued, queued, running, good}, []string{"a\n"}, []string{"b\n"}, "a\n", "waiting: no idle pod\nb\n", 0},
		"is interrupted in a line":         {[]v2.Job{running, running, good}, []string{"one\ntw!", "o\n"}, []string{"x!", "y\n"}, "one\ntwo\n", "xy\n", 0},
		"has ended at the first look":      {[]v2.Job{bad}, []string{"a\n"}, []string{"b\n"}, "a\n", "b\n", 3},
		"runs twice":                       {[]v2.Job{running, retried, good}, []string{"a\n", "a again\n"}, nil, "a\na again\n", "", 0},
		"ends after its streams":           {[]v2.Job{running, running, running, bad}, []string{"a\n"}, nil, "a\n", "", 3},
		"has output that cannot be read":   {[]v2.Job{lost, lost, lost, lost}, []string{"!", "!", "!", "!"}, nil, "", "the output of job j is not complete: the connection is cut\n", exit.No},
		"is canceled before its execution": {[]v2.Job{queued, canceled}, nil, nil, "", "waiting: no idle pod\n", exit.No},
		"is deleted":                       {[]v2.Job{running}, nil, nil, "", "", exit.No},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			s := command.New(command.Config{Name: "switchyard", Out: &out, Err: &errs})
			at := &scripted{states: tt.states[1:], stdout: tt.stdout, stderr: tt.stderr}
			job, err := follow(t.Context(), s, at, tt.states[0], true)
			if err == nil {
				err = verdict(job)
			}
			if exit.Of(err) != tt.code || out.String() != tt.out || errs.String() != tt.errs {
				t.Errorf("exit code %d (%v), not %d, with\n%q and %q, not\n%q and %q", exit.Of(err), err, tt.code, out.String(), errs.String(), tt.out, tt.errs)
			}
		})
	}
}

// An interrupted stream is continued where it was.
func TestAnInterruptedStreamIsContinued(t *testing.T) {
	running, good := in("running", 1, v2.JobsState{}), in("succeeded", 1, v2.JobsState{})
	at := &scripted{states: []v2.Job{running, good}, stdout: []string{"one!", "two!", "three"}}
	s := command.New(command.Config{Out: io.Discard, Err: io.Discard})
	if _, err := follow(t.Context(), s, at, running, true); err != nil || strings.Join(at.cursors, ",") != ",one,onetwo" {
		t.Errorf("it is read at %q, %v", at.cursors, err)
	}
}

// A terminal obeys nothing of a script, and a file has its output as it is.
func TestATerminalObeysNothingOfAScript(t *testing.T) {
	const clears = "\x1b[2Jred\r\n"
	for terminal, want := range map[bool]string{true: "a " + `\u001b[2Jred` + "\nrest", false: "a " + clears + "rest"} {
		var out bytes.Buffer
		w := lines(command.New(command.Config{Terminal: terminal}), &out)
		for _, part := range []string{"a ", clears[:3], clears[3:], "rest"} {
			if n, err := io.WriteString(w, part); n != len(part) || err != nil {
				t.Fatal(n, err)
			}
		}
		w.flush()
		if out.String() != want {
			t.Errorf("on a terminal (%v) it is %q, not %q", terminal, out.String(), want)
		}
	}
}

func TestServerSentEvents(t *testing.T) {
	const one, two = "event: message\ndata: {\"message\":\"a\\n\",\"cursor\":\"1\"}\n\n", "event: message\r\ndata:{\"message\":\"b\\n\",\"cursor\":\"2\"}\r\n\r\n"
	for text, tt := range map[string]struct{ out, errs, cursor, wrong string }{
		one + ": comment\n\n" + two + "event: signal\ndata: EOF\n\n": {"a\nb\n", "", "2", ""},
		one + two: {"a\nb\n", "", "2", "was interrupted"},
		one + "event: signal\ndata: RESTART\n\n" + two + "event: signal\ndata: EOF\n\n": {"a\nb\n", "the script of job j runs again: this is the stdout of its next execution\n", "2", ""},
		one + "event: error\ndata: the pod is deleted\n\n":                              {"a\n", "", "1", "the stdout of job j: the pod is deleted"},
		"event: message\ndata: {\n\n":                                                   {"", "", "", "cannot be read"},
	} {
		var out, errs bytes.Buffer
		c := &controlPlane{s: command.New(command.Config{Err: &errs})}
		of := &stream{name: "stdout"}
		err := c.events(bufio.NewReader(strings.NewReader(text)), "j", of, &out)
		if out.String() != tt.out || errs.String() != tt.errs || of.cursor != tt.cursor || (err == nil) != (tt.wrong == "") || err != nil && !strings.Contains(err.Error(), tt.wrong) {
			t.Errorf("%q is %q and %q at %q, %v", text, out.String(), errs.String(), of.cursor, err)
		}
		if (of.of == ended) != (tt.wrong == "") {
			t.Errorf("%q: the stream ends with %d", text, of.of)
		}
	}
}
