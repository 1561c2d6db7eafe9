package sandbox

import (
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/reconcilers/fork/meaning"
	"switchyard.dev/reconcilers/routing"
	"switchyard.dev/reconcilers/routingkey"
)

// caveats returns what users of a sandbox should know although it is Ready, each sentence once:
// the warning about its routing key, then the caveats of its members in the order of the spec.
func caveats(in Input, d Decision, made Made) []string {
	var out []string
	add := func(text string) {
		for _, have := range out {
			if strings.Contains(have, text) {
				return
			}
		}
		out = append(out, text)
	}
	if warning := routingkey.Warning(in.routingKey()); warning != "" {
		add(warning)
	}
	if lost := in.lostNulls(); lost != "" {
		add(lost)
	}
	for i, m := range made.Members {
		if m == nil {
			continue
		}
		for _, c := range baseline.Caveats(m) {
			add(d.Members[i].here(condition.OneSentence(c.Message)))
		}
	}
	for _, text := range routing.Of(made.Config, made.Members, in.KeyHeaders).OutsideMesh() {
		add(text)
	}
	return out
}

// lostNulls is the caveat about null that kubectl apply removed from patches; empty: none.
func (in Input) lostNulls() string {
	var applied struct {
		Spec json.RawMessage `json:"spec"`
	}
	note := in.Sandbox.Annotations[corev1.LastAppliedConfigAnnotation]
	if note == "" || json.Unmarshal([]byte(note), &applied) != nil {
		return ""
	}
	stored, err := json.Marshal(in.Sandbox.Spec)
	if err != nil {
		return ""
	}
	if paths := meaning.LostNulls(applied.Spec, stored, "spec"); len(paths) > 0 {
		return meaning.ExplainLostNulls(paths)
	}
	return ""
}

// withCaveats returns the message of Ready: the sentence alone without caveats, otherwise with
// the first caveat and the number of the others.
func withCaveats(well string, caveats []string) string {
	switch len(caveats) {
	case 0:
		return well
	case 1:
		return well + " " + caveats[0]
	}
	return fmt.Sprintf("%s %s (+%d)", well, caveats[0], len(caveats)-1)
}

// writeCaveats writes all caveats to a separate condition, and removes that condition if there are none.
// It does so even while the sandbox is not Ready, because a field that a patch loses can be the cause.
func writeCaveats(s *crdv1.SignadotSandbox, conditions condition.Set, caveats []string) {
	if len(caveats) == 0 {
		condition.Drop(s, crdv1.ConditionCaveats)
		return
	}
	conditions[crdv1.ConditionCaveats] = condition.True(crdv1.ConditionCaveats, strings.Join(caveats, "\n"))
}
