// Package command is `smart-test run`: its flags, its document and its exit codes.
package command

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"switchyard.dev/eventbus/wake"
	"switchyard.dev/workflows/smarttest"
	"switchyard.dev/workflows/smarttest/child"
	"switchyard.dev/workflows/smarttest/find"
)

// Exit codes of the program.
const (
	// Passed: all tests are completed, and all checks have passed.
	Passed = iota
	// Failed: all tests are completed, and a check has failed.
	Failed
	// CannotRun: there is no test, or one cannot be read, or the arguments are wrong.
	CannotRun
	// Ended: a test is not completed.
	Ended
)

// traces are the values of -traces.
var traces = regexp.MustCompile(`^[0-9a-f]{16}$`)

// pause is between the runs of a test: times in seconds differ.
const pause = 1100 * time.Millisecond

// Interpret is the argument of the program with which it calls child.Serve.
const Interpret = "interpret"

// Main is the program.
type Main struct {
	// Executable is this program.
	Executable     string
	Getenv         func(string) string
	Stdout, Stderr io.Writer
}

// Run runs the tests that arguments name, one after the other, and prints the document {"tests": […], "passed": …}, each
// test when it ends, and a line about it on Stderr. It returns the exit code. A test with captures has several results if it
// has several runs.
func (m *Main) Run(ctx context.Context, args []string) int {
	runs := 1
	r, tests, err := m.parse(args, &runs)
	if err != nil {
		fmt.Fprintln(m.Stderr, "smart-test:", err)
		return CannotRun
	}
	code, before := Passed, `{"tests":[`
	for _, t := range tests {
		for n := 1; ; n++ {
			result := r.Run(ctx, t)
			switch {
			case result.Reason != smarttest.Completed:
				code = Ended
			case !result.Passed:
				code = max(code, Failed)
			}
			content, err := json.Marshal(result)
			if err == nil {
				_, err = fmt.Fprintf(m.Stdout, "%s%s", before, content)
			}
			if err != nil {
				fmt.Fprintln(m.Stderr, "smart-test: the result cannot be printed:", err)
				return CannotRun
			}
			fmt.Fprintln(m.Stderr, t.Name, map[bool]string{true: "passed", false: "failed"}[result.Passed], result.Reason, result.Message)
			before = ",\n"
			captures := slices.ContainsFunc(result.Calls, func(c smarttest.Call) bool { return c.Captured })
			if n >= runs || !captures || result.Reason != smarttest.Completed || !wake.Sleep(ctx, pause) {
				break
			}
		}
	}
	if _, err := fmt.Fprintf(m.Stdout, "],\"passed\":%t}\n", code == Passed); err != nil {
		return CannotRun
	}
	return code
}

// parse reads the flags, the tests, and the proxy from the variables of jobs.
func (m *Main) parse(args []string, runs *int) (r child.Runner, tests []smarttest.Test, err error) {
	r = child.Runner{Settings: smarttest.Settings{Limits: smarttest.Defaults()}, Command: []string{m.Executable, Interpret}}
	all := flag.NewFlagSet("smart-test run", flag.ContinueOnError)
	all.SetOutput(m.Stderr)
	all.DurationVar(&r.Limits.Timeout, "timeout", r.Limits.Timeout, "timeout of each test")
	all.Int64Var(&r.Limits.Memory, "memory", r.Limits.Memory, "memory of a script, in bytes")
	all.Uint64Var(&r.Limits.Steps, "steps", r.Limits.Steps, "steps of a script")
	name := all.String("name", "", "name of the test, if it is one (default: that of its file)")
	all.IntVar(runs, "runs", 1, "runs of a test with captures")
	all.Func("allow", "`IP:PORT` that tests can connect to although it is an address of this host; repeatable", func(value string) error {
		address, err := netip.ParseAddrPort(value)
		r.Allowed = append(r.Allowed, address)
		return err
	})
	all.Func("elide", "`header` that captures do not have; repeatable", func(value string) error {
		r.Elided = append(r.Elided, value)
		return nil
	})
	all.Func("traces", "the first 16 `digits` of the traces of captured calls (default: random)", func(value string) error {
		r.Traces = value
		if !traces.MatchString(value) {
			return errors.New("it has 16 hexadecimal digits in lower case")
		}
		return nil
	})
	if err = all.Parse(append(m.variables(), args...)); err != nil {
		return r, nil, err
	}
	if proxy := cmp.Or(m.Getenv("http_proxy"), m.Getenv("HTTP_PROXY")); proxy != "" {
		u, err := url.Parse(proxy)
		if err != nil || u.Scheme != "http" || u.Port() == "" {
			return r, nil, fmt.Errorf("http_proxy is %.256q: tests use a proxy of the form http://HOST:PORT", proxy)
		}
		r.Proxy = u.Host
	}
	tests, err = find.At(all.Args()...)
	switch {
	case err != nil:
	case r.Limits.Timeout <= 0 || r.Limits.Memory <= 0 || r.Limits.Steps == 0:
		err = errors.New("limits are positive")
	case len(tests) == 0:
		err = fmt.Errorf("no *.star file is found in %q", all.Args())
	case *name != "" && len(tests) > 1:
		err = fmt.Errorf("-name is for one test, and %d are found", len(tests))
	default:
		tests[0].Name = cmp.Or(*name, tests[0].Name)
		if m.Getenv(smarttest.EnvName) != "" {
			_, tests[0].Script, _ = strings.Cut(tests[0].Script, "\n")
		}
	}
	return r, tests, err
}

// variables returns the flags that are in variables.
func (m *Main) variables() (flags []string) {
	for name, flag := range map[string]string{smarttest.EnvName: "-name=", smarttest.EnvTimeout: "-timeout=", smarttest.EnvRuns: "-runs=", smarttest.EnvTraces: "-traces=", smarttest.EnvElide: "-elide=", smarttest.EnvAllow: "-allow="} {
		values := []string{m.Getenv(name)}
		if name == smarttest.EnvElide || name == smarttest.EnvAllow {
			values = strings.Split(values[0], ",")
		}
		for _, value := range values {
			if value != "" {
				flags = append(flags, flag+value)
			}
		}
	}
	return flags
}
