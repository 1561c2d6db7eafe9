package power

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"switchyard.dev/reconcilers/baseline"
)

// systemPriority is where the priorities of the cluster's own parts begin.
const systemPriority = 2_000_000_000

// pod compares the settings of the whole pod.
func (g *grants) pod() {
	const at = "spec.template.spec."
	base, next := g.base, g.next
	g.when(next.HostNetwork && !base.HostNetwork, HostNamespaces, at+"hostNetwork")
	g.when(next.HostPID && !base.HostPID, HostNamespaces, at+"hostPID")
	g.when(next.HostIPC && !base.HostIPC, HostNamespaces, at+"hostIPC")
	g.when(degree(next.HostUsers) > degree(base.HostUsers), HostNamespaces, at+"hostUsers")
	g.when(accountOrDefault(*next) != accountOrDefault(*base), ServiceAccount, at+"serviceAccountName")
	g.when(degree(next.AutomountServiceAccountToken) > degree(base.AutomountServiceAccountToken),
		ServiceAccount, at+"automountServiceAccountToken")
	g.when(next.NodeName != "" && next.NodeName != base.NodeName, NodeName, at+"nodeName")
	g.when(textOf(next.RuntimeClassName) != textOf(base.RuntimeClassName), RuntimeClass, at+"runtimeClassName")
	g.when(strings.HasPrefix(next.PriorityClassName, "system-") && next.PriorityClassName != base.PriorityClassName,
		Priority, at+"priorityClassName")
	g.when(next.Priority != nil && *next.Priority >= systemPriority && (base.Priority == nil || *next.Priority > *base.Priority),
		Priority, at+"priority")

	was, is := contextOf(base), contextOf(next)
	for _, s := range is.Sysctls {
		g.when(!slices.Contains(was.Sysctls, s), Sysctls, at+"securityContext.sysctls["+s.Name+"]")
	}
	g.windows(at+"securityContext.windowsOptions", was.WindowsOptions, is.WindowsOptions)
	g.hostPorts()
}

// windows compares the Windows options of a pod or a container.
func (g *grants) windows(path string, base, next *corev1.WindowsSecurityContextOptions) {
	if next == nil {
		return
	}
	base = cmp.Or(base, &corev1.WindowsSecurityContextOptions{})
	g.when(isTrue(next.HostProcess) && !isTrue(base.HostProcess), Privileged, path+".hostProcess")
	for _, option := range []struct {
		name    string
		was, is *string
	}{
		{"gmsaCredentialSpecName", base.GMSACredentialSpecName, next.GMSACredentialSpecName},
		{"gmsaCredentialSpec", base.GMSACredentialSpec, next.GMSACredentialSpec},
	} {
		g.when(textOf(option.is) != "" && textOf(option.is) != textOf(option.was), ServiceAccount, path+"."+option.name)
	}
}

// hostPort is a port of the node.
type hostPort struct {
	ip       string
	port     int32
	protocol corev1.Protocol
}

// hostPorts compares the host ports. A pod in the network of the node can use all of them anyway.
func (g *grants) hostPorts() {
	if g.base.HostNetwork {
		return
	}
	had := map[hostPort]bool{}
	for _, c := range Containers(*g.base) {
		for _, p := range c.Ports {
			had[hostPort{p.HostIP, p.HostPort, baseline.ProtocolOf(p.Protocol)}] = true
		}
	}
	for _, c := range Containers(*g.next) {
		for _, p := range c.Ports {
			g.when(p.HostPort != 0 && !had[hostPort{p.HostIP, p.HostPort, baseline.ProtocolOf(p.Protocol)}],
				HostPorts, c.path+".ports.hostPort")
		}
	}
}

// annotations compares the annotations that Kubernetes used for security settings before there were
// fields, some of which it still reads. Annotations of other software are not known here; that software
// has to check them itself.
func (g *grants) annotations(base, next map[string]string) {
	settings := []struct {
		prefix string
		power  Power
		weak   []string // Values that give no power.
	}{
		{corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix, SecurityProfiles, []string{"runtime/default"}},
		{"seccomp.security.alpha.kubernetes.io/", SecurityProfiles, []string{"runtime/default", "docker/default"}},
		{"container.seccomp.security.alpha.kubernetes.io/", SecurityProfiles, []string{"runtime/default", "docker/default"}},
		{"security.alpha.kubernetes.io/", Sysctls, nil},
	}
	for _, key := range sortedKeys(next) {
		for _, s := range settings {
			g.when(strings.HasPrefix(key, s.prefix) && next[key] != base[key] && !slices.Contains(s.weak, next[key]),
				s.power, "spec.template.metadata.annotations["+key+"]")
		}
	}
}

// accountOrDefault returns the service account that a pod gets.
func accountOrDefault(pod corev1.PodSpec) string {
	if name := Account(pod); name != "" {
		return name
	}
	return "default"
}

// Account returns the service account of a pod; empty when it names none.
func Account(pod corev1.PodSpec) string {
	if pod.ServiceAccountName != "" {
		return pod.ServiceAccountName
	}
	return pod.DeprecatedServiceAccount
}

// contextOf returns the security context of a pod, never nil.
func contextOf(pod *corev1.PodSpec) *corev1.PodSecurityContext {
	if pod.SecurityContext == nil {
		return &corev1.PodSecurityContext{}
	}
	return pod.SecurityContext
}

// degree orders the values of a setting with a default: false, unset, true.
func degree(b *bool) int {
	switch {
	case b == nil:
		return 1
	case *b:
		return 2
	default:
		return 0
	}
}

// isTrue reports whether it is set to true.
func isTrue(b *bool) bool { return b != nil && *b }

// textOf returns the text, which is empty when there is none.
func textOf(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
