package jobs

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"sync"
	"time"

	v2 "switchyard.dev/protos/controlplane/v2"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/switchyard/show"
)

// note writes a line for people.
func note(s *command.Session, text string) { _, _ = io.WriteString(s.Err, show.Line(text)+"\n") }

// now returns the attempt of a job.
func now(j v2.Job) v2.JobsAttempt { return j.Status.Attempts[0] }

// final reports whether a job has ended.
func final(j v2.Job) bool { return now(j).Phase != "queued" && now(j).Phase != "running" }

// silence is for how long a site may fail while a job is followed, and mostReads how often the output of a job that has
// ended is tried.
const (
	silence   = 2 * time.Minute
	mostReads = 4
)

// follow returns a job when it has ended. It prints the reason for waiting, and with attach the output as it comes.
func follow(ctx context.Context, s *command.Session, at site, job v2.Job, attach bool) (v2.Job, error) {
	out, errs := lines(s, s.Out), lines(s, s.Err)
	defer out.flush()
	defer errs.flush()
	stdout, stderr := &stream{name: "stdout", follow: true}, &stream{name: "stderr", follow: true}
	said, answered, reads := "", time.Now(), 0
	for {
		a := now(job)
		if q := a.State.Queued; q != nil && q.Message != nil && *q.Message != said {
			said = *q.Message
			note(s, "waiting: "+said)
		}
		var err error
		if attach && a.Phase != "queued" && a.ExecutionCount > 0 && min(stdout.of, stderr.of) < a.ExecutionCount {
			err = both(ctx, func(ctx context.Context) error { return at.output(ctx, job.Name, stdout, out) },
				func(ctx context.Context) error { return at.output(ctx, job.Name, stderr, errs) })
		}
		switch reads++; {
		case !final(job):
			reads = 0
		case err == nil:
			return job, nil
		case reads >= mostReads:
			note(s, "the output of job "+job.Name+" is not complete: "+exit.Text(err, s.Name))
			return job, nil
		}
		next, err := at.changed(ctx, job)
		switch {
		case ctx.Err() != nil:
			return job, ctx.Err()
		case err == nil:
			job, answered = next, time.Now()
		case exit.Of(err) == exit.No || time.Since(answered) > silence:
			return job, err
		default:
			time.Sleep(pause)
		}
	}
}

// both calls two functions at the same time, and returns the first error.
func both(ctx context.Context, one, other func(context.Context) error) error {
	var errs [2]error
	var all sync.WaitGroup
	all.Go(func() { errs[0] = one(ctx) })
	all.Go(func() { errs[1] = other(ctx) })
	all.Wait()
	return cmp.Or(errs[0], errs[1])
}

// verdict returns nil for a job that has succeeded, and otherwise an error with the exit code of its script.
func verdict(j v2.Job) error {
	switch state := now(j).State; {
	case state.Failed != nil:
		code := exit.No
		if c := state.Failed.ExitCode; c != nil && *c > 0 {
			code = exit.Code(*c)
		}
		return code.Errorf("job %s has failed: %s", j.Name, text(state.Failed.Message))
	case state.Canceled != nil:
		return exit.No.Errorf("job %s was canceled: %s", j.Name, text(state.Canceled.Message))
	}
	return nil
}

// lineWriter writes output for a terminal in whole lines, without what a terminal would obey.
type lineWriter struct {
	to    io.Writer
	plain bool // no terminal: as it is
	part  []byte
}

// longestLine is how much of a line is awaited.
const longestLine = 64 << 10

func lines(s *command.Session, to io.Writer) *lineWriter {
	return &lineWriter{to: to, plain: !s.Terminal}
}

// Write implements io.Writer.
func (l *lineWriter) Write(p []byte) (int, error) {
	if l.plain {
		return l.to.Write(p)
	}
	l.part = append(l.part, p...)
	for {
		i := bytes.IndexByte(l.part, '\n')
		if i < 0 && len(l.part) < longestLine {
			return len(p), nil
		}
		if i < 0 {
			i = len(l.part) - 1
		}
		if _, err := io.WriteString(l.to, show.LogLine(string(l.part[:i+1]))); err != nil {
			return 0, err
		}
		l.part = l.part[i+1:]
	}
}

// flush writes an unfinished line.
func (l *lineWriter) flush() {
	_, _ = io.WriteString(l.to, show.LogLine(string(l.part)))
	l.part = nil
}
