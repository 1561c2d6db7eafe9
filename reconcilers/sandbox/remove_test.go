package sandbox

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// A create step that failed before the deletion holds nothing: the status of a Resource counts once
// it was written with the generation of the deletion.
func TestDeletionDoesNotReportWaitingForCreateSteps(t *testing.T) {
	r := &crdv1.Resource{ObjectMeta: metav1.ObjectMeta{Name: "sb-db", Generation: 2, DeletionTimestamp: &metav1.Time{}}, Spec: crdv1.ResourceSpec{Name: "db"}}
	r.Status.Phase = phaseFailed
	r.Status.Conditions = []crdv1.StatusCondition{{Type: crdv1.ConditionReady, Status: "False", Reason: "ScriptFailed", Message: "the script ended"}}
	for observed, holds := range map[int64]bool{1: false, 2: true} {
		r.Status.ObservedGeneration = observed
		got := describe(Input{Resources: []*crdv1.Resource{r}}, []string{crdv1.KindResource}, []client.Object{r})
		if strings.Contains(got, "the script ended") != holds {
			t.Errorf("at generation %d: %s", observed, got)
		}
	}
}
