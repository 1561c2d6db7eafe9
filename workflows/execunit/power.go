package execunit

import "switchyard.dev/eventbus/spelling"

// Power is a permission that the pod of a unit has only where the operator's configuration grants
// it. Its text is the name in the configuration; permissions for patches of sandboxes have the
// same names (reconcilers/fork/power).
type Power string

// The powers beyond Pod Security baseline.
const (
	// HostNamespaces: hostNetwork, hostPID and hostIPC.
	HostNamespaces Power = "hostNamespaces"
	// HostPorts: ports of the node.
	HostPorts Power = "hostPorts"
	// Privileged: privileged, an unmasked /proc, and processes of a Windows node.
	Privileged Power = "privileged"
	// Capabilities: capabilities beyond the defaults of containers.
	Capabilities Power = "capabilities"
	// Sysctls: settings of the kernel that are not safe.
	Sysctls Power = "sysctls"
	// SecurityProfiles: no seccomp or AppArmor, other SELinux.
	SecurityProfiles Power = "securityProfiles"
	// ServiceAccount: a service account or its token where the author is not asked or in the operator's
	// namespace; tokens and certificates for other audiences.
	ServiceAccount Power = "serviceAccount"
	// HostPath: directories of the node.
	HostPath Power = "hostPath"
	// ProbeHosts: probes and hooks that make the kubelet ask another host.
	ProbeHosts Power = "probeHosts"
	// Secrets: Secrets, ConfigMaps and claims of the namespace, where the API server does not ask
	// whether the author may read them.
	Secrets Power = "secrets"
)

// Setting is the setting of the operator's chart with the powers of units.
const Setting = "workflows.runner.allow"

// All returns all powers, in the order of the documentation.
func All() []Power {
	return []Power{
		HostNamespaces, HostPorts, Privileged, Capabilities, Sysctls, SecurityProfiles,
		ServiceAccount, HostPath, ProbeHosts, Secrets,
	}
}

// Powers are the powers that units may have.
type Powers []Power

// Parse reads the names of a configuration.
func Parse(names []string) (Powers, error) {
	return spelling.Known(names, All(), "power that the pods of steps may be allowed")
}
