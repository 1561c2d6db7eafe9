// Package power computes the powers that pods of one template have and pods of another do not: power over
// nodes, and over objects of other owners. It is pure: values in, values out.
//
// Containers are compared by name, and a new one with an empty one; restrictions that all containers of
// the baseline share must apply to the new one as well.
//
//	Added      the added powers, each with its field           power.go, pod.go, container.go, volume.go, program.go
//	           restrictions of containers in the baseline      confinement.go
//	Confining  the restrictions that a new container inherits  inherit.go
//	Reads      the objects that a pod can read                 reads.go
//
// Its tests are in package fork, power_*_test.go: they check the powers of a whole fork.
package power

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"switchyard.dev/eventbus/spelling"
)

// Power is a kind of power over nodes, or over objects of other owners, that a pod can have. Its value is
// the name in the operator's configuration.
type Power string

// Powers that patches can add only if the operator's configuration allows them.
const (
	// HostNamespaces: hostNetwork, hostPID, hostIPC, and users of the node.
	HostNamespaces Power = "hostNamespaces"
	// HostPorts: ports of the node.
	HostPorts Power = "hostPorts"
	// Privileged: privileged, allowPrivilegeEscalation, an unmasked /proc, and
	// processes of a Windows node.
	Privileged Power = "privileged"
	// Capabilities: capabilities other than NET_BIND_SERVICE.
	Capabilities Power = "capabilities"
	// Confinement: dropping restrictions of the baseline: allowPrivilegeEscalation: false,
	// capabilities.drop or runAsNonRoot: true.
	Confinement Power = "confinement"
	// Sysctls: settings of the kernel.
	Sysctls Power = "sysctls"
	// SecurityProfiles: weaker or other seccomp, AppArmor and SELinux.
	SecurityProfiles Power = "securityProfiles"
	// RuntimeClass: another container runtime.
	RuntimeClass Power = "runtimeClass"
	// ServiceAccount: another service account, its token where the baseline has
	// none, tokens and certificates for other audiences, Windows accounts.
	ServiceAccount Power = "serviceAccount"
	// NodeName: a node named, past the scheduler.
	NodeName Power = "nodeName"
	// Priority: the priority of parts of the cluster itself.
	Priority Power = "systemPriority"
	// HostPath: directories of the node.
	HostPath Power = "hostPath"
	// Volumes: volumes of other kinds that reach the node, a driver or remote storage without an object
	// that another user granted.
	Volumes Power = "volumes"
	// ProbeHosts: probes and hooks that make the kubelet ask another host.
	ProbeHosts Power = "probeHosts"
	// Secrets: Secrets, ConfigMaps and claims of the namespace that the baseline does not use, if the
	// author's permission to read them was not checked.
	Secrets Power = "secrets"
	// NodePrograms: another image or command where the baseline has the node in
	// reach, because it is privileged or mounts a directory of it.
	NodePrograms Power = "nodePrograms"
	// Root: root, where the baseline names another user.
	Root Power = "rootUser"
	// ResourceClaims: claims of devices.
	ResourceClaims Power = "resourceClaims"
)

// Setting is where the operator's chart has the powers that patches may add.
const Setting = "sandboxes.patches.allow"

// All are all of them, in the order of the documentation.
func All() []Power {
	return []Power{
		HostNamespaces, HostPorts, Privileged, Capabilities, Confinement, Sysctls, SecurityProfiles,
		RuntimeClass, ServiceAccount, NodeName, Priority, HostPath, Volumes, ProbeHosts,
		Secrets, NodePrograms, Root, ResourceClaims,
	}
}

// Powers are those that patches may add.
type Powers []Power

// Parse reads the names of a configuration.
func Parse(names []string) (Powers, error) {
	return spelling.Known(names, All(), "power that patches may be allowed to add")
}

// Grant is a power that a pod has and its baseline has not.
type Grant struct {
	Power Power
	// Path is the field that adds the power.
	Path string
	// read is the object for Secrets, and what is the program for NodePrograms.
	read Read
	what string
}

// Added returns the powers that pods made from next have and pods made from base do not. running is the
// pod of a running fork, nil if there is none: it keeps powers that this version is the first to check.
func Added(base, next *corev1.PodTemplateSpec, running *corev1.PodSpec) []Grant {
	kept := &grants{base: &base.Spec, next: running}
	if running != nil {
		kept.late()
	}
	return slices.DeleteFunc(granted(base, next), func(g Grant) bool {
		return slices.ContainsFunc(kept.found, func(k Grant) bool { return k.alike() == g.alike() })
	})
}

// alike returns a grant reduced to the fields by which two are compared: an object is the same whichever
// field refers to it.
func (g Grant) alike() Grant {
	if g.Power == Secrets {
		g.Path = ""
	}
	return g
}

// Names lists the powers for a message, each once.
func Names(grants []Grant) string {
	var out []string
	for _, g := range grants {
		if !slices.Contains(out, string(g.Power)) {
			out = append(out, string(g.Power))
		}
	}
	return strings.Join(out, ", ")
}

// granted returns the powers that pods made from next have and pods made from base do not.
func granted(base, next *corev1.PodTemplateSpec) []Grant {
	g := &grants{base: &base.Spec, next: &next.Spec}
	g.pod()
	g.profiles("spec.template.spec.securityContext", podProfiles(next), podProfiles(base))
	g.annotations(base.Annotations, next.Annotations)
	g.volumes()
	g.late()
	for _, c := range Containers(next.Spec) {
		was, _ := ContainerNamed(base.Spec, c.Name)
		g.container(c.path, was, c.Container)
		g.confined(c.path, c.Container)
		g.profiles(c.path+".securityContext", profilesOf(next, c.Container), profilesOfBaseline(base, c.Name)...)
	}
	return g.found
}

// late checks the powers that later versions of the operator added. A running fork keeps them.
func (g *grants) late() {
	g.reads()
	g.programs()
	g.users()
	g.claims()
}

// grants collects the powers of next that base does not have.
type grants struct {
	base, next *corev1.PodSpec
	found      []Grant
}

// when records a power if it is added.
func (g *grants) when(added bool, power Power, path string) {
	if added {
		g.found = append(g.found, Grant{Power: power, Path: path})
	}
}

// Container is a container of any kind with the path of its field.
type Container struct {
	corev1.Container
	path string
}

// Containers returns all containers of a pod, of all kinds.
func Containers(pod corev1.PodSpec) []Container {
	var out []Container
	add := func(field string, c corev1.Container) {
		out = append(out, Container{c, "spec.template.spec." + field + "[" + c.Name + "]"})
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

// ContainerNamed returns the container of this name, of whatever kind; one in which
// nothing is set when there is none.
func ContainerNamed(pod corev1.PodSpec, name string) (corev1.Container, bool) {
	for _, c := range Containers(pod) {
		if c.Name == name {
			return c.Container, true
		}
	}
	return corev1.Container{Name: name}, false
}
