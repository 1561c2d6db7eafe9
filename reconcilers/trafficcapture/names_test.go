package trafficcapture

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// A capture names a member by its object, its baseline, or its name in the sandbox.
func TestTheNamesOfMembers(t *testing.T) {
	s := &crdv1.SignadotSandbox{ObjectMeta: metav1.ObjectMeta{UID: "s"}}
	at := metav1.ObjectMeta{Namespace: "shop", Name: "pr-12-my-ads-1", OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(s, crdv1.GroupVersion().WithKind(crdv1.KindSandbox))}}
	ref := crdv1.ObjectRef{Kind: "Deployment", Namespace: "shop", Name: "ads"}
	virtual := &crdv1.VirtualWorkload{ObjectMeta: at, Spec: crdv1.VirtualWorkloadSpec{Name: "my-ads", Baseline: ref}}
	external := &crdv1.SignadotExternalWorkload{ObjectMeta: at, Spec: crdv1.SignadotExternalWorkloadSpec{Name: "my-ads", Baseline: &crdv1.ExternalBaseline{ObjectRef: ref}}}
	fork := &crdv1.ForkedWorkload{ObjectMeta: at, Spec: crdv1.ForkedWorkloadSpec{Baseline: ref}}
	tunnel := &crdv1.SignadotExternalWorkload{ObjectMeta: at, Spec: crdv1.SignadotExternalWorkloadSpec{Name: "my-ads"}}
	for workload, want := range map[string][4]bool{"": {true, true, true}, "pr-12-my-ads-1": {true, true, true}, "ads": {true, true, true}, "my-ads": {true, true, false}, "cart": {}} {
		c := &crdv1.TrafficCapture{Spec: crdv1.TrafficCaptureSpec{Workload: workload}}
		for i, m := range []crdv1.Member{virtual, external, fork, tunnel} {
			if got := names(c, s, m); got != want[i] {
				t.Errorf("%q names %s: %v", workload, m.MemberKind(), got)
			}
		}
	}
}
