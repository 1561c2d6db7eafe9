package unsupported_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/unsupported"
)

var now = metav1.NewTime(time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC))

// status is an entry of managedFields for a program that wrote the status.
func status(manager string) []metav1.ManagedFieldsEntry {
	return []metav1.ManagedFieldsEntry{
		{Manager: "kubectl-client-side-apply", Operation: metav1.ManagedFieldsOperationUpdate},
		{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, Subresource: "status"},
	}
}

func TestEveryConditionIsUnknownUnlessSomebodyElseWritesTheStatus(t *testing.T) {
	for _, k := range unsupported.Kinds() {
		for _, tt := range []struct {
			name   string
			change func(o crdv1.Object)
			writes bool
		}{
			{"a new object", func(crdv1.Object) {}, true},
			{"an object whose status we wrote", func(o crdv1.Object) { o.SetManagedFields(status(crdv1.FieldManager)) }, true},
			{"an object whose status another program wrote", func(o crdv1.Object) { o.SetManagedFields(status("plugin-engine")) }, false},
			{"an object that is being deleted", func(o crdv1.Object) { o.SetDeletionTimestamp(&now) }, false},
		} {
			t.Run(k.Name+"/"+tt.name, func(t *testing.T) {
				o := k.New()
				o.SetName("it")
				o.SetGeneration(3)
				tt.change(o)
				after := k.Conclude(o, now)
				if len(*o.StatusConditions()) > 0 {
					t.Error("the object itself was changed")
				}
				if !tt.writes {
					if after != o {
						t.Errorf("its status becomes %+v", *after.StatusConditions())
					}
					return
				}
				for _, conditionType := range o.ConditionTypes() {
					c := crdv1.FindCondition(*after.StatusConditions(), conditionType)
					if c == nil || c.Status != "Unknown" || c.Reason != baseline.ReasonNotSupportedYet || c.ObservedGeneration != 3 ||
						!strings.HasPrefix(c.Message, "Nothing acts on "+k.Name+" it: this ") || !strings.Contains(c.Message, " does not ") {
						t.Errorf("%s: %+v", conditionType, c)
					}
				}
				if again := k.Conclude(after, metav1.NewTime(now.Add(time.Hour))); (*again.StatusConditions())[0].LastTransitionTime != now {
					t.Error("concluding twice changes the time")
				}
			})
		}
	}
}
