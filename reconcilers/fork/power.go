package fork

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"switchyard.dev/reconcilers/baseline"
)

// Power is a kind of power over nodes, or over what belongs to others, that a pod
// may have. Its text is how the operator's configuration calls it.
type Power string

// The powers that patches may add only when the operator's configuration says so.
const (
	// PowerHostNamespaces: hostNetwork, hostPID, hostIPC, and users of the node.
	PowerHostNamespaces Power = "hostNamespaces"
	// PowerHostPorts: ports of the node.
	PowerHostPorts Power = "hostPorts"
	// PowerPrivileged: privileged, allowPrivilegeEscalation, an unmasked /proc, and
	// processes of a Windows node.
	PowerPrivileged Power = "privileged"
	// PowerCapabilities: capabilities beside NET_BIND_SERVICE.
	PowerCapabilities Power = "capabilities"
	// PowerConfinement: what containers get where nobody denies it, without
	// allowPrivilegeEscalation: false, capabilities.drop or runAsNonRoot: true of the baseline.
	PowerConfinement Power = "confinement"
	// PowerSysctls: settings of the kernel.
	PowerSysctls Power = "sysctls"
	// PowerSecurityProfiles: weaker or other seccomp, AppArmor and SELinux.
	PowerSecurityProfiles Power = "securityProfiles"
	// PowerRuntimeClass: another container runtime.
	PowerRuntimeClass Power = "runtimeClass"
	// PowerServiceAccount: another service account, its token where the baseline has
	// none, tokens and certificates for other audiences, Windows accounts.
	PowerServiceAccount Power = "serviceAccount"
	// PowerNodeName: a node named, past the scheduler.
	PowerNodeName Power = "nodeName"
	// PowerPriority: the priority of parts of the cluster itself.
	PowerPriority Power = "systemPriority"
	// PowerHostPath: directories of the node.
	PowerHostPath Power = "hostPath"
	// PowerVolumes: volumes of other kinds that reach the node, a driver or storage
	// elsewhere without an object that somebody else granted.
	PowerVolumes Power = "volumes"
	// PowerProbeHosts: probes and hooks that make the kubelet ask another host.
	PowerProbeHosts Power = "probeHosts"
	// PowerSecrets: Secrets, ConfigMaps and claims of the namespace that the baseline does
	// not use, where nobody has asked whether the author may read them.
	PowerSecrets Power = "secrets"
	// PowerNodePrograms: another image or command where the baseline has the node in
	// reach, because it is privileged or mounts a directory of it.
	PowerNodePrograms Power = "nodePrograms"
	// PowerRoot: root, where the baseline names another user.
	PowerRoot Power = "rootUser"
	// PowerResourceClaims: claims of devices.
	PowerResourceClaims Power = "resourceClaims"
)

// SettingPowers is where the operator's chart has the powers that patches may add.
const SettingPowers = "sandboxes.patches.allow"

// AllPowers are all of them, in the order of the documentation.
func AllPowers() []Power {
	return []Power{
		PowerHostNamespaces, PowerHostPorts, PowerPrivileged, PowerCapabilities, PowerConfinement, PowerSysctls, PowerSecurityProfiles,
		PowerRuntimeClass, PowerServiceAccount, PowerNodeName, PowerPriority, PowerHostPath, PowerVolumes, PowerProbeHosts,
		PowerSecrets, PowerNodePrograms, PowerRoot, PowerResourceClaims,
	}
}

// Powers are those that patches may add.
type Powers []Power

// ParsePowers reads the names of a configuration.
func ParsePowers(names []string) (Powers, error) {
	var out Powers
	for _, name := range names {
		if !slices.Contains(AllPowers(), Power(name)) {
			known := make([]string, 0, len(AllPowers()))
			for _, p := range AllPowers() {
				known = append(known, string(p))
			}
			return nil, fmt.Errorf("%q is no power that patches may be allowed to add; there are: %s", name, strings.Join(known, ", "))
		}
		out = append(out, Power(name))
	}
	return out, nil
}

// grant is a power that a pod has and its baseline has not.
type grant struct {
	power Power
	// path is the field that gives it.
	path string
	// read is the object that PowerSecrets is about, and what, for PowerNodePrograms, that
	// which runs.
	read Read
	what string
}

// guardPowers refuses patches that give the fork more power than its baseline has:
// they are applied with the rights of the operator, which their author may not have.
// What counts is the result: a power that an earlier patch adds and a later one takes
// away is none.
func guardPowers(drafts []*draft, live *baseline.Workload, plan Plan) *Problem {
	first, last := drafts[0], len(drafts)-1
	kept := plan.kept(&first.template)
	refused := func(i int) []grant {
		return slices.DeleteFunc(granted(&first.template, &drafts[i].template), func(g grant) bool {
			return slices.Contains(plan.Powers, g.power) || slices.Contains(kept, g.alike()) || plan.answered(g)
		})
	}
	if last == 0 {
		return nil
	}
	wrong := refused(last)
	if len(wrong) == 0 {
		return nil
	}
	by := last // The patch that gave it, and no later one took away.
	for by > 1 && slices.Contains(refused(by-1), wrong[0]) {
		by--
	}
	here := patchPlace{index: by - 1, count: last, live: live}
	more := ""
	if len(wrong) > 1 {
		more = fmt.Sprintf(" (and %d more fields)", len(wrong)-1)
	}
	return problem(ReasonPatchNotAllowed,
		"%s gives the fork more power than its baseline has, by %s%s: change the patch, or, for every sandbox, let the operator's chart have %s: [%s]",
		here, wrong[0].path, more, SettingPowers, names(wrong))
}

// answered reports whether somebody else has answered for a power: reading an object is
// what the API server has asked about the author. Resources answer for nothing here: who
// writes a ForkedWorkload can call any object what a resource gives.
func (p Plan) answered(g grant) bool { return p.AuthorAsked && g.power == PowerSecrets }

// Outputs returns the objects that the plan says the resources of the sandbox give. Believe
// it only of a plan that was made from a sandbox: in a ForkedWorkload anybody can claim it.
func (p Plan) Outputs() map[Read]bool {
	out := map[Read]bool{}
	for _, r := range p.Resources {
		kind := r.OutputKind
		if kind == "" {
			kind = defaultOutputKind
		}
		out[Read{Kind: kind, Name: r.ObjectName}] = true
	}
	return out
}

// kept returns the powers that a fork of the plan has that runs, and that were none
// before this version: it goes on with them.
func (p Plan) kept(base *corev1.PodTemplateSpec) []grant {
	if p.Running == nil {
		return nil
	}
	g := &grants{base: &base.Spec, next: p.Running}
	g.late()
	for i := range g.found {
		g.found[i] = g.found[i].alike()
	}
	return g.found
}

// alike returns a grant by what counts when two are compared: an object that is read is
// the same in whatever field it stands.
func (g grant) alike() grant {
	if g.power == PowerSecrets {
		g.path = ""
	}
	return g
}

// names lists the powers for a message, each once.
func names(grants []grant) string {
	var out []string
	for _, g := range grants {
		if !slices.Contains(out, string(g.power)) {
			out = append(out, string(g.power))
		}
	}
	return strings.Join(out, ", ")
}

// granted returns what pods made from next may do and pods made from base may not.
func granted(base, next *corev1.PodTemplateSpec) []grant {
	g := &grants{base: &base.Spec, next: &next.Spec}
	g.pod()
	g.profiles("spec.template.spec.securityContext", podProfiles(next), podProfiles(base))
	g.annotations(base.Annotations, next.Annotations)
	g.volumes()
	g.late()
	for _, c := range containers(next.Spec) {
		was, _ := containerNamed(base.Spec, c.Name)
		g.container(c.path, was, c.Container)
		g.confined(c.path, c.Container)
		g.profiles(c.path+".securityContext", profilesOf(next, c.Container), profilesOfBaseline(base, c.Name)...)
	}
	return g.found
}

// late looks at what later versions have come to call a power. A fork that runs keeps it.
func (g *grants) late() {
	g.reads()
	g.programs()
	g.users()
	g.claims()
}

// grants collects what next may do and base may not.
type grants struct {
	base, next *corev1.PodSpec
	found      []grant
}

// when notes a power if it is added.
func (g *grants) when(added bool, power Power, path string) {
	if added {
		g.found = append(g.found, grant{power: power, path: path})
	}
}

// container is a container of any kind with the path of its field.
type container struct {
	corev1.Container
	path string
}

// containers returns all containers of a pod, of all kinds.
func containers(pod corev1.PodSpec) []container {
	var out []container
	add := func(field string, c corev1.Container) {
		out = append(out, container{c, "spec.template.spec." + field + "[" + c.Name + "]"})
	}
	for _, c := range pod.InitContainers {
		add("initContainers", c)
	}
	for _, c := range pod.Containers {
		add("containers", c)
	}
	for _, c := range pod.EphemeralContainers {
		add("ephemeralContainers", corev1.Container(c.EphemeralContainerCommon))
	}
	return out
}

// containerNamed returns the container of this name, of whatever kind; one in which
// nothing is set when there is none.
func containerNamed(pod corev1.PodSpec, name string) (corev1.Container, bool) {
	for _, c := range containers(pod) {
		if c.Name == name {
			return c.Container, true
		}
	}
	return corev1.Container{Name: name}, false
}
