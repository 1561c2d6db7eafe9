package smarttests

import (
	"encoding/json"
	"testing"

	v2 "switchyard.dev/protos/controlplane/v2"
	"switchyard.dev/workflows/comparison"
	"switchyard.dev/workflows/comparison/exchange"
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
