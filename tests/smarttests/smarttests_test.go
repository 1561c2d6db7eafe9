package smarttests

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/trust"
	v2 "switchyard.dev/protos/controlplane/v2"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/tools/switchyard"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
)

// prices has a check that passes on the baseline and fails on the fork, in line 3.
const prices = `res = http.get("http://APP/list", capture=True, name="list")
ck = smart_test.check("price-is-{}", 10)
if res.json()["price"] != 10: ck.error("it is {}", res.json()["price"], errorAttrs={"price": res.json()["price"]})
smart_test.check("two-names") if len(res.json()["names"]) == 2 else smart_test.check("two-names").error("others")
`

// TestSmartTests runs tests on a sandbox and on its baseline.
func TestSmartTests(t *testing.T) {
	s := newSite(t)
	sandbox := s.sandbox("fork")
	t.Run("a check fails on the fork alone", func(t *testing.T) { s.in(t).checksOfBothSides(sandbox) })
	t.Run("the baseline alone", func(t *testing.T) { s.in(t).baselineAlone() })
	t.Run("reasons", func(t *testing.T) { s.in(t).reasons() })
	t.Run("cancelation", func(t *testing.T) { s.in(t).cancelation() })
	t.Run("the group is for tests alone", func(t *testing.T) { s.in(t).forTestsAlone() })
	t.Run("the published examples, from the command line", func(t *testing.T) { s.in(t).examples() })
	t.Run("the right to the sandbox", func(t *testing.T) { s.in(t).rightToTheSandbox() })
}

func (s *site) in(t *testing.T) *site {
	out := *s
	out.World = s.World.In(t)
	return &out
}

func (s *site) checksOfBothSides(sandbox v2.Sandbox) {
	s.Helper()
	x := s.ends(s.run("prices", sandbox.Name, prices, "1m"), "failed")
	checks := x.Results.Checks
	if len(checks.Sandbox) != 2 || len(checks.Baseline) != 2 || len(checks.Baseline[0].Errors) != 0 || len(checks.Sandbox[0].Errors) != 1 || checks.Sandbox[0].Name != "price-is-10" {
		s.Fatalf("the checks are %s", print(checks))
	}
	e := checks.Sandbox[0].Errors[0]
	if e.Message != "it is 12" || e.SourcePosition == nil || e.SourcePosition.Line == nil || *e.SourcePosition.Line != 3 {
		s.Errorf("the error is %s", print(e))
	}
	if d := x.Results.TrafficDiff; d == nil || d.Red.Captures != 1 || d.Captures != 1 {
		s.Errorf("the difference is %s", print(d))
	}
	var diff v2.TrafficDiffResult
	s.do("GET", "tests/executions/"+x.ID+"/traffic-diff-findings", nil, &diff)
	if ops := print(diff); !strings.Contains(ops, `"path":"/body/price"`) || strings.Contains(ops, "/body/request") {
		s.Errorf("the findings are %s", ops)
	}
	s.do("GET", "tests/executions/"+x.ID+"/traffic-diff", nil, &diff)
	if all := print(diff); !strings.Contains(all, `"uri":"/list"`) {
		s.Errorf("the calls are %s", all)
	}
	for _, name := range []*string{x.Status.TargetJob, x.Status.BaselineJob} {
		j := &crdv1.Job{ObjectMeta: metav1.ObjectMeta{Name: *name}}
		s.Get(j)
		if author := j.Annotations[crdv1.AnnotationAuthor]; author != `{"user":"switchyard:controlplane:acme"}` || j.Spec.RunnerGroup.Namespace != crdv1.SmartTestsNamespace {
			s.Errorf("job %s is of %s in %+v", *name, author, j.Spec.RunnerGroup)
		}
	}
	s.do("GET", "sandboxes/"+sandbox.Name, nil, &sandbox)
	if n := sandbox.Status.TestExecutions; n == nil || len(n.PhaseCounts) != 1 || *n.Checks.Failed != 1 || *n.Checks.Passed != 1 || *n.TrafficDiffs.Red != 1 {
		s.Errorf("the sandbox has %s", print(n))
	}
	var rows []v2.TestexecutionsQueryResult
	s.do("GET", "tests/executions/?runID=run-prices&label=area:front&targetSandbox=fork&executionPhase=failed&pageSize=1", nil, &rows)
	if len(rows) != 1 || rows[0].Execution.ID != x.ID {
		s.Errorf("the rows are %s", print(rows))
	}
	s.do("GET", "tests/executions/?runID=run-prices&cursor="+rows[0].Cursor, nil, &rows)
	if len(rows) != 0 {
		s.Errorf("the next page is %s", print(rows))
	}
}

func (s *site) baselineAlone() {
	s.Helper()
	x := s.ends(s.run("alone", "", prices, ""), "succeeded")
	if x.Status.TargetJob != nil || len(x.Results.Checks.Sandbox) != 2 || x.Results.TrafficDiff != nil {
		s.Errorf("it is %s", print(x))
	}
}

// reasons has the message of scripts that do not complete.
func (s *site) reasons() {
	s.Helper()
	for script, reason := range map[string]string{
		"while True: pass": "TooManySteps", `http.get("http://APP/wait")`: "TimedOut", "x = ": "ScriptInvalid", "fail('no')": "ScriptFailed", `http.get("http://169.254.169.254/")`: "AddressRefused",
	} {
		timeout := "5m"
		if reason == "TimedOut" {
			timeout = "2s"
		}
		x := s.ends(s.run(reason, "", script, timeout), "failed")
		if f := x.Status.FinalState; f == nil || f.Failed == nil || !strings.Contains(*f.Failed.Message, reason) {
			s.Errorf("%q: %s", script, print(x.Status))
		}
	}
}

func (s *site) cancelation() {
	s.Helper()
	x := s.run("wait", "", `http.get("http://APP/wait")`, "10m")
	s.Eventually("it runs", func() error {
		if j := s.execution(x.ID).Status.BaselineJob; j == nil {
			return fmt.Errorf("it has no job")
		}
		return nil
	})
	if err := s.call("PUT", "jobs/smart-test-"+x.ID+"-baseline/cancel", nil, nil); err == nil || !strings.Contains(err.Error(), "409") {
		s.Errorf("its job can be canceled: %v", err)
	}
	s.do("PUT", "tests/executions/"+x.ID+"/cancel", nil, nil)
	x = s.ends(x, "canceled")
	if c := x.Status.FinalState.Canceled; c == nil || *c.CanceledBy != "apiRequest" {
		s.Errorf("it is %s", print(x.Status))
	}
	if err := s.call("PUT", "tests/executions/"+x.ID+"/cancel", nil, nil); err == nil || !strings.Contains(err.Error(), "already finished") {
		s.Errorf("it can be canceled again: %v", err)
	}
}

func (s *site) forTestsAlone() {
	s.Helper()
	group := "smart-tests-" + cluster
	g := &crdv1.JobRunnerGroup{ObjectMeta: metav1.ObjectMeta{Namespace: crdv1.SmartTestsNamespace, Name: group}}
	s.Get(g)
	err := s.call("POST", "jobs", map[string]any{"spec": map[string]any{"runnerGroup": group, "script": "#!/bin/sh\n"}}, nil)
	if err == nil || !strings.Contains(err.Error(), "is for Smart Tests") {
		s.Errorf("a job of a user: %v", err)
	}
	err = s.call("PUT", "runnergroups/smart-tests-west", map[string]any{"spec": map[string]any{"cluster": cluster, "image": "mine"}}, nil)
	if err == nil || !strings.Contains(err.Error(), "are for Smart Tests") {
		s.Errorf("a group of a user with such a name: %v", err)
	}
	user := s.ClientWith(s.As("jo", "system:masters"), manager.Scheme)
	j := &crdv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "jos"}}
	j.Spec.RunnerGroup = crdv1.NamespacedName{Namespace: crdv1.SmartTestsNamespace, Name: group}
	j.Spec.Content.Script = "#!/bin/sh\n"
	if err := user.Create(s.Context(), j); err == nil || !strings.Contains(err.Error(), "only the control plane writes it") {
		s.Errorf("a Job of a user of the cluster: %v", err)
	}
	if err := user.Patch(s.Context(), g, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"image":"another"}}`))); err == nil || !strings.Contains(err.Error(), "only the control plane writes it") {
		s.Errorf("a change of the group: %v", err)
	}
}

// examples runs the published examples on the sandbox, of which one has checks that fail.
func (s *site) examples() {
	s.Helper()
	const from = "../../workflows/smarttest/interpreter/testdata/published"
	all, err := os.ReadDir(from)
	s.Must(err)
	dir := s.TempDir()
	s.Must(os.WriteFile(filepath.Join(dir, ".labels"), []byte("area=published\n"), 0o600))
	for _, f := range all {
		text, err := os.ReadFile(filepath.Join(from, f.Name()))
		s.Must(err)
		s.Must(os.WriteFile(filepath.Join(dir, f.Name()), []byte(strings.ReplaceAll(string(text), "@URL@", "http://"+s.app.address)), 0o600))
	}
	text := s.command(exit.No, "test", "run", "--sandbox", "fork", dir)
	for _, want := range []string{fmt.Sprintf("1 of %d tests have failed", len(all)), "checks.star on sandbox fork: failed (3 of 6 checks have failed.)", "methods.star on sandbox fork: succeeded", "passed order-response", "missing absent"} {
		if !strings.Contains(text, want) {
			s.Errorf("%q is not printed: %s", want, text)
		}
	}
	if text := s.command(exit.OK, "test", "list", "--sandbox", "fork", "--label", "area:published", "--phase", "failed"); strings.Count(text, "\n") != 2 || !strings.Contains(text, "checks.star") {
		s.Errorf("the list is %s", text)
	}
}

// command runs the command line, and returns its output.
func (s *site) command(code exit.Code, args ...string) string {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	var out bytes.Buffer
	env := map[string]string{"SIGNADOT_API_KEY": key}
	got := switchyard.Main(ctx, command.Config{Name: "switchyard", In: strings.NewReader(""), Out: &out, Err: &out, Getenv: func(name string) string { return env[name] }},
		append(args, "--control-plane", "https://"+s.main.Listeners["api"].Addr().String(), "--control-plane-ca", filepath.Join(s.dir, trust.BundleFile)))
	if got != code {
		s.Fatalf("switchyard %s: exit code %d, want %d: %s", strings.Join(args, " "), got, code, out.String())
	}
	return out.String()
}

// rightToTheSandbox takes the rights of users, last.
func (s *site) rightToTheSandbox() {
	s.Helper()
	s.Must(s.Client.Delete(s.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "deliveries-users"}}, &client.DeleteOptions{}))
	s.Eventually("a run is refused", func() error { // the agent knows the rights for some seconds
		x := s.run("refused", "fork", prices, "1m")
		s.Eventually("it has ended", func() error {
			if x = s.execution(x.ID); x.Status.FinishedAt == nil {
				return fmt.Errorf("it is %s", x.Status.Phase)
			}
			return nil
		})
		if f := x.Status.FinalState; f == nil || f.Failed == nil || !strings.Contains(*f.Failed.Message, "has no right to its sandbox") || x.Status.TargetJob != nil {
			return fmt.Errorf("it is %s", print(x.Status))
		}
		return nil
	})
}
