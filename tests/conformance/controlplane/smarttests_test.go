package controlplane

import (
	"io"
	"strings"
	"testing"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/smarttests"
	"switchyard.dev/controlplane-link/controlplane/teststore"
	v2 "switchyard.dev/protos/controlplane/v2"
	"switchyard.dev/workflows/jobexec/results"
)

// smartTests adds tests, and executions: tx-1 waits, and tx-2 has ended, with captured calls that differ.
func (w *world) smartTests() {
	w.Helper()
	in, ctx := teststore.Store{Store: w.store}, w.ctx()
	for _, name := range []string{"demo-test", "new-test"} {
		_, err := in.PutTest(ctx, model.Test{Org: org, Name: name, Spec: v2.TestSpec{Script: new("x = 1")}, UpdatedAt: w.now}, w.event())
		w.must(err)
	}
	for _, id := range []string{"tx-1", "tx-2"} {
		x := model.TestExecution{Org: org, ID: id, Cluster: "demo", Test: "t", RunID: "run-" + id[3:], Sandbox: "demo-sb", RoutingKey: "k7w2xq9m4zt1c", Script: "x", CreatedAt: w.now}
		x.Spec.External, x.Spec.ExecutionContext = &v2.ExternalSpec{TestName: new("t")}, &v2.TestExecutionContext{Cluster: new("demo"), RunID: &x.RunID}
		x, err := in.Submit(ctx, x, w.event())
		w.must(err)
		if id == "tx-1" {
			continue
		}
		printed := map[smarttests.Side]smarttests.Printed{}
		for side, price := range map[smarttests.Side]string{smarttests.Target: "MTI=", smarttests.Baseline: "MTA="} { // 12 and 10
			text := `{"tests":[{"reason":"Completed","checks":[{"name":"price","errors":[{"message":"it is 12","attrs":{"n":1},"sourcePosition":{"line":3,"col":1}}]}],"calls":[{"number":1,"name":"list","captured":true,
				"exchange":{"id":"c","request":{"method":"GET","target":"/list"},"response":{"status":200,"headers":[{"name":"Content-Type","value":"application/json"}],"body":"` + price + `","bodySize":"2"}}}]}]}`
			printed[side] = smarttests.Read(strings.NewReader(text))
			job, m := smarttests.JobName(id, side), results.Manifest{Execution: 1, At: w.now, Files: []results.File{{Path: "stdout", Space: results.System}}}
			w.must(w.kept.Put(ctx, org, job, &m.Files[0], func(to io.Writer) error { _, err := io.WriteString(to, text); return err }))
			w.must(w.kept.Finish(ctx, org, job, m))
		}
		_, err = in.Observe(ctx, smarttests.Conclude(x, printed, w.now), w.now)
		w.must(err)
	}
}

// TestSmartTests has the answers of executions beside those that clients have been recorded with.
func TestSmartTests(t *testing.T) {
	w := newWorld(t)
	for path, words := range map[string][]string{
		"/tests/executions/tx-2":                                         {`"phase":"failed"`, "1 of 1 checks have failed", `"red":{"additions":0,"captures":1`},
		"/tests/executions/tx-2/traffic-diff":                            {`"uri":"/list"`, `"oldValue":10`, `"value":12`},
		"/tests/executions/tx-2/traffic-diff-findings?maxFindings=1":     {`"op":"replace"`},
		"/tests/executions/tx-2/traffic-diff-findings?category=green":    {`"target":"smart-test-tx-2-sandbox"`},
		"/tests/executions/tx-2/traffic-diff-findings?category=blue":     {`category is \"blue\"; use red, yellow or green`},
		"/tests/executions/tx-1/traffic-diff":                            {"has not ended"},
		"/tests/executions/?pageSize=0":                                  {"it must be between 1 and 200"},
		"/tests/executions/?cursor=x":                                    {"cursor is"},
		"/tests/executions/?from=today":                                  {"write a time"},
		"/tests/new-test/executions/":                                    {"[]"},
		"/tests/no-such/executions/":                                     {"test not found"},
		"/tests/executions/?targetSandbox=demo-sb&executionPhase=failed": {`"id":"tx-2"`},
		"/sandboxes/demo-sb":                                             {`"jobs"`},
	} {
		if got := w.send("GET", orgPath+path, ""); !containsAll(string(got.body), words) {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
	for body, word := range map[string]string{
		`{"spec":{}}`: "spec.external",
		`{"spec":{"external":{"testName":"t"},"executionContext":{"cluster":"demo"}}}`:                                                    "spec.external.script",
		`{"spec":{"external":{"testName":"t","script":"x"},"executionContext":{"cluster":"no-such"}}}`:                                    `cluster \"no-such\" not found`,
		`{"spec":{"external":{"testName":"t","script":"x"}}}`:                                                                             "spec.executionContext.cluster",
		`{"spec":{"external":{"testName":"t","script":"x"},"executionContext":{"cluster":"demo","timeout":"2d"}}}`:                        "at most 1h",
		`{"spec":{"external":{"testName":"t","script":"x"},"executionContext":{"cluster":"second","routing":{"sandbox":"demo-sb"}}}}`:     `sandbox \"demo-sb\" is in cluster \"demo\", not in \"second\"`,
		`{"spec":{"external":{"testName":"t","script":"x"},"executionContext":{"routing":{"sandbox":"no-such"}}}}`:                        "spec.executionContext.routing.sandbox",
		`{"spec":{"external":{"testName":"t","script":"x"},"executionContext":{"routing":{"sandbox":"demo-sb","routegroup":"demo-rg"}}}}`: "name one of them",
	} {
		if got := w.send("POST", orgPath+"/tests/executions/", body); got.status/100 != 4 || !strings.Contains(string(got.body), word) {
			t.Errorf("%s: %d %s", body, got.status, got.body)
		}
	}
	for body, word := range map[string]string{
		`{}`: "script", `{"script":"x","defaultTimeout":"never"}`: "defaultTimeout", `{"script":"x","triggers":[{}]}`: "sandboxOf",
	} {
		if got := w.send("PUT", orgPath+"/tests/another", body); got.status != 400 || !strings.Contains(string(got.body), word) {
			t.Errorf("%s: %d %s", body, got.status, got.body)
		}
	}
	got := w.send("PUT", orgPath+"/tests/another", `{"script":"x","triggers":[{"sandboxOf":{"kind":"Deployment","namespace":"shop","name":"front"}}]}`)
	if !strings.Contains(string(got.body), `"id":"deployment.shop.front"`) {
		t.Errorf("%d %s", got.status, got.body)
	}
}

func containsAll(text string, words []string) bool {
	for _, word := range words {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}
