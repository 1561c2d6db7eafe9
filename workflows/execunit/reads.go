package execunit

import (
	corev1 "k8s.io/api/core/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/workflows/podreads"
)

// Reads returns the objects that the pod template of a unit names, each once. An object without a namespace
// is of the unit's.
func Reads(u crdv1.WorkUnit) []podreads.Read {
	if u.ExecUnitTemplate == nil {
		return nil
	}
	return ReadsOf(u.ExecUnitTemplate.PodTemplate.Spec)
}

// ReadsOf returns the objects that a pod names, each once. An object without a namespace is of the pod's.
func ReadsOf(pod corev1.PodSpec) []podreads.Read {
	var out []podreads.Read
	had := map[podreads.Read]bool{}
	for _, r := range podreads.Of(&pod) {
		if !had[r.Read] {
			had[r.Read] = true
			out = append(out, r.Read)
		}
	}
	return out
}

// Rights are the rights that the author of a unit needs: to create pods in Namespace, and to get
// each of Reads in its own namespace or, if it has none, in Namespace.
type Rights struct {
	Namespace string          `json:"namespace"`
	Reads     []podreads.Read `json:"reads,omitempty"`
}

// RightsOf returns the rights that the author of a unit needs.
func RightsOf(u crdv1.WorkUnit, s Settings) Rights {
	return Rights{Namespace: Namespace(u, s), Reads: Reads(u)}
}
