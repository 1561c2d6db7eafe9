// Package interpreter runs the script of one Smart Test in this process, and reports its checks, calls and output. The
// limit of memory is that of the process, which ends beyond it (workflows/smarttest/child); the other limits are here.
package interpreter

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"go.starlark.net/resolve"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"switchyard.dev/workflows/smarttest"
	"switchyard.dev/workflows/smarttest/reach"
)

// maxHeaders bounds the headers of a response, in bytes.
const maxHeaders = 256 << 10

// dialect is that of published tests.
var dialect = &syntax.FileOptions{Set: true, While: true, TopLevelControl: true, GlobalReassign: true}

// run is a run of a script.
type run struct {
	smarttest.Request
	ctx     context.Context
	out     io.Writer
	thread  *starlark.Thread
	modules starlark.StringDict
	// verified and unverified are the transports of calls, the latter of those with verify=False.
	verified, unverified *http.Transport
	// ended is set when a limit is passed; the thread ends soon after that.
	ended *smarttest.End
	// checks are the names of the checks; calls counts calls, and reported and captured bytes.
	checks                    map[string]bool
	calls, reported, captured int
}

// Run runs a script, and writes each smarttest.Event as a line, last the End.
func Run(r smarttest.Request, out io.Writer) error {
	ctx, cancel := context.WithTimeout(context.Background(), r.Limits.Timeout)
	defer cancel()
	dialer := &reach.Dialer{Proxy: r.Proxy, Allowed: r.Allowed}
	t := &run{Request: r, ctx: ctx, out: out, checks: map[string]bool{}}
	t.verified = &http.Transport{DialContext: dialer.DialContext, MaxResponseHeaderBytes: maxHeaders, ForceAttemptHTTP2: true,
		TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: time.Minute, ExpectContinueTimeout: time.Second}
	t.unverified = t.verified.Clone()
	t.unverified.TLSClientConfig = &tls.Config{InsecureSkipVerify: true} //nolint:gosec // The script asks for it.
	t.modules = t.load()
	t.thread = &starlark.Thread{Name: r.Name, Load: t.member,
		Print: func(_ *starlark.Thread, text string) { t.report(smarttest.Event{Output: text + "\n"}) },
		OnMaxSteps: func(*starlark.Thread) {
			_ = t.end(smarttest.TooManySteps, "the script ran more than %d steps", r.Limits.Steps) // it ends the thread
		}}
	t.thread.SetMaxExecutionSteps(r.Limits.Steps)
	defer context.AfterFunc(ctx, func() { t.thread.Cancel("timeout") })()
	_, err := starlark.ExecFileOptions(dialect, t.thread, r.Name, r.Script, t.modules)
	end := t.why(err)
	end.Steps = t.thread.ExecutionSteps()
	return json.NewEncoder(out).Encode(smarttest.Event{End: end})
}

// report writes a report, unless the test has reported too much.
func (t *run) report(e smarttest.Event) {
	line, err := json.Marshal(e)
	if t.reported += len(line); err == nil && t.reported <= t.Limits.Report {
		_, err = t.out.Write(append(line, '\n'))
	} else if err == nil {
		err = t.end(smarttest.ReportTooLarge, "the checks, calls and output of the test have more than %d bytes", t.Limits.Report)
	}
	if err != nil {
		t.thread.Cancel(err.Error())
	}
}

// end ends the test for a reason; the first one counts. It returns an error with the message.
func (t *run) end(reason smarttest.Reason, format string, args ...any) error {
	end := &smarttest.End{Reason: reason, Message: fmt.Sprintf(format, args...)}
	if t.ended == nil {
		t.ended = end
	}
	t.thread.Cancel(end.Message)
	return errors.New(end.Message)
}

// why returns how the script has ended.
func (t *run) why(err error) *smarttest.End {
	var (
		call    *url.Error
		invalid syntax.Error
		names   resolve.ErrorList
		end     = &smarttest.End{Reason: smarttest.Completed}
	)
	switch {
	case t.ended != nil:
		end = t.ended
	case t.ctx.Err() != nil:
		end = &smarttest.End{Reason: smarttest.TimedOut, Message: fmt.Sprintf("the test ran for longer than %s", t.Limits.Timeout)}
	case err == nil:
		return end
	case errors.As(err, &invalid), errors.As(err, &names):
		return &smarttest.End{Reason: smarttest.ScriptInvalid, Message: smarttest.Cut(err.Error())} // it begins with the position
	case errors.As(err, &call) && call.Timeout():
		end = &smarttest.End{Reason: smarttest.CallTimedOut, Message: smarttest.Cut(err.Error())}
	case errors.As(err, &call):
		end = &smarttest.End{Reason: smarttest.CallFailed, Message: smarttest.Cut(err.Error())}
	default:
		end = &smarttest.End{Reason: smarttest.ScriptFailed, Message: smarttest.Cut(err.Error())}
	}
	end.SourcePosition = where(err)
	return end
}

// where returns the place of an error in the script; nil: unknown.
func where(err error) *smarttest.Position {
	var failed *starlark.EvalError
	for i := 0; errors.As(err, &failed) && i < len(failed.CallStack); i++ {
		if at := failed.CallStack.At(i).Pos; at.Line > 0 {
			return &smarttest.Position{Line: at.Line, Col: at.Col}
		}
	}
	return nil
}

// caller returns the place in the script that calls the present function of a module.
func caller(thread *starlark.Thread) *smarttest.Position {
	at := thread.CallFrame(1).Pos
	return &smarttest.Position{Line: at.Line, Col: at.Col}
}
