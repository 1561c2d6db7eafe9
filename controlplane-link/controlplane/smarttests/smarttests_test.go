package smarttests

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"switchyard.dev/controlplane-link/controlplane/desired"
	"switchyard.dev/controlplane-link/controlplane/model"
	v2 "switchyard.dev/protos/controlplane/v2"
)

func TestNamesOfJobs(t *testing.T) {
	for name, want := range map[string]string{JobName("x1", Target): "x1", JobName("x1", Baseline): "x1", "smart-test-x1": "", "job-x1-sandbox": "", "smart-test-x1-other": ""} {
		if id, is := IDOf(name); is != (want != "") || is && id != want {
			t.Errorf("%s: %q, %t", name, id, is)
		}
	}
}

func TestRecordings(t *testing.T) {
	const id = "abcdefghijkl2"
	name := Recording(id, "pr-1")
	if ExecutionOf(name) != id || TracesOf(name) != Traces(id) || len(Traces(id)) != 16 || Traces("another") == Traces(id) {
		t.Errorf("%s is of execution %q, with traces %q", name, ExecutionOf(name), TracesOf(name))
	}
	for _, other := range []string{"pr-1-abcdefghij", "smart-test-" + id + "-sandbox", "smart-test-" + id + "-baseline-pr-1", "smart-test-abc-sandbox-pr-1"} {
		if TracesOf(other) != "" {
			t.Errorf("%s is of execution %q", other, ExecutionOf(other))
		}
	}
	for script, want := range map[string]bool{
		"http.get('http://a', capture=True)": true, "x = 1\n  http.get('http://a',\n    capture = True)": true, `http.get("http://a", **{"capture": True})`: true,
		`http.get("http://a/#b", capture=True)`: true, `http.get('http://a/\'#b', capture=True)`: true, `x("a") # "capture"`: false,
		"http.get('http://a')": false, "# with capture=True\nhttp.get('http://a') # capture": false, "recapture = 1": false, "": false,
	} {
		if Records(model.TestExecution{Script: script, RoutingKey: "k"}) != want {
			t.Errorf("%q: %t", script, !want)
		}
	}
	if Records(model.TestExecution{Script: "capture"}) {
		t.Error("the baseline alone is recorded")
	}
	for spec, want := range map[string]bool{`{"forks":[{}]}`: true, `{"local":[{}]}`: true, `{"virtual":[{}]}`: true, `{"endpoints":[{}]}`: false, `x`: false} {
		if HasMembers(model.Sandbox{Spec: []byte(spec)}) != want {
			t.Errorf("%s: %t", spec, !want)
		}
	}
	x := model.TestExecution{ID: id, RoutingKey: "k", Script: "x = 1", Timeout: time.Minute, Spec: v2.TestExecutionSpec{ExecutionContext: &v2.TestExecutionContext{}}}
	for side, want := range map[Side]bool{Target: true, Baseline: false} {
		if j, err := Job(x, side, Program, "g", time.Now()); err != nil || strings.Contains(string(j.Spec), Traces(id)) != want {
			t.Errorf("the job of %s is %s, %v", side, j.Spec, err)
		}
	}
}

// A sandbox triggers the older tests with a trigger for one of its workloads.
func TestTriggered(t *testing.T) {
	trigger := func(name, cluster string) []v2.TestTrigger {
		return []v2.TestTrigger{{ID: new("id"), SandboxOf: &v2.WorkloadWorkload{Kind: "Deployment", Namespace: "shop", Name: name}, ExecutionTemplate: &v2.TestExecutionTemplate{Cluster: &cluster, Timeout: new("90s")}}}
	}
	test := func(name string, generation int64, of []v2.TestTrigger) model.Test {
		return model.Test{Name: name, Generation: generation, Spec: v2.TestSpec{Script: new("x = 1"), Triggers: of}}
	}
	s := model.Sandbox{Org: "acme", Name: "pr-1", Cluster: "east", RoutingKey: "key", Generation: 9, Author: model.Author{Role: model.RoleMember}, Spec: []byte(
		`{"forks":[{"forkOf":{"kind":"deployment","namespace":"shop","name":"forked"}}],"virtual":[{"workload":{"kind":"Deployment","namespace":"shop","name":"virtual"}}],
		"local":[{"name":"l","from":{"kind":"Deployment","namespace":"shop","name":"local"}}]}`)}
	all := Triggered([]model.Test{
		test("forked", 8, trigger("forked", "")), test("local", 8, trigger("local", "east")), test("virtual", 8, trigger("virtual", "")), test("newer", 10, trigger("forked", "")),
		test("elsewhere", 8, trigger("forked", "west")), test("another", 8, trigger("other", "")), test("none", 8, nil),
	}, s)
	var names []string
	for _, x := range all {
		names = append(names, x.Test)
		if x.Sandbox != "pr-1" || x.RoutingKey != "key" || x.Revision != 9 || x.Author != s.Author || x.Timeout != 90*time.Second || x.Trigger != x.Test+"/id" || *x.Status.TriggeredBy.Sandbox != "pr-1" {
			t.Errorf("%+v", x)
		}
	}
	if got := strings.Join(names, " "); got != "forked local virtual" {
		t.Errorf("triggered: %s", got)
	}
}

// A document that was cut off has the runs before, and its end is a failure.
func TestADocumentThatIsCutOff(t *testing.T) {
	const first = `{"tests":[{"name":"t","passed":true,"reason":"Completed","checks":[{"name":"a"}],"calls":[]},` + "\n"
	x := model.TestExecution{ID: "x"}
	for text, want := range map[string]string{
		first + `{"name":"t","reason":"TimedOut","message":"it ran too long","checks":[],"calls":[]}],"passed":false}`: "TimedOut: it ran too long",
		"":               "it has printed no results",
		`{"tests":[{"na`: "it has ended before its first result",
		`{"tests":[],"p`: "it has ended before its first result",
	} {
		out := Conclude(x, map[Side]Printed{Baseline: Read(strings.NewReader(text))}, time.Now())
		if out.Status.Phase != model.TestFailed || !strings.Contains(*out.Status.FinalState.Failed.Message, want) {
			t.Errorf("%q: %+v", text, out.Status)
		}
	}
	if out := Conclude(x, map[Side]Printed{Baseline: Read(strings.NewReader(first + `{"name":"t","rea`))}, time.Now()); out.Status.Phase != model.TestSucceeded || len(out.Results.Checks.Sandbox) != 1 {
		t.Errorf("%+v", out)
	}
}

// Checks beyond the bound of a row are counted.
func TestManyChecks(t *testing.T) {
	long := strings.Repeat("x", 4000)
	text := `{"tests":[{"reason":"Completed","calls":[],"checks":[` + strings.TrimSuffix(strings.Repeat(`{"name":"`+long+`","errors":[{"message":"no"}]},`, 100), ",") + `]}]}`
	out := Conclude(model.TestExecution{ID: "x"}, map[Side]Printed{Baseline: Read(strings.NewReader(text))}, time.Now())
	checks := out.Results.Checks.Sandbox
	if last := checks[len(checks)-1]; len(checks) > 70 || !strings.Contains(last.Name, "more: see the output of job smart-test-x-baseline") || len(last.Errors) != 1 {
		t.Errorf("%d checks, the last is %+v", len(checks), last)
	}
	if why := *out.Status.FinalState.Failed.Message; !strings.Contains(why, "100 of ") {
		t.Error(why)
	}
}

func TestFilter(t *testing.T) {
	x := model.TestExecution{Test: "t", Cluster: "east", Sandbox: "pr-1", RoutingKey: "key", Revision: 9, RunID: "run", CreatedAt: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)}
	x.Spec = v2.TestExecutionSpec{External: &v2.ExternalSpec{Repo: new("example.org/r"), Path: new("p.star"), Branch: new("main"), CommitSHA: new("abc")}, Labels: map[string]string{"area": "front"}}
	x.Status.Phase = model.TestFailed
	for query, want := range map[string]bool{
		"": true, "testName=t": true, "testName=u": false, "cluster=east&targetSandbox=pr-1&targetRoutingKey=key&targetRevision=9&runID=run": true, "targetRevision=8": false,
		"source=external": true, "source=hosted": false, "repo=example.org/r&repoPath=p.star&repoBranch=main&repoCommitSHA=abc": true, "repoBranch=dev": false,
		"label=area:front": true, "label=area:front&label=stage:pr": false, "executionPhase=failed": true, "executionPhase=pending": false, "isAutoDiff=true": false, "published=false": true,
		"from=2026-11-30T12:00:00Z": true, "from=2026-11-30T12:00:01Z": false, "to=2026-11-30T12:00:00Z": false, "skipDeletedTests=true": true, "triggerID=i": false, "triggerWorkload=Deployment/shop/a": false,
	} {
		q, _ := url.ParseQuery(query)
		keep, err := Filter(q, func(string) bool { return false })
		if err != nil || keep(x) != want {
			t.Errorf("%q: %t, %v", query, !want, err)
		}
	}
	for _, query := range []string{"label=area", "from=today"} {
		q, _ := url.ParseQuery(query)
		if _, err := Filter(q, nil); err == nil {
			t.Errorf("%q is accepted", query)
		}
	}
}

func TestTimeouts(t *testing.T) {
	for text, want := range map[string]time.Duration{"": 5 * time.Minute, "1h": time.Hour, "90s": 90 * time.Second, "1d": 0, "x": 0, "-1m": 0} {
		if d, is := Timeout(text); is != (want > 0) || is && d != want {
			t.Errorf("%q: %s, %t", text, d, is)
		}
	}
}

// Triggers without an id have that of their workload, which no other one has.
func TestIDsOfTriggers(t *testing.T) {
	one := v2.TestTrigger{SandboxOf: &v2.WorkloadWorkload{Kind: "Deployment", Namespace: "shop", Name: "cart"}}
	two, named := one, one
	two.SandboxOf = &v2.WorkloadWorkload{Kind: "Deployment", Namespace: "shop", Name: "front"}
	named.ID = new("deployment.shop.cart")
	for want, all := range map[string][]v2.TestTrigger{"": {one, two}, `has id "deployment.shop.cart" twice`: {one, two, named}} {
		err := Accept(model.Test{Name: "t", Spec: v2.TestSpec{Script: new("x = 1"), Triggers: all}})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v", want, err)
		}
	}
}

// The runner group of each cluster has a name that objects can have, and another one than those of others.
func TestNamesOfGroups(t *testing.T) {
	names := map[string]bool{}
	for _, cluster := range []string{"east", "East_1", "East_2", strings.Repeat("a", 250), "east."} {
		g := Group("acme", cluster, time.Now())
		if _, err := desired.RunnerGroup(g, 1); err != nil || names[g.Name] || !strings.HasPrefix(g.Name, GroupPrefix) || cluster == "east" && g.Name != "smart-tests-east" {
			t.Errorf("%s: %s, %v", cluster, g.Name, err)
		}
		names[g.Name] = true
	}
}

// The row has a part of the captures that the other side lacks, and no output.
func TestManyUnpairedCaptures(t *testing.T) {
	calls := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(`{"number":%d,"name":"c%[1]d","captured":true,"exchange":{"id":"e%[1]d","request":{"method":"GET","target":"/%[1]d"},"response":{"status":200}}}`, i))
		}
		return `{"tests":[{"reason":"Completed","output":"much","checks":[],"calls":[` + strings.Join(all, ",") + `]}]}`
	}
	printed := map[Side]Printed{Baseline: Read(strings.NewReader(calls(1))), Target: Read(strings.NewReader(calls(3000)))}
	if d := Diff(model.TestExecution{ID: "x", RoutingKey: "key"}, printed); d == nil || len(d.UnpairedCaptures) != mostUnpaired || d.Captures != 1 {
		t.Errorf("%d of %d are unpaired", len(d.UnpairedCaptures), d.Captures)
	}
	if text := printed[Target].Runs[0].Output; text != "" {
		t.Errorf("%q is in memory", text)
	}
}
