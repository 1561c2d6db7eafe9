package encode

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"switchyard.dev/controlplane-link/controlplane/model"
)

func TestAnOlderStatusIsNeverReady(t *testing.T) {
	ready := model.Status{Generation: 3, Ready: true, Reason: "x"}
	for name, tt := range map[string]struct {
		generation int64
		deleted    time.Time
		want       string
	}{
		"current":  {3, time.Time{}, "true x"},
		"older":    {4, time.Time{}, "false NotAllDesiredForksReady"},
		"deleting": {3, time.Unix(1, 0), "false Terminating"},
	} {
		st := observed(ready, "sandbox", "demo", tt.generation, tt.deleted)
		if got := fmt.Sprint(st.Ready, " ", st.Reason); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

// TestAStatusSaysWhatItWaitsFor: the refusal of a deletion, and the clusters without the newest generation.
func TestAStatusSaysWhatItWaitsFor(t *testing.T) {
	refused := model.Status{Generation: 3, Reason: "Forbidden", Message: "jo may not delete it."}
	parts := model.Status{}.With("a", model.Status{Generation: 3}).With("b", model.Status{Generation: 2, Message: "all is ready"})
	for name, tt := range map[string]struct {
		st         model.Status
		cluster    string
		generation int64
		deleted    bool
		want       string
	}{
		"a refused deletion":                {refused, "demo", 3, true, "The sandbox is being deleted. jo may not delete it."},
		"an earlier refusal":                {refused, "demo", 4, true, "The sandbox is being deleted."},
		"a refused deletion in one cluster": {model.Status{}.With("a", refused).With("b", model.Status{Generation: 2}), "", 3, true, "The sandbox is being deleted. Cluster a: jo may not delete it."},
		"one cluster":                       {model.Status{}, "demo", 3, false, "The sandbox was not written to cluster demo yet."},
		"one of two":                        {parts, "", 3, false, "The sandbox was not written to cluster b yet."},
		"two of two":                        {parts, "", 4, false, "The sandbox was not written to clusters a, b yet."},
		"no cluster has one":                {model.Status{}, "", 3, false, "The sandbox was not written to any cluster yet."},
	} {
		var deleted time.Time
		if tt.deleted {
			deleted = time.Unix(1, 0)
		}
		if got := observed(tt.st, "sandbox", tt.cluster, tt.generation, deleted); got.Message != tt.want || got.Ready {
			t.Errorf("%s: %+v, want %q", name, got, tt.want)
		}
	}
}

// Clients crash without these objects, and print nothing useful without these texts.
func TestSmallestAnswersHaveTheRequiredFields(t *testing.T) {
	spec := json.RawMessage(`{"cluster":"demo"}`)
	for _, tt := range []struct {
		value any
		err   error
		need  []string
	}{
		answer(Cluster(model.Cluster{}))(`"operator":{"version":""}`),
		answer(ClusterToken(model.ClusterToken{}))(`"status":{}`),
		answer(Sandbox(model.Sandbox{Spec: spec}, nil, nil, time.Now()))(`"spec":{"cluster":"demo","forks":[]}`, `"status":{`, `"ready":false`, `"createdAt":"`),
		answer(RouteGroup(model.RouteGroup{Spec: json.RawMessage(`{}`)}, nil, nil))(`"spec":{`, `"status":{`, `"createdAt":"`),
		answer(Plugin(model.Plugin{Spec: json.RawMessage(`{}`)}))(`"spec":{`, `"status":{}`),
		answer(Devbox(model.Devbox{}, "", time.Now()), nil)(`"status":{`),
		answer(Each[int, int](nil, nil))(`[]`),
	} {
		text, err := json.Marshal(tt.value)
		if err != nil || tt.err != nil {
			t.Error(err, tt.err)
		}
		for _, need := range tt.need {
			if !strings.Contains(string(text), need) {
				t.Errorf("no %s in %s", need, text)
			}
		}
	}
}

type smallest = struct {
	value any
	err   error
	need  []string
}

func answer(value any, err error) func(...string) smallest {
	return func(need ...string) smallest { return smallest{value, err, need} }
}
