package unsupported

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/condition"
)

// Conclude returns a copy of the object with all conditions Unknown and a message that no controller acts
// on it. It returns the object itself if it is being deleted, or if another program writes its status. now
// is the transition time of changed conditions.
func (k Kind) Conclude(o crdv1.Object, now metav1.Time) crdv1.Object {
	if o.GetDeletionTimestamp() != nil || othersWriteStatus(o) {
		return o
	}
	return k.conclude(o, now)
}

// othersWriteStatus reports whether a program other than this one has written to the
// status of the object.
func othersWriteStatus(o crdv1.Object) bool {
	return slices.ContainsFunc(o.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
		return e.Subresource == "status" && e.Manager != crdv1.FieldManager
	})
}

// write sets every condition of the object to Unknown, with the message.
func write(o crdv1.Object, message string, now metav1.Time) {
	all := condition.Set{}
	for _, t := range o.ConditionTypes() {
		all[t] = condition.Unknown(baseline.ReasonNotSupportedYet, message)
	}
	condition.Write(o, all, now)
}

// place returns the name of an object with its namespace, if it has one.
func place(o crdv1.Object) string {
	return strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/")
}
