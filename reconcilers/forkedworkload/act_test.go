package forkedworkload

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/fork"
)

// What is pruned in the same pass is not told of as the fork.
func TestWhichForkIsThereWhenNoneIsWritten(t *testing.T) {
	w := &crdv1.ForkedWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "mine", UID: "fw"}}
	owner := *metav1.NewControllerRef(w, crdv1.GroupVersion().WithKind(crdv1.KindForkedWorkload))
	own := func(name string) fork.Object {
		return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, OwnerReferences: []metav1.OwnerReference{owner}}}
	}
	of, another := own("of-the-baseline"), own("of-another")
	for name, c := range map[string]struct {
		fork          fork.Object
		made, surplus []fork.Object
		want          fork.Object
	}{
		"that of its baseline":                         {of, []fork.Object{another, of}, []fork.Object{another}, of},
		"none when that of another baseline goes":      {nil, []fork.Object{another}, []fork.Object{another}, nil},
		"one that stays, of a baseline that is gone":   {nil, []fork.Object{of}, nil, of},
		"the one that stays, whatever else was before": {nil, []fork.Object{another, of}, []fork.Object{another}, of},
	} {
		t.Run(name, func(t *testing.T) {
			in := Input{Workload: w, Fork: c.fork, Forks: c.made}
			var made Made
			if err := made.applyFork(t.Context(), apply.Writer{}, in, Decision{SurplusForks: c.surplus}); err != nil {
				t.Fatal(err)
			}
			if made.Fork != c.want {
				t.Errorf("it tells of %v", made.Fork)
			}
		})
	}
}
