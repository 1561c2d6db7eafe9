package smarttests

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"maps"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"switchyard.dev/eventbus/wake"
	v2 "switchyard.dev/protos/controlplane/v2"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/switchyard/command/plane"
	"switchyard.dev/tools/switchyard/show"
	"switchyard.dev/workflows/smarttest"
	"switchyard.dev/workflows/smarttest/find"
)

// pause is between two reads of a run.
const pause = time.Second

// asked is what a run is to do.
type asked struct {
	s                             *command.Session
	cluster, sandbox, group, name string
	timeout, wait                 time.Duration
	publish, leave                bool
	labels                        map[string]string
}

func run(s *command.Session) *cobra.Command {
	a := &asked{s: s}
	c := &cobra.Command{
		Use: "run (PATH… | --test NAME) (--sandbox S | --routegroup R | --cluster C)", Short: "Run tests, and wait for their results",
		Long: `Run tests: files, all *.star files of folders and below, or a test that the control plane keeps. Each
runs on the sandbox or route group and on its baseline; with --cluster alone on the baseline. The exit
code is 1 if a test fails: a check fails on the sandbox, or a script does not complete.

Labels in files .labels (NAME=VALUE) are those of all tests in the folder and below.`,
		Example: "  switchyard test run --sandbox pr-12 tests/\n  switchyard test run --cluster demo --test prices",
	}
	f := c.Flags()
	f.StringVar(&a.sandbox, "sandbox", "", "run on this `sandbox`")
	f.StringVar(&a.group, "routegroup", "", "run on this route `group`")
	f.StringVar(&a.cluster, "cluster", "", "`cluster` (default: that of the sandbox or route group)")
	f.StringVar(&a.name, "test", "", "run this `test` of the control plane")
	f.DurationVar(&a.timeout, "test-timeout", 0, "timeout of each test (default: its own, or 5m)")
	f.DurationVar(&a.wait, "timeout", 0, "how long to wait for all results; 0: without a limit")
	f.BoolVar(&a.publish, "publish", false, "mark the results as published, which clients of the API can select")
	f.BoolVar(&a.leave, "no-wait", false, "do not wait for the results")
	f.StringToStringVar(&a.labels, "set-label", nil, "label of all tests, `NAME=VALUE`; repeatable")
	f.Lookup("set-label").DefValue = "" // not shown
	c.MarkFlagsMutuallyExclusive("sandbox", "routegroup")
	c.MarkFlagsOneRequired("sandbox", "routegroup", "cluster")
	c.RunE = func(c *cobra.Command, paths []string) error { return a.run(c.Context(), paths) }
	return c
}

// run begins the tests, and waits for their ends.
func (a *asked) run(ctx context.Context, paths []string) error {
	if (a.name == "") == (len(paths) == 0) {
		return exit.Usage.Errorf("name files or folders with tests, or one test with --test")
	}
	tests, err := find.At(paths...)
	if err != nil {
		return exit.Usage.Errorf("%w", err)
	}
	if len(tests) == 0 && a.name == "" {
		return exit.Usage.Errorf("no *.star file is found in %s", strings.Join(paths, ", "))
	}
	p, err := a.s.OpenPlane(ctx)
	if err != nil {
		return err
	}
	id := "run-" + strings.ToLower(rand.Text()[:13])
	if a.name != "" {
		tests = []smarttest.Test{{Name: a.name}}
	}
	for _, t := range tests {
		if err := a.begin(ctx, p, id, t); err != nil {
			return fmt.Errorf("%s: %w", t.Name, err)
		}
	}
	_, _ = io.WriteString(a.s.Err, show.Plain(fmt.Sprintf("run %s of %s has begun\n", id, show.Many(len(tests), "test"))))
	all, err := a.follow(ctx, p, id)
	if err != nil {
		return err
	}
	var text strings.Builder
	failed := 0
	for _, x := range all {
		text.WriteString(details(x))
		if ended(x) && x.Status.Phase != v2.TestexecutionsPhaseSucceeded {
			failed++
		}
	}
	if err := a.s.Show.Report(all, show.Plain(text.String())); err != nil || failed == 0 {
		return err
	}
	return exit.No.Errorf("%d of %d tests have failed", failed, len(all))
}

// begin begins one test.
func (a *asked) begin(ctx context.Context, p *plane.Plane, run string, t smarttest.Test) error {
	ctx, cancel := a.s.Patiently(ctx)
	defer cancel()
	c := &v2.TestExecutionContext{RunID: &run, Cluster: orNil(a.cluster)}
	if a.timeout > 0 {
		c.Timeout = new(a.timeout.String())
	}
	if a.publish {
		c.Publish = &a.publish
	}
	if a.sandbox+a.group != "" {
		c.Routing = &v2.JobRoutingContext{Sandbox: orNil(a.sandbox), Routegroup: orNil(a.group)}
	}
	labels := map[string]string{}
	maps.Copy(labels, t.Labels)
	maps.Copy(labels, a.labels)
	x := v2.TestExecution{Spec: v2.TestExecutionSpec{ExecutionContext: c, Labels: labels}}
	if a.name != "" {
		x.Spec.Hosted = &v2.HostedSpec{TestName: &a.name}
		_, err := plane.Answer[v2.TestExecution](p.API.RunHostedTest(ctx, p.Org, a.name, x))
		return err
	}
	x.Spec.External = &v2.ExternalSpec{TestName: &t.Name, Script: &t.Script, Repo: orNil(t.Repo), Branch: orNil(t.Branch), CommitSHA: orNil(t.CommitSHA), Path: orNil(t.RepoPath)}
	_, err := plane.Answer[v2.TestExecution](p.API.RunTest(ctx, p.Org, x))
	return err
}

// follow returns the executions of a run once all have ended.
func (a *asked) follow(ctx context.Context, p *plane.Plane, run string) ([]v2.TestExecution, error) {
	within, cancel := context.WithCancel(ctx)
	if a.wait > 0 {
		within, cancel = context.WithTimeout(ctx, a.wait)
	}
	defer cancel()
	for {
		reading, done := a.s.Patiently(ctx)
		all, err := ofRun(reading, p, run)
		done()
		open := 0
		for _, x := range all {
			if !ended(x) {
				open++
			}
		}
		if err != nil || open == 0 || a.leave {
			return all, err
		}
		if !wake.Sleep(within, pause) {
			return nil, exit.No.Errorf("%d of %d tests have not ended; %s test list --run %s shows them, and test cancel --run %[4]s stops them", open, len(all), a.s.Name, run)
		}
	}
}

func orNil(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
