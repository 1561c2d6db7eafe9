package power

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"switchyard.dev/eventbus/lists"
)

// container compares one container with the container of the same name in the baseline, or with an empty
// one.
func (g *grants) container(path string, base, next corev1.Container) {
	was, is := base.SecurityContext, next.SecurityContext
	was = cmp.Or(was, &corev1.SecurityContext{})
	is = cmp.Or(is, &corev1.SecurityContext{})
	at := path + ".securityContext."
	g.when(isTrue(is.Privileged) && !isTrue(was.Privileged), Privileged, at+"privileged")
	g.when(isTrue(is.AllowPrivilegeEscalation) && !isTrue(was.AllowPrivilegeEscalation), Privileged, at+"allowPrivilegeEscalation")
	g.when(procMount(is) != corev1.DefaultProcMount && procMount(is) != procMount(was), Privileged, at+"procMount")
	had := capabilities(was)
	for _, c := range slices.Sorted(maps.Keys(capabilities(is))) {
		g.when(!had[c] && c != "NET_BIND_SERVICE", Capabilities, at+"capabilities.add["+c+"]")
	}
	g.windows(at+"windowsOptions", was.WindowsOptions, is.WindowsOptions)

	asked := hosts(base)
	for _, host := range slices.Sorted(maps.Keys(hosts(next))) {
		g.when(!asked[host], ProbeHosts, path+" (host "+host+" of a probe or hook)")
	}
}

// procMount returns how much of /proc a container sees.
func procMount(s *corev1.SecurityContext) corev1.ProcMountType {
	if s.ProcMount == nil || *s.ProcMount == "" {
		return corev1.DefaultProcMount
	}
	return *s.ProcMount
}

// capabilities returns those that are added.
func capabilities(s *corev1.SecurityContext) map[string]bool {
	out := map[string]bool{}
	if s.Capabilities != nil {
		for _, c := range s.Capabilities.Add {
			out[capability(c)] = true
		}
	}
	return out
}

// capability names a capability as the kernel does, without CAP_.
func capability(c corev1.Capability) string {
	return strings.TrimPrefix(strings.ToUpper(string(c)), "CAP_")
}

// hosts returns the hosts, other than the pod itself, that probes and hooks ask.
func hosts(c corev1.Container) map[string]bool {
	out := map[string]bool{}
	add := func(get *corev1.HTTPGetAction, socket *corev1.TCPSocketAction) {
		if get != nil && get.Host != "" {
			out[get.Host] = true
		}
		if socket != nil && socket.Host != "" {
			out[socket.Host] = true
		}
	}
	for _, p := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		if p != nil {
			add(p.HTTPGet, p.TCPSocket)
		}
	}
	if c.Lifecycle != nil {
		for _, h := range []*corev1.LifecycleHandler{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
			if h != nil {
				add(h.HTTPGet, h.TCPSocket)
			}
		}
	}
	return out
}

// sortedKeys returns the keys of a map in order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// profiles are the security profiles of a container. Those of the pod apply if the container sets none.
type profiles struct {
	seccomp  profile
	appArmor profile
	seLinux  corev1.SELinuxOptions
}

// profile is a security profile by its type and, for a profile of the node, its name. The zero profile
// means that no field sets one.
type profile struct {
	kind, name string
}

// Kinds of profiles; Kubernetes calls those of seccomp and AppArmor the same.
const (
	profileDefault    = string(corev1.SeccompProfileTypeRuntimeDefault)
	profileUnconfined = string(corev1.SeccompProfileTypeUnconfined)
	profileLocal      = string(corev1.SeccompProfileTypeLocalhost)
)

// podProfiles are those of the pod.
func podProfiles(template *corev1.PodTemplateSpec) profiles {
	s := contextOf(&template.Spec)
	return profiles{}.over(s.SeccompProfile, s.AppArmorProfile, s.SELinuxOptions)
}

// profilesOf returns the profiles of a container of the pod. If no field sets AppArmor, the annotation
// that preceded the fields and that Kubernetes still reads applies.
func profilesOf(template *corev1.PodTemplateSpec, c corev1.Container) profiles {
	p := podProfiles(template)
	switch noted := template.Annotations[corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix+c.Name]; noted {
	case "":
	case "runtime/default":
		p.appArmor = profile{kind: profileDefault}
	case "unconfined":
		p.appArmor = profile{kind: profileUnconfined}
	default:
		p.appArmor = profile{profileLocal, strings.TrimPrefix(noted, "localhost/")}
	}
	if s := c.SecurityContext; s != nil {
		return p.over(s.SeccompProfile, s.AppArmorProfile, s.SELinuxOptions)
	}
	return p
}

// over returns p with the given profiles replacing those of p; nil arguments leave p unchanged.
func (p profiles) over(seccomp *corev1.SeccompProfile, appArmor *corev1.AppArmorProfile, seLinux *corev1.SELinuxOptions) profiles {
	if seccomp != nil {
		p.seccomp = profile{string(seccomp.Type), textOf(seccomp.LocalhostProfile)}
	}
	if appArmor != nil {
		p.appArmor = profile{string(appArmor.Type), textOf(appArmor.LocalhostProfile)}
	}
	if seLinux != nil {
		p.seLinux = *seLinux
	}
	return p
}

// profiles checks that the profiles of a container or the pod are not weaker than in the baseline. For a
// new container, had are the profiles of all containers of the baseline: it could replace any of them, so
// the weakest counts. SELinux labels have no order, so any difference counts.
func (g *grants) profiles(path string, is profiles, had ...profiles) {
	all := func(lets func(was profiles) bool) bool {
		return len(had) > 0 && !slices.ContainsFunc(had, func(was profiles) bool { return !lets(was) })
	}
	g.when(all(func(was profiles) bool { return weaker(is.seccomp, was.seccomp, 1) }), SecurityProfiles, path+".seccompProfile")
	g.when(all(func(was profiles) bool { return weaker(is.appArmor, was.appArmor, 0) }), SecurityProfiles, path+".appArmorProfile")
	g.when(all(func(was profiles) bool { return is.seLinux != was.seLinux }), SecurityProfiles, path+".seLinuxOptions")
}

// profilesOfBaseline are those that a container of this name had, or could take.
func profilesOfBaseline(base *corev1.PodTemplateSpec, name string) []profiles {
	if was, ok := ContainerNamed(base.Spec, name); ok {
		return []profiles{profilesOf(base, was)}
	}
	return lists.Map(Containers(base.Spec), func(c Container) profiles { return profilesOf(base, c.Container) })
}

// weaker reports whether a profile may allow operations that another denies. unsaid is the rank of the
// default profile, between that of the runtime's profile (0) and that of none (2): for seccomp the default
// is none at most kubelets and the runtime's profile at others, for AppArmor it is the runtime's profile.
func weaker(is, was profile, unsaid int) bool {
	rank := func(p profile) int {
		switch p.kind {
		case "":
			return unsaid
		case profileDefault:
			return 0
		case profileUnconfined:
			return 2
		default: // Of a kind that we do not know.
			return 3
		}
	}
	if is.kind == profileLocal || was.kind == profileLocal { // Only the node knows its content.
		return is != was && was.kind != profileUnconfined
	}
	return rank(is) > rank(was)
}

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
