package sandbox

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
)

func TestMembersGoOnceNoGroupLeadsToThem(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	config := func(published int64, names ...string) groupRouting {
		c := &crdv1.RoutingConfig{ObjectMeta: metav1.ObjectMeta{Generation: 2}}
		for _, name := range names {
			c.Spec.SandboxedWorkloads = append(c.Spec.SandboxedWorkloads, crdv1.SandboxedWorkload{
				SandboxedWorkloadRef: crdv1.SandboxedWorkloadRef{Kind: crdv1.KindForkedWorkload, Namespace: "ns", Name: name}})
		}
		c.Status.Conditions = []crdv1.StatusCondition{{Type: crdv1.ConditionPublished, Status: "True", ObservedGeneration: published}}
		return groupRouting{"g", c}
	}
	for _, tt := range []struct {
		name string
		all  []groupRouting
		ago  time.Duration
		want string
	}{
		{"no group names the sandbox", nil, 0, ""},
		{"a group leads to a member", []groupRouting{config(2, "a")}, 0, "g"},
		{"it leads to others only, and the log says so", []groupRouting{config(2, "other")}, 0, ""},
		{"it has let go, and the log does not say so yet", []groupRouting{config(1)}, 0, "g"},
		{"one of two has not let go", []groupRouting{config(2), config(2, "a")}, 0, "g"},
		{"it has had its time", []groupRouting{config(2, "a")}, 11 * time.Second, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			since := metav1.NewTime(now.Add(-tt.ago))
			in := Input{
				Sandbox: &crdv1.SignadotSandbox{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &since}},
				Members: []crdv1.Member{&crdv1.ForkedWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}}},
			}
			if got := heldBy(in, tt.all, now); got != tt.want {
				t.Errorf("it is held by %q", got)
			}
		})
	}
}
