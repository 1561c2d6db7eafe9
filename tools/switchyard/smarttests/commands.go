// Package smarttests has the commands of Smart Tests, which a control plane runs.
package smarttests

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	v2 "switchyard.dev/protos/controlplane/v2"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/switchyard/command/plane"
	"switchyard.dev/tools/switchyard/show"
)

const about = `Run Smart Tests, Starlark scripts with HTTP requests and checks, in the cluster of a sandbox: on the
sandbox and on its baseline. A control plane runs them (--control-plane); the user needs the right to
get the sandbox.`

// Command returns the command of this package.
func Command(s *command.Session) *cobra.Command {
	c := command.Group(&cobra.Command{Use: "test", Short: "Run Smart Tests against a sandbox and its baseline", Aliases: []string{"tests", "smart-test"}, Long: about},
		run(s), get(s), list(s), cancel(s), apply(s), remove(s))
	command.KnowPlane(c.Commands()...)
	return c
}

// with returns the action of a command that needs the control plane, as command.With.
func with(s *command.Session, do func(ctx context.Context, p *plane.Plane, args []string) error) func(*cobra.Command, []string) error {
	return command.With(s, s.OpenPlane, do)
}

func get(s *command.Session) *cobra.Command {
	return &cobra.Command{Use: "get ID", Short: "Show an execution of a test", Args: cobra.ExactArgs(1), RunE: with(s, func(ctx context.Context, p *plane.Plane, args []string) error {
		x, err := plane.Answer[v2.TestExecution](p.API.GetTestExecution(ctx, p.Org, args[0]))
		if err != nil {
			return err
		}
		return s.Show.Report(x, show.Plain(details(x)))
	})}
}

func list(s *command.Session) *cobra.Command {
	q := &v2.QueryTestExecutionsParams{OrderDir: new("desc"), PageSize: new(200)}
	c := &cobra.Command{Use: "list", Short: "List executions of tests, the newest first", Args: cobra.NoArgs, RunE: with(s, func(ctx context.Context, p *plane.Plane, _ []string) error {
		all, err := rows(ctx, p, q)
		if err != nil {
			return err
		}
		if len(all) == 0 {
			return s.Show.Report(all, "no executions of tests\n")
		}
		return s.Show.Report(all, table(all))
	})}
	for name, of := range map[string]struct {
		to   **string
		help string
	}{
		"run": {&q.RunID, "only those of this `run`"}, "sandbox": {&q.TargetSandbox, "only those on this `sandbox`"}, "test": {&q.TestName, "only those of this `test`"},
		"phase": {&q.ExecutionPhase, "only those in this `phase`: pending, in_progress, failed, succeeded or canceled"},
	} {
		c.Flags().Func(name, of.help, func(value string) error { *of.to = &value; return nil })
	}
	c.Flags().StringSliceVar(&q.Label, "label", nil, "only those with this label, `NAME:VALUE`; repeatable")
	return c
}

func cancel(s *command.Session) *cobra.Command {
	var of string
	c := &cobra.Command{Use: "cancel (ID | --run RUN)", Short: "Cancel executions that have not ended", Args: cobra.MaximumNArgs(1)}
	c.Flags().StringVar(&of, "run", "", "cancel all executions of this `run`")
	c.RunE = with(s, func(ctx context.Context, p *plane.Plane, ids []string) error {
		if (of == "") == (len(ids) == 0) {
			return exit.Usage.Errorf("name an execution or --run RUN, and not both")
		}
		if of != "" {
			all, err := ofRun(ctx, p, of)
			if err != nil {
				return err
			}
			for _, x := range all {
				if !ended(x) {
					ids = append(ids, x.ID)
				}
			}
		}
		for _, id := range ids {
			if _, err := plane.Answer[v2.EmptyResponse](p.API.CancelTestExecution(ctx, p.Org, id)); err != nil {
				return err
			}
			_, _ = io.WriteString(s.Out, show.Plain(fmt.Sprintf("test execution %s is canceled\n", id)))
		}
		return nil
	})
	return c
}

func apply(s *command.Session) *cobra.Command {
	var file string
	c := &cobra.Command{
		Use: "apply -f FILE", Short: "Create or change a test that the control plane keeps", Args: cobra.NoArgs,
		Long: "Create or change a test from its published specification: name, and spec with script, defaultTimeout and triggers.",
	}
	c.Flags().StringVarP(&file, "filename", "f", "", "`file` with the specification, YAML or JSON")
	_ = c.MarkFlagRequired("filename") // it exists
	c.RunE = with(s, func(ctx context.Context, p *plane.Plane, _ []string) error {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		var of struct {
			Name string      `json:"name"`
			Spec v2.TestSpec `json:"spec"`
		}
		if err := yaml.UnmarshalStrict(text, &of); err != nil {
			return exit.Usage.Errorf("%s is no test: %w", file, err)
		}
		t, err := plane.Answer[v2.Test](p.API.ApplyTest(ctx, p.Org, of.Name, of.Spec))
		if err != nil {
			return err
		}
		return s.Show.Report(t, show.Plain(fmt.Sprintf("test %s is written, with %d triggers\n", t.Name, len(t.Spec.Triggers))))
	})
	return c
}

func remove(s *command.Session) *cobra.Command {
	return &cobra.Command{Use: "delete NAME", Short: "Delete a test that the control plane keeps", Args: cobra.ExactArgs(1), RunE: with(s, func(ctx context.Context, p *plane.Plane, args []string) error {
		_, err := plane.Answer[v2.EmptyResponse](p.API.DeleteTest(ctx, p.Org, args[0]))
		if err == nil {
			_, err = io.WriteString(s.Out, show.Plain(fmt.Sprintf("test %s is deleted; its executions stay\n", args[0])))
		}
		return err
	})}
}

// rows returns the executions of a page.
func rows(ctx context.Context, p *plane.Plane, q *v2.QueryTestExecutionsParams) ([]v2.TestExecution, error) {
	all, err := plane.Answer[[]v2.TestexecutionsQueryResult](p.API.QueryTestExecutions(ctx, p.Org, q))
	out := make([]v2.TestExecution, 0, len(all))
	for _, row := range all {
		out = append(out, row.Execution)
		q.Cursor = &row.Cursor
	}
	return out, err
}

// ofRun returns all executions of a run.
func ofRun(ctx context.Context, p *plane.Plane, id string) (all []v2.TestExecution, err error) {
	q := &v2.QueryTestExecutionsParams{RunID: &id, PageSize: new(200)}
	for {
		page, err := rows(ctx, p, q)
		if all = append(all, page...); err != nil || len(page) == 0 {
			return all, err
		}
	}
}

func ended(x v2.TestExecution) bool {
	return x.Status.Phase != v2.TestexecutionsPhasePending && x.Status.Phase != v2.TestexecutionsPhaseInProgress
}

// duration is how long an execution has run; empty: it runs.
func duration(x v2.TestExecution) string {
	from, first := time.Parse(time.RFC3339, ptr.Deref(x.Status.StartedAt, ""))
	to, last := time.Parse(time.RFC3339, ptr.Deref(x.Status.FinishedAt, ""))
	if first != nil || last != nil {
		return ""
	}
	return to.Sub(from).String()
}
