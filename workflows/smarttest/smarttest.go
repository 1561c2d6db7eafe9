package smarttest

import (
	"encoding/json"
	"net/netip"
	"strings"
	"time"
)

// Test is a test, as it is found.
type Test struct {
	Name   string            `json:"name"`
	Path   string            `json:"path,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	Script string            `json:"-"`
	// Repo is HOST/PATH of its git repository, Branch and CommitSHA its checkout, and RepoPath its path there; empty: it has none.
	Repo, Branch, CommitSHA, RepoPath string `json:"-"`
}

// Reason is why a test has ended.
type Reason string

// Reasons. All but Completed are failures of the test itself, whatever its checks are.
const (
	// Completed: the script ran to its end.
	Completed Reason = "Completed"
	// ScriptInvalid: the script is no Starlark, or uses a name that does not exist; nothing of it ran.
	ScriptInvalid Reason = "ScriptInvalid"
	// ScriptFailed: an error of the script ended it; CallFailed, CallTimedOut: that of an HTTP call.
	ScriptFailed Reason = "ScriptFailed"
	CallFailed   Reason = "CallFailed"
	CallTimedOut Reason = "CallTimedOut"
	// Limits. ScriptTooLarge: before it starts. TooDeep: the script or its data is nested too deeply.
	ScriptTooLarge Reason = "ScriptTooLarge"
	TimedOut       Reason = "TimedOut"
	TooManySteps   Reason = "TooManySteps"
	OutOfMemory    Reason = "OutOfMemory"
	TooDeep        Reason = "TooDeep"
	ReportTooLarge Reason = "ReportTooLarge"
	// AnswerTooLarge, TooManyRedirects and AddressRefused: of HTTP calls, also of functions that return errors (try_get).
	AnswerTooLarge   Reason = "AnswerTooLarge"
	TooManyRedirects Reason = "TooManyRedirects"
	AddressRefused   Reason = "AddressRefused"
	// Canceled: the run was ended from outside. Crashed: the interpreter itself has failed.
	Canceled Reason = "Canceled"
	Crashed  Reason = "Crashed"
)

const (
	// MaxScript bounds a script, in bytes.
	MaxScript = 1 << 20
	// MaxText bounds a message, in bytes; longer ones are cut.
	MaxText = 4 << 10
	// MaxCaptured bounds a body of a capture, in bytes; the others are counted.
	MaxCaptured = 64 << 10
	// MaxRedirects bounds the redirects of a call.
	MaxRedirects = 10
)

// Variables in which a control plane and an operator give settings: a test that is the script of a job has no arguments.
const (
	// EnvName is the name of the test. Its first line is then the interpreter of the job, and is removed.
	EnvName = "SMART_TEST_NAME"
	// EnvTimeout is the timeout of each run, and EnvRuns how many runs a test with captures has.
	EnvTimeout = "SMART_TEST_TIMEOUT"
	EnvRuns    = "SMART_TEST_RUNS"
	// EnvTraces is that of Settings.
	EnvTraces = "SMART_TEST_TRACES"
	// EnvElide are the headers that captures do not have, and EnvAllow the addresses of -allow, both with commas.
	EnvElide = "SMART_TEST_ELIDE"
	EnvAllow = "SMART_TEST_ALLOW"
)

// Limits are those of one test.
type Limits struct {
	// Timeout is that of the test.
	Timeout time.Duration `json:"timeout"`
	// Memory is that of the script beyond the interpreter's own, in bytes.
	Memory int64 `json:"memory"`
	// Steps is the number of steps of Starlark.
	Steps uint64 `json:"steps"`
	// Answer is the size of a response, decoded, and Report that of all checks, calls and output of the test, in bytes.
	// Captures have at most half of a report, and are dropped beyond that.
	Answer int64 `json:"answer"`
	Report int   `json:"report"`
}

// Defaults returns the limits of a test that sets none.
func Defaults() Limits {
	return Limits{Timeout: 5 * time.Minute, Memory: 256 << 20, Steps: 200_000_000, Answer: 16 << 20, Report: 16 << 20}
}

// Settings are those of a run.
type Settings struct {
	Limits Limits `json:"limits"`
	// Proxy is the HTTP proxy that adds the routing key, host:port; empty: none. It is the only address of this host that
	// connections can go to, besides Allowed.
	Proxy   string           `json:"proxy,omitempty"`
	Allowed []netip.AddrPort `json:"allowed,omitempty"`
	// Elided are headers that captures do not have, besides those of the connection and of credentials.
	Elided []string `json:"elided,omitempty"`
	// Traces is the beginning of the IDs of the traces of captured calls, 16 hexadecimal digits; empty: they are random.
	Traces string `json:"traces,omitempty"`
}

// Request is the test that the interpreter gets.
type Request struct {
	Settings
	Name   string `json:"name"`
	Script string `json:"script"`
}

// Position is a place in a script, both from 1.
type Position struct {
	Line int32 `json:"line"`
	Col  int32 `json:"col"`
}

// CheckError is an error of a check.
type CheckError struct {
	Message        string                     `json:"message"`
	Attrs          map[string]json.RawMessage `json:"attrs,omitempty"`
	SourcePosition *Position                  `json:"sourcePosition,omitempty"`
}

// Check is a check; without errors it has passed.
type Check struct {
	Name   string       `json:"name"`
	Errors []CheckError `json:"errors,omitempty"`
}

// Call is an HTTP call of the script.
type Call struct {
	// Number counts the calls from 1, in the order in which the script begins them: with the name of the test, the calls
	// of two runs pair by it. Name is the one of the script; it need not be unique.
	Number         int       `json:"number"`
	Name           string    `json:"name,omitempty"`
	Method         string    `json:"method,omitempty"`
	URL            string    `json:"url,omitempty"`
	Status         int       `json:"status,omitempty"`
	Problem        string    `json:"problem,omitempty"`
	SourcePosition *Position `json:"sourcePosition,omitempty"`
	// Captured reports that the script asked for a capture. Exchange is that: switchyard.traffic.v1.Exchange as protobuf
	// JSON, with the request as the script made it and the last response. It is missing if the captures are too large.
	Captured bool            `json:"captured,omitempty"`
	Exchange json.RawMessage `json:"exchange,omitempty"`
}

// End is how a test has ended.
type End struct {
	Reason         Reason    `json:"reason"`
	Message        string    `json:"message,omitempty"`
	SourcePosition *Position `json:"sourcePosition,omitempty"`
	Steps          uint64    `json:"steps,omitempty"`
}

// Event is one report of the interpreter, of which one field is set; Error belongs to the check named Check.
type Event struct {
	Check  string      `json:"check,omitempty"`
	Error  *CheckError `json:"error,omitempty"`
	Call   *Call       `json:"call,omitempty"`
	Output string      `json:"output,omitempty"`
	End    *End        `json:"end,omitempty"`
}

// Result is the result of a test. Passed: it is Completed, and no check has an error.
type Result struct {
	Test
	Passed bool `json:"passed"`
	End
	Checks []Check `json:"checks"`
	Calls  []Call  `json:"calls"`
	Output string  `json:"output,omitempty"`
	// PeakMemory is the largest memory of the interpreter, in bytes; it is never below that of its parent.
	PeakMemory int64 `json:"peakMemory,omitempty"`

	places map[string]int
	output strings.Builder
}

// Add adds a report, of which the last one has the End.
func (r *Result) Add(e Event) {
	switch {
	case e.Call != nil:
		r.Calls = append(r.Calls, *e.Call)
	case e.Output != "":
		r.output.WriteString(e.Output)
	case e.End != nil:
		r.End, r.Output = *e.End, r.output.String()
		r.Passed = r.Reason == Completed
		for _, c := range r.Checks {
			r.Passed = r.Passed && len(c.Errors) == 0
		}
	default:
		at, known := r.places[e.Check]
		if !known {
			at = len(r.Checks)
			r.places[e.Check], r.Checks = at, append(r.Checks, Check{Name: e.Check})
		}
		if e.Error != nil {
			r.Checks[at].Errors = append(r.Checks[at].Errors, *e.Error)
		}
	}
}

// ResultOf returns the result of a test that has reported nothing.
func ResultOf(t Test) *Result {
	return &Result{Test: t, Checks: []Check{}, Calls: []Call{}, places: map[string]int{}}
}

// Cut returns a text of at most MaxText bytes, with a mark if it was longer.
func Cut(text string) string {
	if len(text) > MaxText {
		return text[:MaxText] + "…"
	}
	return text
}
