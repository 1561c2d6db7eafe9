package condition_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/condition"
)

func TestReadyIsTheFirstThatStandsInTheWay(t *testing.T) {
	yes, no, open := condition.True("Y", "y"), condition.False("N", "n"), condition.Unknown("O", "o")
	tests := []struct {
		name       string
		conditions condition.Set
		want       condition.Condition
	}{
		{"all are so", condition.Set{"a": yes, "b": yes}, condition.True("Ready", "good")},
		{"one is not", condition.Set{"a": yes, "b": no}, condition.False("N", "n")},
		{"what is not so goes before what is not known", condition.Set{"a": open, "b": no}, condition.False("N", "n")},
		{"what is not known is not ready", condition.Set{"a": yes, "b": open}, condition.False("O", "o")},
		{"others do not count", condition.Set{"a": yes, "c": no}, condition.True("Ready", "good")},
		{"nothing was found", nil, condition.True("Ready", "good")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, tt.conditions.Ready("good", "a", "b")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWrite(t *testing.T) {
	before, now := metav1.NewTime(time.Unix(100, 0)), metav1.NewTime(time.Unix(200, 0))
	s := &crdv1.SignadotSandbox{ObjectMeta: metav1.ObjectMeta{Generation: 4}}
	condition.Write(s, condition.Set{crdv1.ConditionReady: condition.False("N", "n"), "Zebra": condition.True("Y", "y"), "Ape": condition.True("Y", "y")}, before)
	condition.Write(s, condition.Set{crdv1.ConditionReady: condition.False("M", "m"), "Zebra": condition.False("N", "n")}, now)
	var got []string
	for _, c := range s.Status.Conditions {
		got = append(got, c.Type+" "+c.Status+" "+c.Reason+" "+c.LastTransitionTime.UTC().Format("05"))
	}
	want := []string{
		"Ready False M 40", "Accepted Unknown Pending 40", "WorkloadsReady Unknown Pending 40",
		"ResourcesReady Unknown Pending 40", "RoutingReady Unknown Pending 40",
		"Ape True Y 40", "Zebra False N 20",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestOneSentence(t *testing.T) {
	for message, want := range map[string]string{
		"a 1.2 has no pods.":                   "a 1.2 has no pods.",
		"a is up. Some requests fail: p 80.":   "a is up; some requests fail: p 80.",
		"a is up.\nRestart it. In 1 it is old": "a is up; Restart it; in 1 it is old",
	} {
		if got := condition.OneSentence(message); got != want {
			t.Errorf("%q becomes %q, want %q", message, got, want)
		}
	}
}

func TestAdvise(t *testing.T) {
	const advice = "Mend it."
	for message, want := range map[string]string{
		"db failed":  "db failed. Mend it.",
		"db failed.": "db failed. Mend it.",
		"db 1.2 failed. Look at its log. Or not.":          "db 1.2 failed. Mend it.",
		"db failed. Look.\nIts last lines:\nError. Sorry.": "db failed. Mend it.\nIts last lines:\nError. Sorry.",
	} {
		if got := condition.Advise(message, advice); got != want {
			t.Errorf("%q becomes %q", message, got)
		}
	}
}
