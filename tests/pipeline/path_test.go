package pipeline

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tools/traffic"
)

// One test walks the whole path, since a world takes longer to start than
// everything that is done in it.
func TestARequestIsForkedAndTheForkTakenAway(t *testing.T) {
	w := newWorld(t)
	sandbox := w.sandbox("k7q2m9x4v1tz8")

	t.Run("before the fork is up its key fails visibly and never reaches the baseline", func(*testing.T) {
		w.forkedWorkload("k7q2m9x4v1tz8")
		w.Eventually("the key is answered with 503 and a reason", func() error { return failsVisibly(w, "k7q2m9x4v1tz8") })
	})
	fork := w.fork("k7q2m9x4v1tz8")
	t.Run("the key reaches the fork and everything else the baseline", func(t *testing.T) {
		w.Eventually("the fork serves the key", func() error { return w.serves("k7q2m9x4v1tz8", traffic.Fork) })
		ledger := w.sender.Count(w.Context(), 300, 4, []traffic.Want{
			{Key: "k7q2m9x4v1tz8", Side: traffic.Fork}, {Key: "", Side: traffic.Baseline}, {Key: "k7q2m9x4v1tz", Side: traffic.Baseline},
		})
		if !ledger.Clean() {
			t.Error(ledger)
		}
	})
	t.Run("the sandbox says that it is ready", func(*testing.T) {
		w.Eventually("Ready", func() error { return isReady(w, sandbox) })
	})
	t.Run("a proxy that stands still keeps a sandbox from being ready, and is named", func(t *testing.T) {
		readyOnceTheProxyKnows(t, w)
	})
	t.Run("the rule is in the routes API", func(t *testing.T) {
		rules := rulesOf(t, w, "k7q2m9x4v1tz8")
		if len(rules) != 1 || rules[0].Baseline.Name != workload || len(rules[0].Mappings) != 1 || rules[0].Mappings[0].WorkloadPort != workloadPort {
			t.Errorf("rules: %+v", rules)
		}
	})
	t.Run("a RoutingConfig made by hand is routed by its name", func(t *testing.T) {
		config := &crdv1.RoutingConfig{ObjectMeta: metav1.ObjectMeta{Name: "by-hand"}}
		config.Spec.SandboxedWorkloads = []crdv1.SandboxedWorkload{{SandboxedWorkloadRef: crdv1.SandboxedWorkloadRef{
			Kind: crdv1.KindForkedWorkload, Namespace: namespace, Name: fork.Name, SandboxName: "k7q2m9x4v1tz8"}}}
		w.Create(config)
		w.Eventually("the fork serves it", func() error { return w.serves("by-hand", traffic.Fork) })
		w.Remove(config)
		w.Eventually("the baseline serves it", func() error { return w.serves("by-hand", traffic.Baseline) })
	})
	t.Run("a sandbox of a workload that is not there says so and hurts nobody", func(t *testing.T) {
		bad := &crdv1.SignadotSandbox{}
		w.Make(bad, `{metadata: {name: bad}, spec: {id: bad, customization: {patches: [
			{target: {apiVersion: apps/v1, kind: Deployment, namespace: shop, name: nowhere}, merge: {}}]}}}`)
		w.Eventually("Ready=False", func() error {
			err := isReady(w, bad)
			if c := crdv1.FindCondition(bad.Status.Conditions, crdv1.ConditionReady); c != nil && c.Status == "False" && c.Message != "" {
				return nil
			}
			return fmt.Errorf("conditions %+v (%w)", bad.Status.Conditions, err)
		})
		if err := w.serves("k7q2m9x4v1tz8", traffic.Fork); err != nil {
			t.Error(err)
		}
	})
	t.Run("a deleted sandbox leaves its key to the baseline, and nothing behind", func(t *testing.T) {
		w.Remove(sandbox)
		w.Eventually("the baseline serves the key", func() error { return w.serves("k7q2m9x4v1tz8", traffic.Baseline) })
		w.Gone(sandbox)
		if rules := rulesOf(t, w, "k7q2m9x4v1tz8"); len(rules) != 0 {
			t.Errorf("rules: %+v", rules)
		}
	})
}

// readyOnceTheProxyKnows makes a sandbox while the sidecar stands still.
func readyOnceTheProxyKnows(t *testing.T, w *path) {
	const key = "held"
	w.freeze()
	defer w.thaw()
	held := w.sandbox(key)
	w.fork(key)
	w.Eventually("it says who does not know the key", func() error {
		err := isReady(w, held)
		if err == nil {
			t.Fatal("it is ready, and its only proxy cannot have heard of it")
		}
		c := crdv1.FindCondition(held.Status.Conditions, crdv1.ConditionReady)
		if c == nil || c.Reason != "RoutingNotReady" || !strings.Contains(c.Message, namespace+"/"+podName) {
			return err
		}
		return nil
	})
	w.thaw()
	w.Eventually("it is ready", func() error { return isReady(w, held) })
	ledger := w.sender.Count(w.Context(), 100, 2, []traffic.Want{{Key: key, Side: traffic.Fork}, {Key: "", Side: traffic.Baseline}})
	if !ledger.Clean() {
		t.Error("right after it was ready: ", ledger)
	}
	w.Remove(held)
}

// failsVisibly returns nil when the key is answered with 503 and a reason. The
// baseline must never answer it.
func failsVisibly(w *path, key string) error {
	a, err := traffic.Get(w.Context(), w.sender.Client, w.sender.URL, [2]string{"Baggage", "sd-routing-key=" + key})
	if err != nil {
		return err
	}
	if a.Status != http.StatusServiceUnavailable || a.Header.Get("Sd-Reason") == "" {
		return fmt.Errorf("status %d, reason %q: %s", a.Status, a.Header.Get("Sd-Reason"), a.Body)
	}
	return nil
}

func isReady(w *path, s *crdv1.SignadotSandbox) error {
	if err := w.Look(s); err != nil {
		return err
	}
	if !crdv1.IsTrue(s.Status.Conditions, crdv1.ConditionReady, s.Generation) {
		return fmt.Errorf("conditions %+v", s.Status.Conditions)
	}
	return nil
}

type rule struct {
	RoutingKey string                                 `json:"routingKey"`
	Baseline   struct{ Kind, Namespace, Name string } `json:"baseline"`
	Mappings   []struct {
		WorkloadPort int `json:"workloadPort"`
	} `json:"mappings"`
}

func rulesOf(t *testing.T, w *path, key string) []rule {
	t.Helper()
	body, err := traffic.Fetch(t.Context(), http.DefaultClient, w.rest+"/api/v1/workloads/routing-rules?routingKey="+key)
	w.Must(err)
	var answer struct {
		RoutingRules []rule `json:"routingRules"`
	}
	w.Must(json.Unmarshal(body, &answer))
	return answer.RoutingRules
}
