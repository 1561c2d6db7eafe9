package member

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/baseline"
)

// StatusIsCurrent reports whether the status of m, which was concluded for the generation
// observed, tells of the baseline that the spec names, and not of one that it has named
// before. What the member made says of which (crdv1.AnnotationBaseline); without it a spec
// that has changed is taken for one that names another. Those of made that it did not make
// do not count.
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
