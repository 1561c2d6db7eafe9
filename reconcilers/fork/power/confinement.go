package power

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// confinement records the restrictions that a container sets on itself, compared with the defaults that
// apply if a field is not set.
type confinement struct {
	// escalation reports whether a process may get more privileges than the one that
	// started it.
	escalation bool
	// dropped are the capabilities that it does without.
	dropped map[string]bool
	// root reports whether it may run as root.
	root bool
}

// confinementOf returns that of a container of the pod.
func confinementOf(pod *corev1.PodSpec, c corev1.Container) confinement {
	u := userOf(pod, c)
	out := confinement{escalation: true, dropped: map[string]bool{}, root: !u.NonRoot}
	if s := c.SecurityContext; s != nil {
		out.escalation = s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation
		if s.Capabilities != nil {
			for _, d := range s.Capabilities.Drop {
				out.dropped[capability(d)] = true
			}
		}
	}
	return out
}

// without reports whether a capability is dropped.
func (c confinement) without(capability string) bool {
	return c.dropped["ALL"] || c.dropped[capability]
}

// droppedByAny returns the capabilities that any of the containers is without, in order.
func droppedByAny(all []confinement) []string {
	names := map[string]bool{}
	for _, c := range all {
		maps.Copy(names, c.dropped)
	}
	return sortedKeys(names)
}

// confined checks that a container keeps the restrictions that it has in the baseline. A new one could
// replace any, with the same image, so it must have the restrictions that all containers of the baseline
// share.
func (g *grants) confined(path string, next corev1.Container) {
	var had []confinement
	if was, ok := ContainerNamed(*g.base, next.Name); ok {
		had = append(had, confinementOf(g.base, was))
	} else {
		for _, c := range Containers(*g.base) {
			had = append(had, confinementOf(g.base, c.Container))
		}
	}
	if len(had) == 0 {
		return
	}
	is, at := confinementOf(g.next, next), "leaving out "+path+".securityContext."
	all := func(denied func(confinement) bool) bool {
		return !slices.ContainsFunc(had, func(c confinement) bool { return !denied(c) })
	}
	// An explicit true is reported as an added privilege instead.
	silent := next.SecurityContext == nil || next.SecurityContext.AllowPrivilegeEscalation == nil
	g.when(silent && all(func(c confinement) bool { return !c.escalation }), Confinement, at+"allowPrivilegeEscalation")
	for _, name := range droppedByAny(had) {
		g.when(!is.without(name) && all(func(c confinement) bool { return c.without(name) }), Confinement, at+"capabilities.drop["+name+"]")
	}
	user := userOf(g.next, next).User
	named := user != nil && *user != 0
	g.when(is.root && !named && all(func(c confinement) bool { return !c.root }), Confinement, at+"runAsNonRoot")
}
