package power

import (
	corev1 "k8s.io/api/core/v1"

	"switchyard.dev/eventbus/lists"
	"switchyard.dev/workflows/podreads"
)

// Kinds of namespaced objects with content that a pod can see.
const (
	KindSecret    = podreads.KindSecret
	KindConfigMap = podreads.KindConfigMap
	KindClaim     = podreads.KindClaim
)

// Read is an object of the namespace that a pod names, and so gets the content of.
type Read = podreads.Read

// Reads returns the objects that a pod reads, once for each field that refers to them.
func Reads(pod *corev1.PodSpec) []Read {
	return lists.Map(podreads.Of(pod), func(r podreads.Reading) Read { return r.Read })
}

// reads checks for objects that the pod can read and the baseline cannot.
func (g *grants) reads() {
	had := map[Read]bool{}
	for _, r := range podreads.Of(g.base) {
		had[r.Read] = true
	}
	for _, r := range podreads.Of(g.next) {
		if !had[r.Read] {
			had[r.Read] = true
			g.found = append(g.found, Grant{Power: Secrets, Path: "spec.template.spec." + r.Path + " (" + r.Kind + " " + r.Name + ")", read: r.Read})
		}
	}
}
