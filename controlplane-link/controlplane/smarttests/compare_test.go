package smarttests

import (
	"encoding/json"
	"strings"
	"testing"

	"switchyard.dev/controlplane-link/controlplane/model"
	v2 "switchyard.dev/protos/controlplane/v2"
	"switchyard.dev/workflows/comparison"
	"switchyard.dev/workflows/comparison/exchange"
	"switchyard.dev/workflows/comparison/noise"
)

func TestAComparisonHasThePublishedForm(t *testing.T) {
	get := func(id, path, body string) exchange.Exchange {
		return exchange.Exchange{ID: id, Method: "GET", Path: path, Response: exchange.Message{Status: 200, Body: []byte(body)}}
	}
	run := func(bodies ...string) (run exchange.Run) {
		for i, body := range bodies {
			run = append(run, get(string(rune('a'+i)), "/"+string(rune('a'+i)), body))
		}
		return run
	}
	baseline := []exchange.Run{run(`{"x":1,"y":[{"z":"q"}]}`, `{"x":1}`, `1`), run(`{"x":1,"y":[{"z":"q"}]}`, `{"x":1}`, `1`)}
	fork := []exchange.Run{run(`{"x":"1","w":true}`, `{"x":1}`, `1`), run(`{"x":"1","w":true}`, `{"x":2}`, `1`)}
	fork[0] = append(fork[0], get("u", "/u", `{}`))
	r := comparison.Compare(baseline, fork, comparison.Options{})
	var operations []v2.DiffOp
	for _, f := range r.Calls[0].Response {
		operations = append(operations, operation(f))
	}
	for what, row := range map[string]struct {
		value any
		want  string
	}{
		"summary": {summary(r), `{"additions":1,"captures":3,` +
			`"green":{"additions":0,"captures":1,"maxRelevance":0,"removals":0,"replacements":0},"maxRelevance":0.875,` +
			`"red":{"additions":1,"captures":1,"maxRelevance":0.875,"removals":1,"replacements":1},"removals":1,"replacements":2,` +
			`"unpairedCaptures":[{"targetCaptureID":"u"}],"yellow":{"additions":0,"captures":1,"maxRelevance":0.5,"removals":0,"replacements":1}}`},
		"operations": {operations, `[{"classification":{"noise":0.125},"op":"add","path":"/body/w","value":true},` +
			`{"classification":{"noise":0.125},"oldValue":1,"op":"replace","path":"/body/x","value":"1"},{"classification":{"noise":0.125},"oldValue":[{"z":"q"}],"op":"remove","path":"/body/y"}]`},
	} {
		got, err := json.Marshal(row.value)
		if err != nil || string(got) != row.want {
			t.Errorf("%s: %s, not %s (%v)", what, got, row.want, err)
		}
	}
}

// A comparison names the sessions of its two sides, and the place of its captures. One side alone is not compared.
func TestAComparisonNamesItsSessions(t *testing.T) {
	x := model.TestExecution{ID: "x", RoutingKey: "k"}
	printed := map[Side]Printed{}
	for side, body := range map[Side]string{Baseline: "MTA=", Target: "MTI="} { // 10 and 12
		if Diff(x, printed) != nil || Differences(x, printed, Findings{}).Results != nil {
			t.Errorf("compared with %d sides", len(printed))
		}
		printed[side] = Read(strings.NewReader(`{"tests":[{"reason":"Completed","calls":[{"number":1,"name":"list","captured":true,
			"exchange":{"id":"` + string(side) + `","request":{"method":"GET","target":"/list"},"response":{"status":200,"body":"` + body + `","bodySize":"2"}}}]}]}`))
	}
	const sessions, point = `"baselineSession":"smart-test-x-baseline"`, `{"direction":"Outbound","kind":"Job","name":"smart-test-x-sandbox","namespace":"signadot-tests"}`
	for what, row := range map[string]struct {
		value any
		want  []string
	}{
		"summary":     {Diff(x, printed), []string{sessions, `"targetSession":"smart-test-x-sandbox"`, `"capturePoints":[` + point + `]`}},
		"differences": {Differences(x, printed, Findings{Colours: []noise.Colour{noise.Red}}), []string{`"baseline":"smart-test-x-baseline"`, `"target":"smart-test-x-sandbox"`, `"by":` + point, `"baselineCaptureID":"baseline"`, `"targetCaptureID":"sandbox"`, `"oldValue":"10"`, `"value":"12"`}},
	} {
		got, err := json.Marshal(row.value)
		for _, want := range row.want {
			if err != nil || !strings.Contains(string(got), want) {
				t.Errorf("%s: %s, without %s (%v)", what, got, want, err)
			}
		}
	}
}

// Calls beyond the bound of operations are left out: without their operations they would look like calls without differences.
func TestTheBoundOfOperations(t *testing.T) {
	x := model.TestExecution{ID: "x", RoutingKey: "k"}
	printed := map[Side]Printed{}
	for side, status := range map[Side]string{Baseline: "200", Target: "500"} {
		var calls []string
		for _, path := range []string{"/a", "/b", "/c"} {
			calls = append(calls, `{"number":1,"name":"`+path+`","captured":true,"exchange":{"request":{"method":"GET","target":"`+path+`"},"response":{"status":`+status+`}}}`)
		}
		printed[side] = Read(strings.NewReader(`{"tests":[{"reason":"Completed","calls":[` + strings.Join(calls, ",") + `]}]}`))
	}
	for most, want := range map[int]int{0: 3, 1: 1, 2: 2, 9: 3} {
		diffs := Differences(x, printed, Findings{Colours: []noise.Colour{noise.Red}, Most: most}).Results[0].Diffs
		for _, d := range diffs {
			if len(d.Response.DiffOps) != 1 {
				t.Errorf("of %d: %s has %d operations", most, *d.Source.RequestName, len(d.Response.DiffOps))
			}
		}
		if len(diffs) != want {
			t.Errorf("of %d: %d calls, not %d", most, len(diffs), want)
		}
	}
}
