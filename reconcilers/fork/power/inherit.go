package power

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"switchyard.dev/eventbus/lists"
)

// Confining returns the security context fields that all containers of the template base share and that
// the container is, new in the template next, leaves unset, except those that allowed lets it leave unset.
func Confining(base, next *corev1.PodTemplateSpec, is corev1.Container, allowed Powers) *corev1.SecurityContext {
	out, said := &corev1.SecurityContext{}, is.SecurityContext
	said = cmp.Or(said, &corev1.SecurityContext{})
	if len(Containers(base.Spec)) == 0 {
		return out
	}
	if !slices.Contains(allowed, Confinement) {
		confiningPrivileges(base, next, is, said, out)
	}
	if !slices.Contains(allowed, SecurityProfiles) {
		confiningProfiles(base, next, is, said, out)
	}
	return out
}

// confiningPrivileges sets in out the fields that the power Confinement covers.
func confiningPrivileges(base, next *corev1.PodTemplateSpec, is corev1.Container, said, out *corev1.SecurityContext) {
	had := lists.Map(Containers(base.Spec), func(c Container) confinement { return confinementOf(&base.Spec, c.Container) })
	if said.AllowPrivilegeEscalation == nil && !escalates(said) && every(had, func(c confinement) bool { return !c.escalation }) {
		out.AllowPrivilegeEscalation = new(false)
	}
	if said.Capabilities == nil || said.Capabilities.Drop == nil {
		if drop := droppedByAll(had); len(drop) > 0 {
			out.Capabilities = &corev1.Capabilities{Drop: drop}
		}
	}
	confiningUser(base, next, is, had, said, out)
}

// escalates reports whether a container has privileges with which the API server takes
// no allowPrivilegeEscalation: false.
func escalates(s *corev1.SecurityContext) bool {
	return isTrue(s.Privileged) || capabilities(s)["SYS_ADMIN"]
}

// droppedByAll returns the capabilities that every one of the containers is without.
func droppedByAll(all []confinement) []corev1.Capability {
	var out []corev1.Capability
	for _, name := range droppedByAny(all) {
		if every(all, func(c confinement) bool { return c.without(name) }) {
			out = append(out, corev1.Capability(name))
		}
	}
	if slices.Contains(out, "ALL") {
		return []corev1.Capability{"ALL"}
	}
	return out
}

// confiningUser writes into out that the container may not be root, and the user, with the
// group, where nothing else keeps it from root: else it runs as the user of its own image.
func confiningUser(base, next *corev1.PodTemplateSpec, is corev1.Container, had []confinement, said, out *corev1.SecurityContext) {
	have := userOf(&next.Spec, is)
	var users, groups []*int64
	for _, c := range Containers(base.Spec) {
		u := userOf(&base.Spec, c.Container)
		users, groups = append(users, u.User), append(groups, u.Group)
	}
	if named := have.User != nil && *have.User != 0; said.RunAsUser == nil && !named && !have.NonRoot {
		if u := common(users); u != nil && *u != 0 {
			out.RunAsUser, have.User = u, u
		}
		if g := common(groups); g != nil && said.RunAsGroup == nil && !equal(g, have.Group) {
			out.RunAsGroup = g
		}
	}
	root := have.User != nil && *have.User == 0 // With runAsNonRoot it could not start.
	if said.RunAsNonRoot == nil && !have.NonRoot && !root && every(had, func(c confinement) bool { return !c.root }) {
		out.RunAsNonRoot = new(true)
	}
}

// confiningProfiles sets in out the profiles that every container of base has, where the profile of the
// container would be weaker. Profiles that only annotations set are left to Added: API servers that use
// the annotations do not know the fields.
func confiningProfiles(base, next *corev1.PodTemplateSpec, is corev1.Container, said, out *corev1.SecurityContext) {
	have, noted := profilesOf(next, is), next.Annotations[corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix+is.Name] != ""
	var had []profiles
	for _, c := range Containers(base.Spec) {
		p := podProfiles(base)
		if s := c.SecurityContext; s != nil {
			p = p.over(s.SeccompProfile, s.AppArmorProfile, s.SELinuxOptions)
		}
		had = append(had, p)
	}
	was := had[0]
	if said.SeccompProfile == nil && was.seccomp.kind != "" && weaker(have.seccomp, was.seccomp, 1) &&
		every(had, func(p profiles) bool { return p.seccomp == was.seccomp }) {
		out.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileType(was.seccomp.kind), LocalhostProfile: was.seccomp.file()}
	}
	if said.AppArmorProfile == nil && !noted && was.appArmor.kind != "" && weaker(have.appArmor, was.appArmor, 0) &&
		every(had, func(p profiles) bool { return p.appArmor == was.appArmor }) {
		out.AppArmorProfile = &corev1.AppArmorProfile{Type: corev1.AppArmorProfileType(was.appArmor.kind), LocalhostProfile: was.appArmor.file()}
	}
	if said.SELinuxOptions == nil && have.seLinux != was.seLinux && every(had, func(p profiles) bool { return p.seLinux == was.seLinux }) {
		out.SELinuxOptions = &was.seLinux
	}
}

// file returns where a profile of the node is; nil for one of another kind.
func (p profile) file() *string {
	if p.name == "" {
		return nil
	}
	return &p.name
}

// every reports whether all of a list are so.
func every[T any](list []T, so func(T) bool) bool {
	return !slices.ContainsFunc(list, func(item T) bool { return !so(item) })
}

// common returns the number that all of a list are; nil when they differ or one is nil.
func common(list []*int64) *int64 {
	if every(list, func(n *int64) bool { return n != nil && equal(n, list[0]) }) {
		return list[0]
	}
	return nil
}

// equal reports whether two numbers are equal, or both nil.
func equal(a, b *int64) bool { return a == b || a != nil && b != nil && *a == *b }
