package member

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/baseline"
)

// StatusIsCurrent reports whether the status of m, computed for the generation observed, is about the
// baseline in its spec and not an earlier one. Objects in made that m owns record their baseline
// (crdv1.AnnotationBaseline); if none does, a changed spec counts as one with another baseline.
func StatusIsCurrent[O metav1.Object](m crdv1.Member, observed int64, made []O) bool {
	ref, _ := m.BaselineRef()
	ofAnother := false
	for _, o := range made {
		if !apply.IsOwned(o, m.GetUID()) {
			continue
		}
		switch o.GetAnnotations()[crdv1.AnnotationBaseline] {
		case baseline.NameOf(ref):
			return true
		case "":
		default:
			ofAnother = true
		}
	}
	return !ofAnother && observed == m.GetGeneration()
}
