package finding_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/finding"
)

func TestReadyIsTheFirstThatStandsInTheWay(t *testing.T) {
	yes, no, open := finding.Yes("Y", "y"), finding.No("N", "n"), finding.Open("O", "o")
	tests := []struct {
		name     string
		findings finding.Findings
		want     finding.Finding
	}{
		{"all are so", finding.Findings{"a": yes, "b": yes}, finding.Yes("Ready", "good")},
		{"one is not", finding.Findings{"a": yes, "b": no}, finding.No("N", "n")},
		{"what is not so goes before what is not known", finding.Findings{"a": open, "b": no}, finding.No("N", "n")},
		{"what is not known is not ready", finding.Findings{"a": yes, "b": open}, finding.No("O", "o")},
		{"others do not count", finding.Findings{"a": yes, "c": no}, finding.Yes("Ready", "good")},
		{"nothing was found", nil, finding.Yes("Ready", "good")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, tt.findings.Ready("good", "a", "b")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWrite(t *testing.T) {
	before, now := metav1.NewTime(time.Unix(100, 0)), metav1.NewTime(time.Unix(200, 0))
	s := &crdv1.SignadotSandbox{ObjectMeta: metav1.ObjectMeta{Generation: 4}}
	finding.Write(s, finding.Findings{crdv1.ConditionReady: finding.No("N", "n"), "Zebra": finding.Yes("Y", "y"), "Ape": finding.Yes("Y", "y")}, before)
	finding.Write(s, finding.Findings{crdv1.ConditionReady: finding.No("M", "m"), "Zebra": finding.No("N", "n")}, now)
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
